#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "config/table_config.h"
#include "model/tensor_file.h"
#include "table/simd/row_update.h"

namespace simurgh {

// The values of a row in memory: dim weights, then shape.vectors * dim numbers of optimizer state,
// then shape.scalars f32. Each part is aligned to 4 bytes.
struct RowFormat {
  uint32_t dim = 0;
  RowStateShape shape = {0, 0};
  RowPrecision weights = RowPrecision::kF32;
  RowPrecision state = RowPrecision::kF32;

  // Everything is f32, so there is no padding and kernels work in place.
  bool plain() const {
    return weights == RowPrecision::kF32 && (state == RowPrecision::kF32 || shape.vectors == 0);
  }
  // Numbers of a row, weights and state.
  uint32_t floats() const { return dim + shape.floats(dim); }

  uint32_t weight_bytes() const { return dim * SizeOf(weights); }
  uint32_t state_offset() const { return (weight_bytes() + 3) / 4 * 4; }
  uint32_t vector_floats() const { return shape.vectors * dim; }
  uint32_t scalars_offset() const {
    return (state_offset() + vector_floats() * SizeOf(state) + 3) / 4 * 4;
  }
  uint32_t bytes() const { return scalars_offset() + shape.scalars * sizeof(float); }
  // Size of weights and state without padding.
  uint32_t payload_bytes() const {
    return weight_bytes() + vector_floats() * SizeOf(state) +
           shape.scalars * static_cast<uint32_t>(sizeof(float));
  }
};

inline constexpr uint32_t kNoRow = std::numeric_limits<uint32_t>::max();

// Recency of a free row. The id of a free row is the number of the next one in the free list.
inline constexpr uint32_t kFreeRecency = std::numeric_limits<uint32_t>::max();

// Precedes the values of a row. 16 bytes: a pull reads it in the cache line of the first weights,
// and header, index and eviction queue together may take 32 bytes a row.
struct __attribute__((packed, aligned(4))) RowHeader {
  uint64_t id;
  uint32_t recency;    // Stamp of the last training pull; kFreeRecency in a free row.
  uint32_t use_count;  // Training pulls, at most kMaxUseCount.
};
static_assert(sizeof(RowHeader) == 16 && alignof(RowHeader) == 4);
static_assert(offsetof(RowHeader, id) == 0 && offsetof(RowHeader, recency) == 8);
static_assert(offsetof(RowHeader, use_count) == 12);

// The largest count that eviction.low_use compares with.
inline constexpr uint32_t kMaxUseCount = EvictionConfig::kMaxUseCount;

inline void CountUse(RowHeader& header, uint32_t stamp) {
  header.recency = stamp;
  header.use_count += static_cast<uint32_t>(header.use_count < kMaxUseCount);
}

// A record: header | dim weights | state vectors | state scalars (f32). Parts and records are
// aligned to 4 bytes only, to keep small rows small.
struct RowLayout {
  RowLayout(const RowFormat& row_format)  // NOLINT(google-explicit-constructor)
      : format(row_format), stride_bytes(sizeof(RowHeader) + row_format.bytes()) {}

  RowFormat format;
  uint64_t stride_bytes;
};

// The rows of one table in memory: row number r is at base + r * stride.
class Rows {
 public:
  Rows(std::byte* base, const RowLayout& layout) : base_(base), layout_(layout) {}

  const RowLayout& layout() const { return layout_; }
  std::byte* record(uint32_t row) const { return base_ + row * layout_.stride_bytes; }
  RowHeader& header(uint32_t row) const { return *reinterpret_cast<RowHeader*>(record(row)); }
  // The values after the header, in the layout's format.
  std::byte* values(uint32_t row) const { return record(row) + sizeof(RowHeader); }

  // Prefetches the cache lines of the first `bytes` of a record.
  void Prefetch(uint32_t row, uint64_t bytes) const {
    __builtin_prefetch(record(row), 1);
    PrefetchRest(row, bytes);
  }

