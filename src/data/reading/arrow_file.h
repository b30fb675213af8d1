#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "config/data_config.h"
#include "data/reading/arrow_rows.h"
#include "simurgh/arrow_c_data.h"
#include "simurgh/arrow_module.h"

namespace simurgh {

// One file, stream or table.
class ArrowFile {
 public:
  virtual ~ArrowFile() = default;

  virtual StatusOr<ArrowOwner<ArrowSchema>> Schema() = 0;
  // Chooses the columns of Next(), by their places in the schema. Returns their types.
  virtual StatusOr<ArrowOwner<ArrowSchema>> Select(std::span<const size_t> columns) = 0;
  // Returns the next rows; nothing: there are no more.
  virtual StatusOr<std::optional<ArrowOwner<ArrowArray>>> Next() = 0;
  virtual uint64_t Skip(uint64_t /*rows*/) { return 0; }
  // Returns the number of rows; below 0: it is not known.
  virtual int64_t rows() const { return -1; }
};

// Opens a file or stream; the module outlives it. Errors: those of OpenArrowSource.
StatusOr<std::unique_ptr<ArrowFile>> OpenArrowFile(const simurgh_arrow_module& module,
                                                   DataConfig::Format format,
                                                   const std::string& path);
// Opens an IPC file or stream in memory, which outlives it.
StatusOr<std::unique_ptr<ArrowFile>> OpenArrowBytes(const simurgh_arrow_module& module,
                                                    std::string_view bytes);

// A table that a program of this process gives.
class TableFile final : public ArrowFile {
 public:
  // The columns of a table that are read.
  struct Selection {
    std::vector<size_t> columns;
    size_t children = 0;  // Number of the table's columns.
  };

  // Takes over the stream.
  explicit TableFile(ArrowArrayStream* stream) : stream_(std::exchange(*stream, {})) {}
  // Takes over a stream with a selection of a table with an equal schema.
  TableFile(ArrowArrayStream* stream, Selection selection)
      : stream_(std::exchange(*stream, {})), selection_(std::move(selection)) {}
  TableFile(const TableFile&) = delete;
  TableFile& operator=(const TableFile&) = delete;
  ~TableFile() override;

  StatusOr<ArrowOwner<ArrowSchema>> Schema() override;
  StatusOr<ArrowOwner<ArrowSchema>> Select(std::span<const size_t> columns) override;
  StatusOr<std::optional<ArrowOwner<ArrowArray>>> Next() override;
  const Selection& selection() const { return selection_; }

 private:
  Status Failure(const char* what);

  ArrowArrayStream stream_;
  Selection selection_;
};

}  // namespace simurgh
