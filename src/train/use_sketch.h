#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace simurgh {

// How often keys came, of many more keys than there is room for: a count-min sketch whose counters
// of a key share a cache line. Counts are never too low, up to kMax, and seldom too high.
//
// Threads: one owner.
class UseSketch {
 public:
  static constexpr uint8_t kMax = 127;

  // counters: rounded up to whole cache lines.
  explicit UseSketch(size_t counters);

  // hash: of a key, with all bits mixed. Counts its coming; the count with it.
  uint8_t Add(uint64_t hash);
  uint8_t Of(uint64_t hash) const;
  // As if it had come so often, at least.
  void Raise(uint64_t hash, uint8_t uses);

  // All counts, so that what came long ago says less than what came lately.
  void Halve();

  // Has the processor fetch what the others look at.
  void Prefetch(uint64_t hash) const { __builtin_prefetch(&lines_[LineOf(hash)]); }

 private:
  static constexpr size_t kRows = 4;
  static constexpr size_t kColumns = 16;
  struct alignas(kRows* kColumns) Line {
    uint8_t counters[kRows][kColumns] = {};
  };

  size_t LineOf(uint64_t hash) const {
    return static_cast<size_t>(static_cast<unsigned __int128>(lines_.size()) * hash >> 64);
  }
  // The low bits, for the high ones choose the line.
  static size_t ColumnOf(uint64_t hash, size_t row) { return hash >> (4 * row) & (kColumns - 1); }

  std::vector<Line> lines_;
};

}  // namespace simurgh
