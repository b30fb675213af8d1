#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace simurgh {

// "No row": not a row number.
inline constexpr uint32_t kNoRow = std::numeric_limits<uint32_t>::max();

// The recency of a row that holds nothing. Its id is then the number of the next free row.
inline constexpr uint32_t kFreeRecency = std::numeric_limits<uint32_t>::max();

// What every row begins with. 16 bytes, because a pull touches them with the first weights and
// because header, index and eviction queue together may cost 32 bytes a row.
struct RowHeader {
  uint64_t id;
  uint32_t recency;    // Stamp of the last training pull; kFreeRecency in a free row.
  uint16_t epoch;      // Of the last snapshot that has seen the row; modulo 2^16.
  uint16_t use_count;  // Training pulls; stays at 65,535.
};
static_assert(sizeof(RowHeader) == 16);
static_assert(offsetof(RowHeader, id) == 0 && offsetof(RowHeader, recency) == 8);
static_assert(offsetof(RowHeader, epoch) == 12 && offsetof(RowHeader, use_count) == 14);

// A record: header | dim f32 weights | state f32 of the optimizer, rounded up to 16 bytes.
struct RowLayout {
  RowLayout(uint32_t row_dim, uint32_t row_state)
      : dim(row_dim),
        state(row_state),
        stride_bytes((sizeof(RowHeader) + (uint64_t{row_dim} + row_state) * sizeof(float) + 15) /
                     16 * 16) {}

  uint32_t dim;
  uint32_t state;
  uint64_t stride_bytes;
};

// Where the rows of one table lie: row number r at base + r * stride.
class Rows {
 public:
  Rows(std::byte* base, const RowLayout& layout) : base_(base), layout_(layout) {}

  const RowLayout& layout() const { return layout_; }
  std::byte* record(uint32_t row) const { return base_ + row * layout_.stride_bytes; }
  RowHeader& header(uint32_t row) const { return *reinterpret_cast<RowHeader*>(record(row)); }
  float* weights(uint32_t row) const {
    return reinterpret_cast<float*>(record(row) + sizeof(RowHeader));
  }
  std::span<float> weight_span(uint32_t row) const { return {weights(row), layout_.dim}; }
  std::span<float> state_span(uint32_t row) const {
    return {weights(row) + layout_.dim, layout_.state};
  }

  // Brings the cache lines of the first `bytes` of a record near.
  void Prefetch(uint32_t row, uint64_t bytes) const {
    const std::byte* line = record(row);
    const std::byte* end = line + bytes;
    line -= reinterpret_cast<uintptr_t>(line) % 64;
    for (; line < end; line += 64) __builtin_prefetch(line, 1);
  }

 private:
  std::byte* base_;
  RowLayout layout_;
};

// One field of every row, for parts that need nothing else of it: ids for the index, stamps for the
// eviction queue.
template <typename T>
class RowField {
 public:
  RowField(const std::byte* first, uint64_t stride_bytes)
      : first_(first), stride_bytes_(stride_bytes) {}

  T operator()(uint32_t row) const { return *reinterpret_cast<const T*>(at(row)); }
  void Prefetch(uint32_t row) const { __builtin_prefetch(at(row)); }

 private:
  const std::byte* at(uint32_t row) const { return first_ + row * stride_bytes_; }

  const std::byte* first_;
  uint64_t stride_bytes_;
};

inline RowField<uint64_t> IdsOf(const Rows& rows) {
  return {rows.record(0) + offsetof(RowHeader, id), rows.layout().stride_bytes};
}

inline RowField<uint32_t> RecencyOf(const Rows& rows) {
  return {rows.record(0) + offsetof(RowHeader, recency), rows.layout().stride_bytes};
}

}  // namespace simurgh
