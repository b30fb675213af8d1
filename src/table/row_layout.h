#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>

#include "table/row_format.h"

namespace simurgh {

// "No row": not a row number.
inline constexpr uint32_t kNoRow = std::numeric_limits<uint32_t>::max();

// The recency of a row that holds nothing. Its id is then the number of the next free row.
inline constexpr uint32_t kFreeRecency = std::numeric_limits<uint32_t>::max();

// What every row begins with. 16 bytes, because a pull touches them with the first weights and
// because header, index and eviction queue together may cost 32 bytes a row.
struct __attribute__((packed, aligned(4))) RowHeader {
  uint64_t id;
  uint32_t recency;    // Stamp of the last training pull; kFreeRecency in a free row.
  uint16_t epoch;      // Of the last snapshot that has seen the row; modulo 2^16.
  uint16_t use_count;  // Training pulls; stays at 65,535.
};
static_assert(sizeof(RowHeader) == 16 && alignof(RowHeader) == 4);
static_assert(offsetof(RowHeader, id) == 0 && offsetof(RowHeader, recency) == 8);
static_assert(offsetof(RowHeader, epoch) == 12 && offsetof(RowHeader, use_count) == 14);

// Notes a training pull.
inline void CountUse(RowHeader& header, uint32_t stamp) {
  constexpr uint16_t kMax = std::numeric_limits<uint16_t>::max();
  header.recency = stamp;
  header.use_count = static_cast<uint16_t>(header.use_count + (header.use_count < kMax));
}

// A record: header | dim weights | vectors of state | single f32 of state. Every part begins at a
// multiple of 4 bytes, and so does every record: a wider one would cost small rows their frugality.
struct RowLayout {
  RowLayout(const RowFormat& row_format)  // NOLINT(google-explicit-constructor)
      : format(row_format), stride_bytes(sizeof(RowHeader) + row_format.bytes()) {}

  RowFormat format;
  uint64_t stride_bytes;
};

// Where the rows of one table lie: row number r at base + r * stride.
class Rows {
 public:
  Rows(std::byte* base, const RowLayout& layout) : base_(base), layout_(layout) {}

  const RowLayout& layout() const { return layout_; }
  std::byte* record(uint32_t row) const { return base_ + row * layout_.stride_bytes; }
  RowHeader& header(uint32_t row) const { return *reinterpret_cast<RowHeader*>(record(row)); }
  // What follows the header, in the layout's format.
  std::byte* values(uint32_t row) const { return record(row) + sizeof(RowHeader); }

  // Brings the cache lines of the first `bytes` of a record near.
  void Prefetch(uint32_t row, uint64_t bytes) const {
    __builtin_prefetch(record(row), 1);
    PrefetchRest(row, bytes);
  }

  // How many records of so many bytes are best fetched together: the lines of two lots stay in the
  // first-level cache.
  static size_t Together(uint64_t bytes) {
    constexpr uint64_t kLines = 96;
    return std::clamp<uint64_t>(kLines / (bytes / 64 + 1), 8, 64);
  }
  // The same for such a lot; kNoRow stands for none. The first lines come first, in a loop without
  // anything else: most records lie in pages of their own, and a processor looks for as many pages
  // at once as it finds among the few hundred instructions that it has in sight.
  void Prefetch(std::span<const uint32_t> rows, uint64_t bytes) const {
    for (const uint32_t row : rows) __builtin_prefetch(record(row == kNoRow ? 0 : row), 1);
    for (const uint32_t row : rows) PrefetchRest(row == kNoRow ? 0 : row, bytes);
  }

 private:
  // All lines but the first.
  void PrefetchRest(uint32_t row, uint64_t bytes) const {
    const std::byte* line = record(row);
    const std::byte* const end = line + bytes;
    line += 64 - reinterpret_cast<uintptr_t>(line) % 64;
    for (; line < end; line += 64) __builtin_prefetch(line, 1);
  }

  std::byte* base_;
  RowLayout layout_;
};

// Brings the first bytes of records near, many in a row. Most records lie in pages of their own,
// and a processor looks for as many pages at once as it finds among the few hundred instructions
// that it has in sight: so these are as few as can be. For loops that do little else; beside more
// work, lots are better.
class RowFetch {
 public:
  RowFetch(const Rows& rows, uint64_t bytes)
      : first_(rows.record(0)), stride_bytes_(rows.layout().stride_bytes), last_byte_(bytes - 1) {
    // A record begins at any multiple of this in a line.
    const uint64_t step = std::min<uint64_t>(stride_bytes_ & (~stride_bytes_ + 1), kLine);
    const uint64_t max_lines = (kLine - step + bytes + kLine - 1) / kLine;
    last_line_ = (max_lines - 1) * kLine;
    ahead_ = std::clamp<uint64_t>(kLinesAhead / max_lines, 8, 64);
  }

  // How far ahead of its use a record is best fetched.
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

// One field of every row, for parts that need nothing else of it: ids for the index, stamps for the
// eviction queue.
template <typename T>
class RowField {
 public:
  RowField(const std::byte* first, uint64_t stride_bytes)
      : first_(first), stride_bytes_(stride_bytes) {}

  T operator()(uint32_t row) const {
    T value;
    std::memcpy(&value, at(row), sizeof(T));
    return value;
  }
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
