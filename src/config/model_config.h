#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace simurgh {

struct LayerConfig {
  enum class Kind {
    kLinear,
    kBatchNorm,
    kLayerNorm,
    kL2Norm,
    kRelu,
    kGelu,
    kSilu,
    kTanh,
    kSigmoid,
    kGate,
    kPrelu,
    kDice,
    kDropout,
    kDot,
    kCross,
    kFm,
    kSum,
    kProduct,
    kBilinear,
    kJoint,
    kSoftmax,
    kMix,
    kMean,
    kLast,
    kAttention,
    kSelfAttention
  };

  Kind kind = Kind::kLinear;
  // linear, sum: outputs. dot, fm: width of a vector. mix, product, joint: terms. bilinear,
  // self_attention: heads. 1 to 65,536; sum: 0 is 1.
  uint32_t width = 0;
  // batch_norm, dice: running = (1 - momentum) * running + momentum * batch.
  float momentum = 0.1F;
  float epsilon = 1e-5F;  // batch_norm, dice, layer_norm, self_attention
  float rate = 0.0F;      // dropout: share of the values that become 0, below 1.
  uint32_t rank = 0;      // cross: rank of its weight, 1 to 65,536; 0: full.
  // attention: widths of the hidden layers of its weights. self_attention: one width, that of the
  // hidden layer behind the attention.
  std::vector<uint32_t> hidden;
  Kind activation = Kind::kRelu;  // attention: of the hidden layers; relu, sigmoid, prelu or dice.
  bool normalises = false;        // attention: the weights of a sample's rows pass a softmax.
  bool positions = true;          // self_attention: rows get vectors of their places.
  bool causal = false;            // self_attention: a row reads only those up to it.
};

// Names in YAML and in descriptions, indexed by LayerConfig::Kind.
inline constexpr std::array kLayerNames = {
    "linear", "batch_norm", "layer_norm", "l2_norm",   "relu",          "gelu",    "silu",
    "tanh",   "sigmoid",    "gate",       "prelu",     "dice",          "dropout", "dot",
    "cross",  "fm",         "sum",        "product",   "bilinear",      "joint",   "softmax",
    "mix",    "mean",       "last",       "attention", "self_attention"};
inline const char* NameOf(LayerConfig::Kind kind) { return kLayerNames[static_cast<size_t>(kind)]; }

// Returns whether the layer reads sequences: the first of a tower whose last inputs are raw
// features, or towers of self_attention, and the mask of the first of them.
inline bool ReadsSequence(const LayerConfig& layer) {
  using Kind = LayerConfig::Kind;
  return layer.kind == Kind::kMean || layer.kind == Kind::kLast || layer.kind == Kind::kAttention ||
         layer.kind == Kind::kSelfAttention;
}

// Prefix of the input with one feature's embeddings: `embeddings.<feature>`.
inline constexpr char kFeatureInput[] = "embeddings.";
// Prefix of the input with a raw feature's mask, which `dense` has too: `mask.<feature>`.
inline constexpr char kMaskInput[] = "mask.";

// A chain of layers over the concatenation of its inputs. Inputs: `dense`, `embeddings` (all
// features, in order), one feature's embeddings or mask, or the name of an earlier tower.
struct TowerConfig {
  std::string name;
  std::vector<std::string> inputs;
  std::vector<LayerConfig> layers;
  std::string key = {};  // YAML key, for errors: "model.towers.0"; empty for a model by its name.
};

// z: the network's output, y: the label. Labels of bce and focal are 0 or 1, the prediction is the
// probability of 1. With p the predicted probability of a sample's label: bce is -log p, focal is
// -(1 - p)^gamma log p, both times positive_weight for positive samples.
// Labels of squared_error and poisson are numbers. squared_error predicts z, with loss (z - y)^2.
// poisson predicts exp(z) for labels of at least 0, with loss exp(z) - y z.
// Source: Lin et al., "Focal Loss for Dense Object Detection", ICCV 2017, equation 4.
//
// in_batch_softmax: see cpu/in_batch_softmax.h. Labels are numbers of at least 0. The last layer is
// the dot product of a user's and an item's vector. It predicts z, this product over temperature.
struct LossConfig {
  enum class Kind { kBce, kFocal, kSquaredError, kPoisson, kInBatchSoftmax };

  Kind kind = Kind::kBce;
  float positive_weight = 1.0F;  // bce, focal: > 0
  float gamma = 2.0F;            // focal: >= 0
  // bce: labels become (1 - this) y + this / 2; [0, 1). Source: Szegedy et al., "Rethinking the
  // Inception architecture for computer vision", CVPR 2016, section 7.
  float label_smoothing = 0.0F;
  float temperature = 1.0F;  // in_batch_softmax: > 0
  // in_batch_softmax: what the scores lose, see cpu/in_batch_softmax.h.
  enum class Correction { kNone, kLogQ };
  Correction correction = Correction::kLogQ;
  // in_batch_softmax: items of data.items that are drawn for a step, over all ranks.
  uint32_t uniform_negatives = 0;
};

inline bool IsRegression(LossConfig::Kind kind) {
  return kind == LossConfig::Kind::kSquaredError || kind == LossConfig::Kind::kPoisson ||
         kind == LossConfig::Kind::kInBatchSoftmax;
}

// Returns whether labels are numbers of at least 0.
inline bool TakesCounts(LossConfig::Kind kind) {
  return kind == LossConfig::Kind::kPoisson || kind == LossConfig::Kind::kInBatchSoftmax;
}

// Names in YAML, indexed by LossConfig::Kind.
inline constexpr std::array kLossNames = {"bce", "focal", "squared_error", "poisson",
                                          "in_batch_softmax"};
inline const char* NameOf(LossConfig::Kind kind) { return kLossNames[static_cast<size_t>(kind)]; }

// The output and the loss of one label.
struct TaskConfig {
  std::string label;    // Name of the label's column.
  float weight = 1.0F;  // Factor of the loss, >= 0.
  LossConfig loss;
};

// YAML section `model`. The last tower has one output per task.
struct ModelConfig {
  std::vector<TowerConfig> towers;
  LossConfig loss;
  // Tasks in the order of the label columns; empty: one task with `loss`.
  std::vector<TaskConfig> tasks;
  // Tensor file of weights that a new training begins with; empty: none.
  std::string initial_weights;

  // Returns whether a program outside computes the dense network: the model has no towers.
  bool is_hosted() const { return towers.empty(); }
};

// Returns whether the loss of a sample depends on the others of its batch.
inline bool IsInBatch(const ModelConfig& model) {
  const LossConfig& loss = model.tasks.empty() ? model.loss : model.tasks.front().loss;
  return loss.kind == LossConfig::Kind::kInBatchSoftmax;
}

inline size_t TaskCount(const ModelConfig& model) {
  return model.tasks.empty() ? 1 : model.tasks.size();
}

// Returns the tasks, at least one.
inline std::vector<TaskConfig> TasksOf(const ModelConfig& model) {
  if (!model.tasks.empty()) return model.tasks;
  return {{.label = {}, .weight = 1.0F, .loss = model.loss}};
}

}  // namespace simurgh
