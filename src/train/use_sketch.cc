#include "train/use_sketch.h"

#include <algorithm>

namespace simurgh {

UseSketch::UseSketch(size_t counters) : lines_(counters / sizeof(Line) + 1) {}

uint8_t UseSketch::Of(uint64_t hash) const {
  const Line& line = lines_[LineOf(hash)];
  uint8_t least = kMax;
  for (size_t row = 0; row < kRows; ++row) {
    least = std::min(least, line.counters[row][ColumnOf(hash, row)]);
  }
  return least;
}

uint8_t UseSketch::Add(uint64_t hash) {
  const uint8_t before = Of(hash);
  const auto now = static_cast<uint8_t>(before == kMax ? kMax : before + 1);
  Raise(hash, now);
  return now;
}

void UseSketch::Raise(uint64_t hash, uint8_t uses) {
  Line& line = lines_[LineOf(hash)];
  for (size_t row = 0; row < kRows; ++row) {
    uint8_t& counter = line.counters[row][ColumnOf(hash, row)];
    counter = std::max(counter, uses);
  }
}

void UseSketch::Halve() {
  for (Line& line : lines_) {
    for (auto& row : line.counters) {
      for (uint8_t& counter : row) counter /= 2;
    }
  }
}

}  // namespace simurgh
