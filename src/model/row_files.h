#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"

#include "base/status.h"
#include "config/table_config.h"
#include "model/model_directory.h"
#include "model/tensor_file.h"

namespace simurgh {

// Key in the metadata of a file of rows that is a delta: it has only rows that changed since the
// parent's file. The value is the number of rows that the table then has on that server.
inline constexpr char kRowsAfterDelta[] = "rows_after_delta";

// Returns the tensor of this name; null if there is none.
const TensorSpec* FindTensor(const std::vector<TensorSpec>& tensors, std::string_view name);
// Returns a text such as "F32 [120, 16]".
std::string DescribeTensor(const TensorSpec& tensor);

// Returns the number of rows in a file of rows, equal for all its tensors; 0 without tensors.
uint64_t RowsOf(const TensorFileReader& file);
// Returns the value of kRowsAfterDelta; nothing for a full file. path: named in errors.
// Errors: DATA_LOSS for another text.
StatusOr<std::optional<uint64_t>> RowsAfterDelta(const std::string& path,
                                                 const TensorFileReader& file);
// Reads the ids of all rows.
StatusOr<std::vector<uint64_t>> ReadIds(TensorFileReader& file);
// Returns the index of a table. Errors: INVALID_ARGUMENT if there is none of this name.
StatusOr<uint32_t> TableIndex(std::string_view name, const std::vector<TableConfig>& tables);

// A file of rows, of which newer files may have replaced some.
class RowFile {
 public:
  // For each id, the age of the newest delta that has the row or its removal.
  using Newest = absl::flat_hash_map<uint64_t, uint32_t>;

  RowFile(std::string path, TensorFileReader reader, std::shared_ptr<const Newest> newest,
          uint32_t age);

  // Returns whether Has() is true for all its rows.
  bool has_all() const { return newest_->empty(); }
  // Returns whether no newer file has replaced or removed the row. id: the id of a row of the file.
  bool Has(uint64_t id) const {
    const auto found = newest_->find(id);
    return found == newest_->end() || found->second == age_;
  }

  std::string path;
  TensorFileReader reader;
  TensorMetadata metadata;  // The file's metadata without kRowsAfterDelta.

 private:
  std::shared_ptr<const Newest> newest_;
  uint32_t age_;  // 0: file of the checkpoint itself; 1: of its parent; and so on.
};

// The rows of one table on one server.
struct SavedRows {
  // Calls visit(parts) for each piece of the rows, the oldest file first. tensors: names. parts:
  // the piece's rows of each.
  // Errors: DATA_LOSS for damage, naming file, tensor and rows; those of `visit`, which end it.
  using Parts = std::span<const std::vector<std::byte>>;
  Status ForEachPiece(std::span<const std::string> tensors, absl::FunctionRef<Status(Parts)> visit);

  // Call with the number of rows that were read. Errors: DATA_LOSS if the files are not those of
  // the same chain, or damaged.
  Status CheckCount(uint64_t read) const;

  std::string table;
  std::string name;  // "rows/TABLE/SERVER.safetensors".
  std::vector<RowFile> files;
  uint64_t rows = 0;
};

// Returns the table of a file of rows; empty for other files.
std::string TableOf(const ModelFile& file);

// Returns the number of rows of each table. Reads the headers of its own files only.
// Errors: those of OpenTensors and RowsAfterDelta.
StatusOr<std::map<std::string, uint64_t>> CountRows(const Checkpoint& checkpoint);

// Opens the files of a checkpoint's rows, and for a delta those of the checkpoints that it
// continues. table: empty for all. Sorted by name.
//
// Reads the ids of deltas. Memory: some 20 bytes for each.
// Errors: of Checkpoint::Chain and OpenTensors; DATA_LOSS for files that do not form a chain.
StatusOr<std::vector<SavedRows>> OpenRows(const Checkpoint& checkpoint,
                                          const std::string& table = {});

}  // namespace simurgh
