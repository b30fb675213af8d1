#pragma once

#include <cstdint>

#include "base/hash.h"
#include "base/random.h"
#include "data/reading/batch_reader.h"

namespace simurgh {

// Returns whether a negative row stays. Depends on seed and row number only. ToPredictions()
// (nn/calibration.h) corrects the predictions of models trained on the kept rows.
inline bool KeepsNegative(const ReadOptions& options, uint64_t row) {
  if (options.keep_negatives >= 1.0) return true;
  return Random(Mix64(options.seed + 1) ^ Mix64(row)).Uniform() < options.keep_negatives;
}

// Returns whether a row is in the sample of rows that is read. Depends on seed, epoch and row
// number.
inline bool KeepsRow(const ReadOptions& options, uint64_t row) {
  if (options.keep_rows >= 1.0) return true;
  const uint64_t seed = Mix64(options.seed + 2) + options.epoch;
  return Random(Mix64(seed) ^ Mix64(row)).Uniform() < options.keep_rows;
}

}  // namespace simurgh
