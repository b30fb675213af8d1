#pragma once

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

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

// Returns the rows of a shuffled window in the order of training, counted from its first row, which
// has the number `first`. Depends on seed, epoch, first and number of rows only.
inline std::vector<uint32_t> ShuffledRows(uint64_t seed, uint32_t epoch, uint64_t first,
                                          uint64_t rows) {
  std::vector<uint32_t> order(rows);
  std::iota(order.begin(), order.end(), 0U);
  Random random(Mix64(Mix64(seed + 3) + epoch) ^ Mix64(first));
  for (uint64_t left = rows; left > 1; --left) {
    std::swap(order[left - 1], order[random.Below(left)]);
  }
  return order;
}

}  // namespace simurgh
