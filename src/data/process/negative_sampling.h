#pragma once

#include <cstdint>

#include "simurgh/base/hash.h"
#include "simurgh/base/random.h"
#include "simurgh/data/batch_reader.h"

namespace simurgh {

// Whether a negative row stays. Depends on seed and row number only. CorrectForSampling
// (simurgh/nn/metrics.h) corrects the predictions of models trained on the kept rows.
inline bool KeepsNegative(const ReadOptions& options, uint64_t row) {
  if (options.keep_negatives >= 1.0) return true;
  return Random(Mix64(options.seed + 1) ^ Mix64(row)).Uniform() < options.keep_negatives;
}

}  // namespace simurgh
