#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace simurgh {

struct LayerConfig {
  enum class Kind { kLinear, kBatchNorm, kRelu, kSigmoid };

  Kind kind = Kind::kLinear;
  uint32_t width = 0;     // linear: outputs, 1 to 65,536.
  float momentum = 0.1F;  // batch_norm: running = (1 - momentum) * running + momentum * batch.
  float epsilon = 1e-5F;  // batch_norm
};

// A chain of layers over the concatenation of its inputs. Inputs: `dense`, `embeddings` (all
// features, in order), or the name of an earlier tower.
struct TowerConfig {
  std::string name;
  std::vector<std::string> inputs;
  std::vector<LayerConfig> layers;
};

// YAML section `model`. The last tower is one wide: the logit. The loss is binary cross entropy
// with logits.
struct ModelConfig {
  std::vector<TowerConfig> towers;
};

}  // namespace simurgh
