#include "nn/initialize.h"

#include <algorithm>
#include <cmath>

#include "simurgh/base/hash.h"
#include "simurgh/base/random.h"

namespace simurgh {
namespace {

void FillUniform(size_t inputs, Random& random, std::span<float> values) {
  const double bound = 1.0 / std::sqrt(static_cast<double>(inputs));
  for (float& value : values) value = static_cast<float>(bound * (2.0 * random.Uniform() - 1.0));
}

void InitializeCross(const LayerPlan& layer, Random random, std::span<float> parameters) {
  if (layer.config.rank == 0) {
    FillUniform(layer.input_width, random, layer.Weight(parameters).flat());
  } else {
    FillUniform(layer.input_width, random, layer.Down(parameters).flat());
    FillUniform(layer.config.rank, random, layer.Up(parameters).flat());
  }
  std::ranges::fill(layer.Bias(parameters), 0.0F);
}

}  // namespace

void InitializeParameters(const ModelPlan& plan, uint64_t seed, std::span<float> parameters) {
  for (const TowerPlan& tower : plan.towers) {
    const uint64_t tower_key = HashBytes(tower.name, seed);
    for (size_t i = 0; i < tower.layers.size(); ++i) {
      const LayerPlan& layer = tower.layers[i];
      if (layer.config.kind == LayerConfig::Kind::kLinear) {
        Random random(Mix64(tower_key + i));
        FillUniform(layer.input_width, random,
                    parameters.subspan(layer.parameter_offset, layer.parameter_count));
      } else if (layer.config.kind == LayerConfig::Kind::kCross) {
        InitializeCross(layer, Random(Mix64(tower_key + i)), parameters);
      } else if (layer.config.kind == LayerConfig::Kind::kBatchNorm) {
        std::ranges::fill(layer.Scale(parameters), 1.0F);
        std::ranges::fill(layer.Shift(parameters), 0.0F);
      }
    }
  }
}

void InitializeStatistics(const ModelPlan& plan, std::span<float> statistics) {
  for (const TowerPlan& tower : plan.towers) {
    for (const LayerPlan& layer : tower.layers) {
      if (layer.config.kind != LayerConfig::Kind::kBatchNorm) continue;
      std::ranges::fill(layer.Mean(statistics), 0.0F);
      std::ranges::fill(layer.Variance(statistics), 1.0F);
    }
  }
}

}  // namespace simurgh
