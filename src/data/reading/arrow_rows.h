#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"

#include "base/mutex.h"
#include "base/status.h"
#include "config/data_config.h"
#include "data/reading/batch_reader.h"
#include "data/reading/row_batcher.h"
#include "simurgh/arrow_module.h"

namespace simurgh {

// Owns an ArrowSchema or ArrowArray, or none. Move-only.
template <typename Struct>
class ArrowOwner {
 public:
  ArrowOwner() = default;
  ArrowOwner(ArrowOwner&& other) noexcept : value_(std::exchange(other.value_, {})) {}
  ArrowOwner& operator=(ArrowOwner&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~ArrowOwner() {
    if (value_.release != nullptr) value_.release(&value_);
  }

  Struct* get() { return &value_; }
  const Struct* get() const { return &value_; }

 private:
  Struct value_{};
};

// Finds configured columns by name among those of a schema: for each of ColumnsOf(), its place, or
// FileColumns::kAbsent. needs_labels: see FindColumns. elsewhere: names that the schema may lack.
// Errors: INVALID_ARGUMENT for a schema that is no struct, lacks a needed column or has it twice.
StatusOr<std::vector<size_t>> FindArrowColumns(const DataConfig& config, const ArrowSchema& schema,
                                               bool needs_labels,
                                               const std::set<std::string>& elsewhere = {});

// The last dictionary of each column, hashed by the first thread that needs it. All ArrowRows of a
// file share it.
//
// Threads: any.
class HashedDictionaries {
 public:
  explicit HashedDictionaries(size_t columns);
  ~HashedDictionaries();

 private:
  friend class ArrowRows;
  struct Hashed;
  struct Of {
    Mutex mutex;
    std::shared_ptr<const Hashed> last ABSL_GUARDED_BY(mutex);
  };

  std::deque<Of> columns_;
};

// Reads rows of Arrow arrays as cells, in place.
//
// Supported types: integers, booleans (0 and 1), floats, decimals, texts and bytes, dates and times
// (as integers, in a column of dates as seconds), each also as a dictionary; and lists of those. A
// list of structs of two has values and weights. Nulls and floats that are NaN are missing. An id
// of an integer, or of a float that is one, is its decimal text.
//
// The module gives the arrays, and is trusted to give buffers of the size that Arrow requires.
// Counts, offsets and places beyond them are errors.
//
// Threads: one owner.
class ArrowRows {
 public:
  // columns: the columns of the rows, in the order of the schema's children.
  // Errors: INVALID_ARGUMENT for a type that is not read, or that the column cannot have.
  static StatusOr<ArrowRows> Create(const ArrowSchema& schema, std::vector<ColumnConfig> columns);
  ~ArrowRows();
  ArrowRows(ArrowRows&&) noexcept;
  ArrowRows& operator=(ArrowRows&&) noexcept;

  // Computes the HashText() of a column's ids when rows are taken, which is faster than Read().
  // Texts in missing_values are missing. Requires a column of ids without weights or a separator,
  // and for the same dictionaries the same seed and missing values. Lifetime: dictionaries outlive
  // this.
  void Hash(size_t column, uint64_t seed, const std::vector<std::string>& missing_values,
            HashedDictionaries& dictionaries);
  bool CanHash(size_t column) const;
  bool HasWeights(size_t column) const;
  struct RowHashes {
    std::vector<uint64_t> hashes;
    std::vector<uint32_t> ends;  // End of each row in `hashes`; empty: each row has one hash.

    std::span<const uint64_t> of(size_t row) const {
      if (ends.empty()) return {hashes.data() + row, 1};
      const size_t first = row == 0 ? 0 : ends[row - 1];
      return {hashes.data() + first, ends[row] - first};
    }
  };
  // Returns the hashes of the rows' ids in a column of Hash(). The caller may swap the vectors for
  // others. Lifetime: until Take().
  RowHashes& Hashes(size_t column);

  // Takes the rows [first, first + count) of a record batch. Errors: DATA_LOSS naming the column,
  // for arrays that do not fit the schema.
  Status Take(std::shared_ptr<const ArrowOwner<ArrowArray>> batch, size_t first, size_t count);

  // Releases the record batch, whose rows can no longer be read.
  void Release();

  size_t rows() const { return rows_; }

  // Sets the cell of each column, or of each that is not hashed. cells: one per column. Requires
  // row < rows(). Lifetime of texts and lists: until the next call. Errors: DATA_LOSS naming the
  // column.
  Status Read(size_t row, std::span<Cell* const> cells, bool with_hashed = true);

 private:
  struct Column;
  ArrowRows();

  std::vector<Column> columns_;
  std::vector<size_t> read_;  // Columns that are not hashed.
  std::shared_ptr<const ArrowOwner<ArrowArray>> batch_;
  int64_t first_ = 0;  // Index of the first row in the arrays of the columns.
  size_t rows_ = 0;
};

}  // namespace simurgh