  // Returns the number of records of `bytes` to prefetch in one block. Two blocks fit into the L1
  // cache.
  static size_t PrefetchBlock(uint64_t bytes) {
    constexpr uint64_t kLines = 96;
    return std::clamp<uint64_t>(kLines / (bytes / 64 + 1), 8, 64);
  }
  // Prefetches a block of records; kNoRow entries are ignored. First lines are fetched first, in a
  // separate loop: most records are in different pages, and the number of page walks in flight
  // is the number that the processor finds in its reorder window.
  void Prefetch(std::span<const uint32_t> rows, uint64_t bytes) const {
    for (const uint32_t row : rows) __builtin_prefetch(record(row == kNoRow ? 0 : row), 1);
    for (const uint32_t row : rows) PrefetchRest(row == kNoRow ? 0 : row, bytes);
  }

 private:
  // Prefetches all lines of a record but the first.
  void PrefetchRest(uint32_t row, uint64_t bytes) const {
    const std::byte* line = record(row);
    const std::byte* const end = line + bytes;
    line += 64 - reinterpret_cast<uintptr_t>(line) % 64;
    for (; line < end; line += 64) __builtin_prefetch(line, 1);
  }

  std::byte* base_;
  RowLayout layout_;
};

// Prefetches the first bytes of records in as few instructions as possible, so that many page walks
// fit into the processor's reorder window. For loops that do little else per row; Rows::Prefetch()
// on blocks is better otherwise.
class RowFetch {
 public:
  RowFetch(const Rows& rows, uint64_t bytes)
      : first_(rows.record(0)), stride_bytes_(rows.layout().stride_bytes), last_byte_(bytes - 1) {
    // Records begin at multiples of `step` within a line.
    const uint64_t step = std::min<uint64_t>(stride_bytes_ & (~stride_bytes_ + 1), kLine);
    const uint64_t max_lines = (kLine - step + bytes + kLine - 1) / kLine;
    last_line_ = (max_lines - 1) * kLine;
    ahead_ = std::clamp<uint64_t>(kLinesAhead / max_lines, 8, 64);
  }

  // Number of rows by which a prefetch precedes the use of a record.
  size_t ahead() const { return ahead_; }

  void operator()(uint32_t row) const {
    const std::byte* record = first_ + (row == kNoRow ? 0 : row) * stride_bytes_;
    for (uint64_t line = 0; line < last_line_; line += kLine) __builtin_prefetch(record + line, 1);
    __builtin_prefetch(record + last_byte_, 1);
  }

 private:
  static constexpr uint64_t kLine = 64;
  static constexpr uint64_t kLinesAhead = 128;

  const std::byte* first_;
  uint64_t stride_bytes_;
  uint64_t last_byte_;
  uint64_t last_line_;
  size_t ahead_;
};

// Reads one header field of any row: ids for the index, stamps for the eviction queue.
template <typename T>
struct RowField {
  const std::byte* first;
  uint64_t stride_bytes;

  T operator()(uint32_t row) const {
    T value;
    std::memcpy(&value, first + row * stride_bytes, sizeof(T));
    return value;
  }
  void Prefetch(uint32_t row) const { __builtin_prefetch(first + row * stride_bytes); }
};

inline RowField<uint64_t> IdsOf(const Rows& rows) {
  return {rows.record(0) + offsetof(RowHeader, id), rows.layout().stride_bytes};
}

inline RowField<uint32_t> RecencyOf(const Rows& rows) {
  return {rows.record(0) + offsetof(RowHeader, recency), rows.layout().stride_bytes};
}

// A part of a row's values that a file stores as a tensor.
struct RowColumn {
  TensorSpec tensor;  // Its shape has no rows: {} or {D}.
  uint32_t offset;    // Bytes from the row's first weight.
  uint32_t bytes;
};

// The weights, then the optimizer's state: vectors, then scalars. Names of the state: those of
// update_rules.h, after the kind of the optimizer.
std::vector<RowColumn> ColumnsOf(const TableConfig& config);

}  // namespace simurgh
