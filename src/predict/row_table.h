#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/status.h"
#include "predict/mapped_rows.h"
#include "predict/packed_index.h"
#include "predict/row_encoding.h"

namespace simurgh {

// Rows of one table, without optimizer state, to be read. They are in memory, in the order of the
// index, or in mapped files. The table can lie over an older one: it then has the rows that
// changed, and the ids that went.
//
// Threads: immutable.
class RowTable {
 public:
  static constexpr uint64_t kMaxRows = PackedIndex::kMaxIds;
  static constexpr uint32_t kAbsent = PackedIndex::kAbsent;  // The table has no entry of the id.
  static constexpr uint32_t kRemoved = 0xffff'fffe;          // Older rows of the id are gone.

  // Bytes of a table with this number of rows.
  static uint64_t BytesOf(const RowEncoding& encoding, uint64_t rows, bool is_mapped);

  uint64_t rows() const { return index_.size(); }
  uint64_t removed() const { return removed_.size(); }
  uint64_t entries() const { return rows() + removed(); }
  uint64_t bytes() const { return index_.bytes() + removed_.bytes() + weights_.size(); }
  bool is_mapped() const { return is_mapped_; }
  const MappedRows& mapped() const { return mapped_; }
  const std::byte* row(uint32_t row) const {
    return is_mapped_ ? mapped_.row(row, row_bytes_) : weights_.data() + row * row_bytes_;
  }

  // Finds rows. rows[i]: the row of ids[i], kAbsent or kRemoved.
  void Find(std::span<const uint64_t> ids, std::span<uint32_t> rows) const;

  // Call visit(ids, rows) and visit(ids) with pieces of all ids with and without a row.
  template <typename Visit>
  void ForEachRow(Visit visit) const {
    index_.ForEachPiece(visit);
  }
  template <typename Visit>
  void ForEachRemoved(Visit visit) const {
    removed_.ForEachPiece(
        [&](std::span<const uint64_t> ids, std::span<const uint32_t> /*rows*/) { visit(ids); });
  }

 private:
  friend class RowTableBuilder;
  RowTable(size_t row_bytes, bool is_mapped) : row_bytes_(row_bytes), is_mapped_(is_mapped) {}

  const size_t row_bytes_;
  const bool is_mapped_;
  PackedIndex index_;
  PackedIndex removed_;
  AlignedBuffer weights_;
  MappedRows mapped_;
};

// Makes a table: counts all ids, then adds their rows, in any pieces and order.
//
// Threads: one owner.
class RowTableBuilder {
 public:
  // about: expected number of rows; decides the memory, not the results. Errors, here and below:
  // RESOURCE_EXHAUSTED without memory, or for more than kMaxRows.
  static StatusOr<RowTableBuilder> Create(const TableConfig& config, const RowEncoding& encoding,
                                          bool is_mapped, uint64_t about);

  void Count(std::span<const uint64_t> ids) { table_->index_.Count(ids); }
  uint64_t counted() const { return table_->index_.size(); }
  Status EndCount();

  // Each adds rows whose ids were counted. Errors: DATA_LOSS for more rows than were counted.
  // rows[i]: the row of ids[i], as files have it.
  Status Add(std::span<const uint64_t> ids, std::span<const std::byte* const> rows);
  // rows[i]: the row of ids[i], encoded.
  Status AddEncoded(std::span<const uint64_t> ids, std::span<const std::byte* const> rows);
  // rows: their numbers in mapped().
  Status AddMapped(std::span<const uint64_t> ids, std::span<uint32_t> rows) {
    return table_->index_.Add(ids, rows);
  }
  MappedRows& mapped() { return table_->mapped_; }

  // Ids that went. Call it once, if at all.
  Status Remove(std::span<const uint64_t> ids);

  // Errors: DATA_LOSS for an id that occurs twice, or rows that were counted and not added.
  StatusOr<std::shared_ptr<const RowTable>> Finish();

 private:
  RowTableBuilder(const TableConfig& config, const RowEncoding& encoding,
                  std::shared_ptr<RowTable> table)
      : name_(config.name),
        stored_(StoredEncoding(config)),
        encoding_(encoding),
        table_(std::move(table)) {}

  Status TooLarge(uint64_t rows) const;
  std::byte* Place(size_t i) {
    return table_->weights_.data() + size_t{positions_[i]} * table_->row_bytes_;
  }

  std::string name_;
  RowEncoding stored_;  // Encoding of rows in files.
  RowEncoding encoding_;
  std::shared_ptr<RowTable> table_;
  std::vector<uint32_t> positions_;
};

// The rows of one table as of a step: for each id, the last layer with an entry counts.
//
// Threads: immutable.
class RowLayers {
 public:
  RowLayers() = default;
  // rows: number of rows of all layers together.
  RowLayers(std::vector<std::shared_ptr<const RowTable>> layers, uint64_t rows)
      : layers_(std::move(layers)), rows_(rows) {}

  uint64_t rows() const { return rows_; }
  // Returns the bytes of the layers, without those that `besides`, which may be null, has, too.
  uint64_t bytes(const RowLayers* besides = nullptr) const;

  // Finds weights. rows[i]: the weights of ids[i], or null for an id without a row. scratch: any.
  void Find(std::span<const uint64_t> ids, std::span<const std::byte*> rows,
            std::vector<uint32_t>& scratch) const;

  // Returns these layers and one more. Joins layers of similar size, so that there are few of them
  // and a row is copied rarely. Errors: those of RowTableBuilder.
  StatusOr<RowLayers> With(const TableConfig& config, const RowEncoding& encoding, bool is_mapped,
                           std::shared_ptr<const RowTable> newest) const;

 private:
  std::vector<std::shared_ptr<const RowTable>> layers_;  // The oldest first.
  uint64_t rows_ = 0;
};

}  // namespace simurgh
