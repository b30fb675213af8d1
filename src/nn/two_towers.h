#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "config/model_config.h"
#include "data/batch/batch.h"
#include "nn/model.h"

namespace simurgh {

// What one of the two vectors of a two-tower model is computed of.
struct TowerColumns {
  std::vector<size_t> features;  // Indices into ModelInputs::features, ascending.
  std::vector<size_t> dense;     // Dense columns, ascending.

  bool operator==(const TowerColumns&) const = default;
};

struct TwoTowerColumns {
  TowerColumns user;
  TowerColumns item;
};

// Returns the inputs of the two vectors that the model's last layer, a dot product, reads.
// Errors: INVALID_ARGUMENT for an inconsistent model.
StatusOr<TwoTowerColumns> ColumnsOfTwoTowers(const ModelConfig& model, const ModelInputs& inputs);

// Returns 64-bit hashes (B) of a side's ids, their weights and dense values, in order. Equal inputs
// have equal keys, in every batch and on every rank. Different inputs have different keys, but for
// a chance of 2^-64 a pair.
// Cost: a few ns an id and a dense value.
std::vector<uint64_t> KeysOf(const TowerColumns& columns, const Batch& batch);

// Sets DenseBatch::user_keys and item_keys to those of KeysOf().
//
// Requires a batch of the features and dense columns of the model's inputs.
void SetKeys(const TwoTowerColumns& columns, Batch& batch);

}  // namespace simurgh
