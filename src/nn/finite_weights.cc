#include "nn/finite_weights.h"

#include "absl/strings/str_cat.h"

#include "simurgh/tensor/finite.h"

namespace simurgh {
namespace {

Status NotFinite(const TowerPlan& tower, const LayerPlan& layer, const char* what,
                 const char* remedy) {
  return absl::FailedPreconditionError(absl::StrCat("dense network: tower '", tower.name,
                                                    "' layer ", &layer - tower.layers.data() + 1,
                                                    ": ", what, " are not finite; ", remedy));
}

}  // namespace

Status CheckFiniteWeights(const ModelPlan& plan, std::span<const float> parameters,
                          std::span<const float> statistics) {
  if (AllFinite(parameters) && AllFinite(statistics)) return absl::OkStatus();
  for (const TowerPlan& tower : plan.towers) {
    for (const LayerPlan& layer : tower.layers) {
      if (!AllFinite(parameters.subspan(layer.parameter_offset, layer.parameter_count))) {
        return NotFinite(tower, layer, "weights",
                         "lower training.dense_optimizer.learning_rate or weight_decay");
      }
    }
  }
  for (const TowerPlan& tower : plan.towers) {
    for (const LayerPlan& layer : tower.layers) {
      if (layer.config.kind != LayerConfig::Kind::kBatchNorm) continue;
      if (AllFinite(layer.Mean(statistics)) && AllFinite(layer.Variance(statistics))) continue;
      return NotFinite(tower, layer, "running statistics",
                       "the layer had a very large input: correct outliers in dense columns or "
                       "transform them by log1p, or lower the learning rates");
    }
  }
  return absl::OkStatus();
}

}  // namespace simurgh
