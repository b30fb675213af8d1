#pragma once

#include <cstdint>

#include "base/hash.h"
#include "base/random.h"
#include "data/reading/batch_reader.h"

namespace simurgh {

// Whether a negative row stays. Depends on seed and row number only. ToPredictions()
// (nn/calibration.h) corrects the predictions of models trained on the kept rows.
inline bool KeepsNegative(const ReadOptions& options, uint64_t row) {
  if (options.keep_negatives >= 1.0) return true;
  return Random(Mix64(options.seed + 1) ^ Mix64(row)).Uniform() < options.keep_negatives;
}

// Whether a row stays of which a sample is read.
inline bool KeepsRow(const ReadOptions& options, uint64_t row) {
  if (options.keep_rows >= 1.0) return true;
  const uint64_t seed = Mix64(options.seed + 2) + options.epoch;
  return Random(Mix64(seed) ^ Mix64(row)).Uniform() < options.keep_rows;
}

}  // namespace simurgh
