#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/status.h"
#include "config/table_config.h"

namespace simurgh {

// Returns the bytes of a row's weights.
inline size_t RowBytes(const TableConfig& config) {
  return size_t{config.dim} * SizeOf(config.precision);
}

// Rows of one table, without optimizer state, to be read. It can lie over an older table: it then
// has the rows that changed, and the ids that went.
//
// An index of 12 bytes a row maps ids to rows: open addressing with linear probing, 1.5 slots a
// row. A slot has 32 bits of the hash, so that a search reads the id of few other rows.
//
// Threads: one owner while it is filled, then any.
class RowTable {
 public:
  static constexpr uint64_t kMaxRows = 0xffff'fff0;
  static constexpr uint32_t kAbsent = 0xffff'ffff;   // The table has no entry of the id.
  static constexpr uint32_t kRemoved = 0xffff'fffe;  // Older rows of the id are gone.

  // rows: number of ids with weights. removed: number of ids that went. Errors: RESOURCE_EXHAUSTED
  // without memory, or for more than kMaxRows.
  static StatusOr<std::shared_ptr<RowTable>> Create(const TableConfig& config, uint64_t rows,
                                                    uint64_t removed);

  static uint64_t BytesOf(const TableConfig& config, uint64_t rows);

  uint64_t rows() const { return rows_; }
  uint64_t entries() const { return ids_.size() / sizeof(uint64_t); }  // Rows and removed ids.
  uint64_t bytes() const { return ids_.size() + weights_.size() + slots_.size(); }

  // (rows + removed) the ids, removed ones last.
  std::span<uint64_t> ids() { return ids_.as<uint64_t>(entries()); }
  std::span<const uint64_t> ids() const { return ids_.as<const uint64_t>(entries()); }
  size_t row_bytes() const { return row_bytes_; }
  // (rows) weights of row_bytes() each.
  std::span<std::byte> weights() { return weights_.bytes(); }
  std::span<const std::byte> weights() const { return weights_.bytes(); }
  const std::byte* row(uint32_t row) const { return weights_.data() + row * row_bytes_; }

  // Makes the ids known to Find(). Errors: DATA_LOSS for an id that occurs twice.
  Status Index();

  // Finds rows. rows[i]: the row of ids[i], kAbsent or kRemoved.
  void Find(std::span<const uint64_t> ids, std::span<uint32_t> rows) const;

 private:
  struct Slot {
    uint32_t row;
    uint32_t tag;
  };
  RowTable(uint64_t rows, uint64_t removed, size_t row_bytes);

  uint64_t SlotOf(uint64_t hash) const;

  const uint64_t rows_;
  const size_t row_bytes_;
  uint64_t slot_count_;
  AlignedBuffer ids_;
  AlignedBuffer weights_;
  AlignedBuffer slots_;
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
  // and a row is copied rarely. Errors: RESOURCE_EXHAUSTED.
  StatusOr<RowLayers> With(const TableConfig& config, std::shared_ptr<const RowTable> newest) const;

 private:
  std::vector<std::shared_ptr<const RowTable>> layers_;  // The oldest first.
  uint64_t rows_ = 0;
};

}  // namespace simurgh
