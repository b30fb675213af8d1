#include "table/admission.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "simurgh/base/hash.h"

namespace simurgh {

Admission::Admission(const AdmissionConfig& config, std::string_view table, uint64_t seed)
    : config_(config), seed_(HashBytes(table, seed ^ 0xad3155107ULL)) {
  if (config_.kind == Kind::kProbability) {
    threshold_ = config_.probability >= 1
                     ? std::numeric_limits<uint64_t>::max()
                     : static_cast<uint64_t>(std::ldexp(double{config_.probability}, 64));
  }
  if (config_.kind == Kind::kOccurrences) groups_.resize(kGroups);
}

bool Admission::Admit(uint64_t id) {
  if (always()) return true;
  const uint64_t placed = Mix64(id);
  if (config_.kind == Kind::kProbability) return Mix64(seed_ ^ placed) <= threshold_;
  if (GroupOf(id) == nullptr) {
    groups_[placed >> 56] = std::make_unique<Group>();
    ++groups_in_use_;
  }
  Sketch& sketch = SketchOf(id);
  if (sketch.counters == nullptr) {
    sketch.counters = std::make_unique<uint8_t[]>(counters());
    ++sketches_in_use_;
  }
  uint8_t least = std::numeric_limits<uint8_t>::max();
  std::array<uint8_t*, kRows> cells;
  for (uint32_t row = 0; row < kRows; ++row) {
    const uint64_t hash = Mix64(seed_ + row + (placed << 8)) >> 32;
    const uint64_t column = hash * config_.sketch_width >> 32;
    cells[row] = &sketch.counters[uint64_t{row} * config_.sketch_width + column];
    least = std::min(least, *cells[row]);
  }
  // Conservative update: only the smallest counters grow, the others are overestimates already.
  if (least < std::numeric_limits<uint8_t>::max()) {
    for (uint8_t* cell : cells) *cell = std::max<uint8_t>(*cell, static_cast<uint8_t>(least + 1));
  }
  if (++sketch.counted == kAgeAfter * config_.sketch_width) {
    sketch.counted = 0;
    for (uint64_t i = 0; i < counters(); ++i) sketch.counters[i] /= 2;
  }
  return uint32_t{least} + 1 >= config_.occurrences;
}

uint64_t Admission::bytes_used() const {
  return groups_.size() * sizeof(groups_[0]) + groups_in_use_ * sizeof(Group) +
         sketches_in_use_ * counters();
}

}  // namespace simurgh
