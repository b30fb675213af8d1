#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/status.h"
#include "data/batch/batch.h"
#include "data/reading/arrow_source.h"
#include "predict/model_version.h"

namespace simurgh {

// Most rows of a batch of a table.
inline constexpr size_t kTableBatchRows = 4'096;

// Reads tables, one after the other, with the feature processing of a version. Making a reader
// costs more than reading a few rows.
//
// Threads: one owner.
class TableReader {
 public:
  explicit TableReader(const std::shared_ptr<const ModelVersion>& version);

  // Returns whether the reader is of this version.
  bool Fits(const std::shared_ptr<const ModelVersion>& version) const {
    return version_.lock() == version;
  }

  // Takes over a table. Requires that Next() has returned nothing since the last one. After an
  // error the reader must not be used. Errors: INVALID_ARGUMENT for its columns.
  Status Begin(ArrowArrayStream* table);
  // Returns the next rows of the table; nothing: it has ended, and its memory is released.
  StatusOr<std::optional<Batch>> Next() { return tables_->Next(); }

  // Returns, for each row of the table, whether a batch has it; else it cannot be parsed.
  const std::vector<bool>& is_good() const { return is_good_; }
  uint64_t bad_rows() const { return tables_->skipped_rows() - bad_before_; }

 private:
  const std::weak_ptr<const ModelVersion> version_;
  std::vector<bool> is_good_;
  uint64_t bad_before_ = 0;  // Earlier tables had these.
  std::unique_ptr<ArrowTableBatcher> tables_;
};

}  // namespace simurgh
