#pragma once

#include <cstdint>

#include "simurgh/base/hash.h"
#include "simurgh/base/random.h"
#include "simurgh/data/batch_reader.h"

namespace simurgh {

// Whether the negative row of this number stays: by chance that depends on seed and number alone.
// What models trained so predict is set right by CorrectForSampling (simurgh/nn/metrics.h).
inline bool KeepsNegative(const ReadOptions& options, uint64_t row) {
  if (options.keep_negatives >= 1.0) return true;
  return Random(Mix64(options.seed + 1) ^ Mix64(row)).Uniform() < options.keep_negatives;
}

}  // namespace simurgh
