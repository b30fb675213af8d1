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

}  // namespace

void InitializeParameters(const ModelPlan& plan, uint64_t seed, std::span<float> parameters) {
  for (const TowerPlan& tower : plan.towers) {
    const uint64_t tower_key = HashBytes(tower.name, seed);
    for (size_t i = 0; i < tower.layers.size(); ++i) {
      const LayerPlan& layer = tower.layers[i];
      Random random(Mix64(tower_key + i));
      if (layer.config.kind == LayerConfig::Kind::kLinear) {
        FillUniform(layer.input_width, random,
                    parameters.subspan(layer.parameter_offset, layer.parameter_count));
      } else if (layer.config.kind == LayerConfig::Kind::kCross) {
        const size_t rank = layer.config.rank;
        FillUniform(layer.input_width, random,
                    (rank == 0 ? layer.Weight(parameters) : layer.Down(parameters)).flat());
        if (rank > 0) FillUniform(rank, random, layer.Up(parameters).flat());
        std::ranges::fill(layer.Bias(parameters), 0.0F);
      } else if (layer.config.kind == LayerConfig::Kind::kAttention) {
        for (const LayerPlan& linear : layer.scorer) {
          FillUniform(linear.input_width, random,
                      parameters.subspan(linear.parameter_offset, linear.parameter_count));
        }
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
