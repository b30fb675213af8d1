#include "nn/dense_tensors.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/random.h"
#include "nn/item_frequency.h"
#include "tensor/finite.h"

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
      size_t offset = layer.parameter_offset;
      for (const ParameterPlan& part : layer.parts) {
        const std::span<float> values = parameters.subspan(offset, part.count());
        if (part.initial == ParameterPlan::Initial::kUniform) {
          FillUniform(part.inputs, random, values);
        } else {
          std::ranges::fill(values, part.value);
        }
        offset += part.count();
      }
    }
  }
}

void InitializeStatistics(const ModelPlan& plan, std::span<float> statistics) {
  for (const TowerPlan& tower : plan.towers) {
    for (const LayerPlan& layer : tower.layers) {
      layer.ForStatistics([&](const LayerPlan& one) {
        std::ranges::fill(one.Mean(statistics), 0.0F);
        std::ranges::fill(one.Variance(statistics), 1.0F);
      });
    }
  }
}

namespace {

// Adds tensors in the order of one flat buffer.
class TensorList {
 public:
  // Begins the next buffer.
  void Begin(bool in_state) {
    in_state_ = in_state;
    offset_ = 0;
  }

  void Add(std::string name, std::vector<size_t> shape) {
    const size_t offset = offset_;
    offset_ += std::accumulate(shape.begin(), shape.end(), size_t{1}, std::multiplies());
    tensors_.push_back({std::move(name), std::move(shape), in_state_, offset});
  }

  size_t offset() const { return offset_; }
  std::vector<DenseTensor> Take() && { return std::move(tensors_); }

 private:
  bool in_state_ = false;
  size_t offset_ = 0;
  std::vector<DenseTensor> tensors_;
};

std::string PrefixOf(const TowerPlan& tower, const LayerPlan& layer) {
  return absl::StrCat(tower.name, ".", &layer - tower.layers.data() + 1);
}

void AddOptimizer(const DenseOptimizerConfig& optimizer, size_t weights, TensorList& list) {
  using Kind = DenseOptimizerConfig::Kind;
  switch (optimizer.kind) {
    case Kind::kSgd:
      if (optimizer.momentum > 0.0F) list.Add("optimizer.velocity", {weights});
      return;
    case Kind::kAdagrad:
      list.Add("optimizer.sum", {weights});
      return;
    case Kind::kAdam:
    case Kind::kLamb:
      list.Add("optimizer.steps", {1});
      list.Add("optimizer.m", {weights});
      list.Add("optimizer.v", {weights});
      return;
  }
}

Status NotFinite(const TowerPlan& tower, const LayerPlan& layer, const char* what,
                 const char* remedy) {
  return absl::FailedPreconditionError(absl::StrCat("dense network: tower '", tower.name,
                                                    "' layer ", &layer - tower.layers.data() + 1,
                                                    ": ", what, " are not finite; ", remedy));
}

}  // namespace

std::vector<DenseTensor> TensorsOf(const ModelPlan& plan, const DenseOptimizerConfig& optimizer,
                                   bool scales_loss) {
  TensorList list;
  for (const TowerPlan& tower : plan.towers) {
    for (const LayerPlan& layer : tower.layers) {
      for (const ParameterPlan& part : layer.parts) {
        list.Add(absl::StrCat(PrefixOf(tower, layer), ".", part.name), part.shape);
      }
    }
  }
  SIMURGH_CHECK_EQ(list.offset(), plan.parameter_count);
  list.Begin(/*in_state=*/true);
  for (const TowerPlan& tower : plan.towers) {
    for (const LayerPlan& layer : tower.layers) {
      layer.ForStatistics([&](const LayerPlan& one) {
        const std::string prefix = PrefixOf(tower, layer);
        list.Add(prefix + ".running_mean" + one.suffix, {one.output_width});
        list.Add(prefix + ".running_variance" + one.suffix, {one.output_width});
      });
    }
  }
  AddOptimizer(optimizer, plan.parameter_count, list);
  if (optimizer.average_decay > 0.0F) {
    list.Add("average.steps", {1});
    list.Add("average.weights", {plan.parameter_count});
  }
  if (plan.counts_items) {
    for (const char* values : {"gaps", "steps", "counts"}) {
      list.Add(absl::StrCat("item_frequency.", values),
               {ItemFrequency::kHashes, ItemFrequency::kSlots});
    }
  }
  if (scales_loss) list.Add("loss_scale", {3});
  return std::move(list).Take();
}

std::vector<DenseTensor> OptimizerTensors(const DenseOptimizerConfig& optimizer, size_t weights) {
  TensorList list;
  list.Begin(/*in_state=*/true);
  AddOptimizer(optimizer, weights, list);
  return std::move(list).Take();
}

StatusOr<std::vector<DenseTensor>> PredictionTensors(const ModelConfig& model,
                                                     const ModelInputs& inputs) {
  SIMURGH_ASSIGN_OR_RETURN(ModelPlan plan, PlanModel(model, inputs));
  plan.counts_items = false;  // Predictions are without the correction.
  return TensorsOf(plan, DenseOptimizerConfig(), /*scales_loss=*/false);
}

Status CheckRestored(std::span<const float> parameters, std::span<const float> state,
                     std::span<const float> own_parameters, std::span<const float> own_state) {
  if (parameters.size() == own_parameters.size() && state.size() == own_state.size()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "dense network: ", parameters.size(), " weights and ", state.size(),
      " values of state do not fit; this network has ", own_parameters.size(), " and ",
      own_state.size(), "; restore it with the model and dense_optimizer that it was saved with"));
}

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
      bool is_finite = true;
      layer.ForStatistics([&](const LayerPlan& one) {
        is_finite =
            is_finite && AllFinite(one.Mean(statistics)) && AllFinite(one.Variance(statistics));
      });
      if (is_finite) continue;
      return NotFinite(tower, layer, "running statistics",
                       "the layer had a very large input: correct outliers in dense columns or "
                       "transform them by log1p, or lower the learning rates");
    }
  }
  return absl::OkStatus();
}

}  // namespace simurgh
