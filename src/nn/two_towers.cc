#include "nn/two_towers.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/hash.h"
#include "nn/model_plan.h"

namespace simurgh {
namespace {

// Follows columns [first, end) of the last tower's input to what no tower computes.
TowerColumns ColumnsBehind(const ModelPlan& plan, const ModelInputs& inputs, size_t first,
                           size_t end_column) {
  std::vector<bool> reads_feature(inputs.features.size(), false);
  std::vector<bool> reads_dense(plan.dense_width, false);
  std::vector<bool> reads_tower(plan.towers.size(), false);
  const auto read = [&](const TowerInput& input) {
    const size_t end = input.source_column + input.width;
    switch (input.source) {
      case TowerInput::Source::kTower:
        reads_tower[input.tower] = true;
        return;
      case TowerInput::Source::kDense:
        std::fill(reads_dense.begin() + static_cast<std::ptrdiff_t>(input.source_column),
                  reads_dense.begin() + static_cast<std::ptrdiff_t>(end), true);
        return;
      case TowerInput::Source::kEmbeddings:
        size_t column = 0;
        for (size_t f = 0; f < inputs.features.size(); ++f) {
          const size_t next = column + inputs.features[f].width;
          if (input.source_column < next && column < end) reads_feature[f] = true;
          column = next;
        }
        return;
    }
  };
  for (const TowerInput& input : plan.top().inputs) {
    if (input.column >= first && input.column < end_column) read(input);
  }
  for (size_t t = plan.towers.size(); t-- > 0;) {
    if (!reads_tower[t]) continue;
    for (const TowerInput& input : plan.towers[t].inputs) read(input);
  }
  const auto indices = [](const std::vector<bool>& is_set) {
    std::vector<size_t> found;
    for (size_t i = 0; i < is_set.size(); ++i) {
      if (is_set[i]) found.push_back(i);
    }
    return found;
  };
  return {.features = indices(reads_feature), .dense = indices(reads_dense)};
}

// The order of the words counts.
void Add(uint64_t word, uint64_t& hash) { hash = Mix64(std::rotl(hash, 23) ^ Mix64(word + 1)); }

}  // namespace

StatusOr<TwoTowerColumns> ColumnsOfTwoTowers(const ModelConfig& model, const ModelInputs& inputs) {
  SIMURGH_ASSIGN_OR_RETURN(const ModelPlan plan, PlanModel(model, inputs));
  const size_t dim = plan.top().input_width / 2;
  return TwoTowerColumns{.user = ColumnsBehind(plan, inputs, 0, dim),
                         .item = ColumnsBehind(plan, inputs, dim, 2 * dim)};
}

std::vector<uint64_t> KeysOf(const TowerColumns& columns, const Batch& batch) {
  std::vector<uint64_t> keys(batch.size(), 0);
  for (const size_t f : columns.features) {
    const FeatureView feature = batch.sparse->feature(f);
    for (size_t row = 0; row < keys.size(); ++row) {
      const std::span<const uint32_t> occurrences = feature.sample(row);
      Add(occurrences.size(), keys[row]);
      for (const uint32_t occurrence : occurrences) Add(feature.ids[occurrence], keys[row]);
      if (feature.weights.empty()) continue;
      const size_t first = feature.offsets[row] - feature.offsets[0];
      for (size_t i = 0; i < occurrences.size(); ++i) {
        // A batch whose weights are all 1 has none.
        const float weight = feature.weights[first + i];
        if (weight != 1.0F) Add((i << 32) | std::bit_cast<uint32_t>(weight), keys[row]);
      }
    }
  }
  const MatrixView<const float> dense = batch.dense.matrix();
  for (size_t row = 0; row < keys.size(); ++row) {
    for (const size_t column : columns.dense) {
      Add(std::bit_cast<uint32_t>(dense.row(row)[column]), keys[row]);
    }
  }
  return keys;
}

void SetKeys(const TwoTowerColumns& columns, Batch& batch) {
  batch.dense.user_keys = KeysOf(columns.user, batch);
  batch.dense.item_keys = KeysOf(columns.item, batch);
}

}  // namespace simurgh
