#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace simurgh {

struct LayerConfig {
  enum class Kind { kLinear, kBatchNorm, kRelu, kGelu, kSigmoid, kDot, kCross, kFm, kSum };

  Kind kind = Kind::kLinear;
  uint32_t width = 0;     // linear, sum: outputs. dot, fm: width of a vector. 1 to 65,536;
                          // sum: 0 is 1.
  float momentum = 0.1F;  // batch_norm: running = (1 - momentum) * running + momentum * batch.
  float epsilon = 1e-5F;  // batch_norm
  uint32_t rank = 0;      // cross: of its weight, 1 to 65,536; 0: the full one.
};

// What begins the name of an input that is one feature's embeddings: `embeddings.<feature>`.
inline constexpr char kFeatureInput[] = "embeddings.";

// A chain of layers over the concatenation of its inputs. Inputs: `dense`, `embeddings` (all
// features, in order), one feature's embeddings, or the name of an earlier tower.
struct TowerConfig {
  std::string name;
  std::vector<std::string> inputs;
  std::vector<LayerConfig> layers;
};

// With p the probability that the network gives to a sample's label: `bce` is -log p, `focal`
// -(1 - p)^gamma log p; of a positive sample, times positive_weight.
// Source: Lin et al., "Focal Loss for Dense Object Detection", ICCV 2017, equation 4.
struct LossConfig {
  enum class Kind { kBce, kFocal };

  Kind kind = Kind::kBce;
  float positive_weight = 1.0F;  // > 0
  float gamma = 2.0F;            // focal: >= 0
};

// What one label of the data has of the model: the logit of its place, and its part of the loss.
struct TaskConfig {
  std::string label;    // Column.
  float weight = 1.0F;  // >= 0; of its loss in the sum of all.
  LossConfig loss;
};

// YAML section `model`. The last tower is as wide as there are tasks: the logits.
struct ModelConfig {
  std::vector<TowerConfig> towers;
  LossConfig loss;
  // In the order of the label columns, where there are several; none: one task, of `loss`.
  std::vector<TaskConfig> tasks;
};

inline size_t TaskCount(const ModelConfig& model) {
  return model.tasks.empty() ? 1 : model.tasks.size();
}

// At least one.
inline std::vector<TaskConfig> TasksOf(const ModelConfig& model) {
  if (!model.tasks.empty()) return model.tasks;
  return {{.label = {}, .weight = 1.0F, .loss = model.loss}};
}

}  // namespace simurgh
