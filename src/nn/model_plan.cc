#include "nn/model_plan.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "absl/strings/str_cat.h"

#include "base/check.h"

namespace simurgh {
namespace {

constexpr size_t kMaxParameters = size_t{1} << 31;

constexpr std::string_view kDenseName = "dense";
constexpr std::string_view kEmbeddingsName = "embeddings";

template <typename... Parts>
Status Invalid(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("model: ", parts...));
}

// Builds a plan tower by tower. Each method returns the first error.
class Planner {
 public:
  Planner(const ModelConfig& model, const ModelInputs& inputs) : model_(model), inputs_(inputs) {
    plan_.dense_width = inputs.dense_width;
    plan_.embedding_width = inputs.embedding_width;
    plan_.has_sample_weights = inputs.has_sample_weights;
  }

  StatusOr<ModelPlan> Build() && {
    if (model_.towers.empty())
      return Invalid(
          "has no network, since a program computes it; predict with that program, or set model: "
          "deepfm, wide_deep, dlrm or dcn_v2 to train a network of the configuration");
    for (const TowerConfig& tower : model_.towers) SIMURGH_RETURN_IF_ERROR(AddTower(tower));
    SIMURGH_RETURN_IF_ERROR(CheckTop());
    SIMURGH_RETURN_IF_ERROR(CheckEveryTowerIsRead());
    if (plan_.parameter_count > kMaxParameters) {
      return Invalid("has ", plan_.parameter_count, " weights, the limit is ", kMaxParameters,
                     "; make its layers narrower");
    }
    PlanInputBlocks(plan_);
    return std::move(plan_);
  }

 private:
  Status AddTower(const TowerConfig& config) {
    TowerPlan tower;
    tower.name = config.name;
    if (config.name.empty()) {
      return Invalid("tower ", plan_.towers.size() + 1, " has no name; add one");
    }
    if (config.name == kDenseName || config.name == kEmbeddingsName) {
      return Invalid("tower '", config.name, "' is named like an input; choose another name");
    }
    if (FindTower(config.name) != plan_.towers.size()) {
      return Invalid("two towers are named '", config.name, "'; rename one");
    }
    if (config.inputs.empty()) {
      return Invalid("tower '", config.name,
                     "' has no inputs; name `dense`, `embeddings` or an earlier tower");
    }
    for (const std::string& name : config.inputs) {
      SIMURGH_RETURN_IF_ERROR(AddInput(name, tower));
    }
    tower.activation_column = plan_.activation_width;
    plan_.activation_width += tower.input_width;
    if (config.layers.empty()) {
      return Invalid("tower '", config.name, "' has no layers; add at least one");
    }
    for (const LayerConfig& layer : config.layers) {
      SIMURGH_RETURN_IF_ERROR(AddLayer(layer, config, tower));
    }
    plan_.towers.push_back(std::move(tower));
    return absl::OkStatus();
  }

  Status AddInput(const std::string& name, TowerPlan& tower) {
    TowerInput input;
    if (name == kDenseName) {
      input.source = TowerInput::Source::kDense;
      input.width = plan_.dense_width;
    } else if (name == kEmbeddingsName) {
      input.source = TowerInput::Source::kEmbeddings;
      input.width = plan_.embedding_width;
    } else if (name.starts_with(kFeatureInput)) {
      SIMURGH_RETURN_IF_ERROR(FindFeature(name, tower, input));
    } else if (name.starts_with(kMaskInput)) {
      FindMask(name, input);
    } else {
      input.source = TowerInput::Source::kTower;
      input.tower = FindTower(name);
      if (input.tower == plan_.towers.size()) {
        return Invalid("tower '", tower.name, "' reads '", name,
                       "'; use `dense`, `embeddings` or an earlier tower");
      }
      input.width = plan_.towers[input.tower].output_width();
    }
    if (input.width == 0) {
      return Invalid("tower '", tower.name, "' reads `", name,
                     "`, but the data has no such columns; remove the input or add features");
    }
    for (const TowerInput& other : tower.inputs) {
      if (Overlap(other, input)) {
        return Invalid("tower '", tower.name, "' reads '", name, "' twice; name it once");
      }
    }
    input.column = tower.input_width;
    tower.input_width += input.width;
    tower.needs_input_gradient |= input.source != TowerInput::Source::kDense;
    tower.inputs.push_back(input);
    return absl::OkStatus();
  }

  Status AddLayer(const LayerConfig& config, const TowerConfig& of, TowerPlan& tower) {
    LayerPlan layer;
    layer.config = config;
    layer.input_width = tower.layers.empty() ? tower.input_width : tower.output_width();
    layer.output_width = layer.input_width;
    const std::string place =
        absl::StrCat("tower '", tower.name, "' layer ", tower.layers.size() + 1);
    SIMURGH_RETURN_IF_ERROR(PoolsSequence(config) ? SizeSequence(place, of, tower, layer)
                                                  : SizeLayer(place, tower, layer));
    layer.parameter_offset = plan_.parameter_count;
    for (LayerPlan& linear : layer.scorer) {
      linear.parameter_offset = layer.parameter_offset + layer.parameter_count;
      layer.parameter_count += linear.parameter_count;
      AddParameterBlocks(linear);
    }
    if (layer.scorer.empty()) AddParameterBlocks(layer);
    plan_.parameter_count += layer.parameter_count;
    layer.activation_column = plan_.activation_width;
    plan_.activation_width += layer.output_width;
    if (config.kind == LayerConfig::Kind::kCross) {
      layer.scratch_column = plan_.activation_width;
      plan_.activation_width += layer.output_width + config.rank;
      if (!tower.last_cross) {
        tower.origin_column = plan_.activation_width;
        plan_.activation_width += tower.input_width;
      }
      tower.last_cross = tower.layers.size();
    }
    if (!layer.scorer.empty()) {
      layer.scratch_column = plan_.activation_width;
      plan_.activation_width += layer.places * layer.scorer.front().input_width;
      for (LayerPlan& linear : layer.scorer) {
        linear.activation_column = plan_.activation_width;
        plan_.activation_width += layer.places * linear.output_width;
      }
    }
    tower.layers.push_back(layer);
    return absl::OkStatus();
  }

  void AddParameterBlocks(const LayerPlan& layer) {
    size_t first = layer.parameter_offset;
    const size_t end = first + layer.parameter_count;
    const auto add = [&](size_t count) {
      plan_.parameter_blocks.push_back({first, count});
      first += count;
    };
    if (first == end) return;
    const size_t rank = layer.config.rank;
    if (layer.config.kind == LayerConfig::Kind::kBatchNorm) {
      add(layer.output_width);
    } else if (rank > 0) {
      add(layer.input_width * rank);
      add(rank * layer.output_width);
    } else {
      add(layer.input_width * layer.output_width);
    }
    add(end - first);
  }

  // Sets the layer's output width and number of parameters.
  Status SizeLayer(const std::string& place, const TowerPlan& tower, LayerPlan& layer) {
    const LayerConfig& config = layer.config;
    switch (config.kind) {
      case LayerConfig::Kind::kLinear:
        SIMURGH_CHECK(config.width > 0) << place;
        layer.output_width = config.width;
        layer.parameter_count = (layer.input_width + 1) * layer.output_width;
        break;
      case LayerConfig::Kind::kBatchNorm:
        SIMURGH_CHECK(config.momentum > 0 && config.momentum <= 1) << place;
        SIMURGH_CHECK(config.epsilon > 0) << place;
        layer.parameter_count = 2 * layer.output_width;
        layer.statistics_offset = plan_.statistics_count;
        plan_.statistics_count += 2 * layer.output_width;
        break;
      case LayerConfig::Kind::kRelu:
      case LayerConfig::Kind::kGelu:
      case LayerConfig::Kind::kSigmoid:
      case LayerConfig::Kind::kSoftmax:
      case LayerConfig::Kind::kMean:
      case LayerConfig::Kind::kLast:
      case LayerConfig::Kind::kAttention:
        break;
      case LayerConfig::Kind::kMix: {
        const size_t terms = config.width;
        const bool fits = terms > 0 && layer.input_width > terms && layer.input_width % terms == 0;
        if (!fits) {
          return Invalid(place, ": mix of ", terms, " terms on ", layer.input_width,
                         " columns; read that many gates, then that many blocks of one width");
        }
        layer.output_width = layer.input_width / terms - 1;
        break;
      }
      case LayerConfig::Kind::kDot:
      case LayerConfig::Kind::kFm:
        return SizeInteraction(place, layer);
      case LayerConfig::Kind::kCross:
        return SizeCross(place, tower, layer);
      case LayerConfig::Kind::kSum:
        layer.output_width = std::max(config.width, 1U);
        if (layer.input_width % layer.output_width != 0) {
          return Invalid(place, ": sum of ", layer.input_width, " columns has width ",
                         layer.output_width, "; use an input width that is a multiple of it");
        }
        break;
    }
    return absl::OkStatus();
  }

  // of: the configuration of the tower.
  Status SizeSequence(const std::string& place, const TowerConfig& of, const TowerPlan& tower,
                      LayerPlan& layer) const {
    const bool attends = layer.config.kind == LayerConfig::Kind::kAttention;
    for (const ModelInputs::Feature& feature : inputs_.features) {
      const size_t inputs = of.inputs.size();
      const bool is_read = tower.layers.empty() && inputs >= 2 && feature.mask_width > 0 &&
                           of.inputs[inputs - 2] == kFeatureInput + feature.name &&
                           of.inputs[inputs - 1] == kMaskInput + feature.name;
      if (!is_read) continue;
      layer.places = feature.mask_width;
      layer.output_width = feature.width / feature.mask_width;
      const size_t query = tower.input_width - feature.width - feature.mask_width;
      if (query == (attends ? layer.output_width : 0)) return SizeScorer(place, layer);
    }
    return Invalid(place, ": begin the tower with it, and read ",
                   attends ? "a query as wide as a row, " : "",
                   "`embeddings.F` and `mask.F` of a raw feature F with mask: true");
  }

  static Status SizeScorer(const std::string& place, LayerPlan& layer) {
    if (layer.config.kind != LayerConfig::Kind::kAttention) return absl::OkStatus();
    size_t width = 4 * layer.output_width;
    const auto add = [&](uint32_t outputs) {
      LayerPlan linear{.config = {.width = outputs}, .input_width = width, .output_width = outputs};
      linear.parameter_count = (width + 1) * outputs;
      layer.scorer.push_back(linear);
      width = outputs;
    };
    for (const uint32_t outputs : layer.config.hidden) {
      SIMURGH_CHECK(outputs > 0) << place;
      add(outputs);
    }
    add(1);
    return absl::OkStatus();
  }

  static Status SizeInteraction(const std::string& place, LayerPlan& layer) {
    const bool dot = layer.config.kind == LayerConfig::Kind::kDot;
    const size_t dim = layer.config.width;
    if (dim == 0 || layer.input_width % dim != 0 || layer.input_width / dim < 2) {
      return Invalid(place, ": ", dot ? "dot" : "fm", " of vectors ", dim,
                     " wide, but its input is ", layer.input_width,
                     " wide; use two or more vectors of that width");
    }
    const size_t vectors = layer.input_width / dim;
    layer.output_width = dot ? vectors * (vectors - 1) / 2 : 1;
    return absl::OkStatus();
  }

  static Status SizeCross(const std::string& place, const TowerPlan& tower, LayerPlan& layer) {
    const size_t width = layer.input_width;
    const size_t rank = layer.config.rank;
    if (width != tower.input_width) {
      return Invalid(place, ": cross on ", width, " columns, but the tower's input has ",
                     tower.input_width,
                     "; place layers of other widths after it or in another tower");
    }
    layer.parameter_count = (rank == 0 ? width * width : 2 * width * rank) + width;
    return absl::OkStatus();
  }

  Status CheckTop() const {
    const TowerPlan& top = plan_.top();
    const size_t tasks = TaskCount(model_);
    if (top.output_width() != tasks) {
      return Invalid("tower '", top.name, "' has output width ", top.output_width(),
                     "; end the last tower with linear or sum of width ", tasks,
                     ", one output per label");
    }
    const LayerConfig::Kind kind = top.last().config.kind;
    if (kind != LayerConfig::Kind::kLinear && kind != LayerConfig::Kind::kSum) {
      return Invalid("tower '", top.name, "' layer ", top.layers.size(),
                     " is neither linear nor sum; end the last tower with one of width ", tasks,
                     " (the loss applies sigmoid or exp)");
    }
    return absl::OkStatus();
  }

  Status CheckEveryTowerIsRead() const {
    std::vector<bool> read(plan_.towers.size(), false);
    read.back() = true;
    for (const TowerPlan& tower : plan_.towers) {
      for (const TowerInput& input : tower.inputs) {
        if (input.source == TowerInput::Source::kTower) read[input.tower] = true;
      }
    }
    for (size_t i = 0; i < read.size(); ++i) {
      if (!read[i]) {
        return Invalid("tower '", plan_.towers[i].name,
                       "' has no reader; add it to the inputs of a later tower or remove it");
      }
    }
    return absl::OkStatus();
  }

  static bool Overlap(const TowerInput& a, const TowerInput& b) {
    if (a.source != b.source || a.tower != b.tower) return false;
    return a.source_column < b.source_column + b.width &&
           b.source_column < a.source_column + a.width;
  }

  Status FindFeature(const std::string& name, const TowerPlan& tower, TowerInput& input) const {
    input.source = TowerInput::Source::kEmbeddings;
    for (const ModelInputs::Feature& feature : inputs_.features) {
      input.width = feature.width;
      if (name == kFeatureInput + feature.name) return absl::OkStatus();
      input.source_column += feature.width;
    }
    return Invalid("tower '", tower.name, "' reads '", name,
                   "', but there is no such feature; correct the name");
  }

  // Finds the mask's columns. The width stays 0 if the feature has no mask.
  void FindMask(const std::string& name, TowerInput& input) const {
    input.source_column = inputs_.dense_width;
    for (size_t i = inputs_.features.size(); i-- > 0 && input.width == 0;) {
      const ModelInputs::Feature& feature = inputs_.features[i];
      input.source_column -= feature.mask_width;
      if (name == kMaskInput + feature.name) input.width = feature.mask_width;
    }
  }

  // Returns the tower's index, or the number of towers if there is none of that name yet.
  size_t FindTower(std::string_view name) const {
    size_t index = 0;
    while (index < plan_.towers.size() && plan_.towers[index].name != name) ++index;
    return index;
  }

  const ModelConfig& model_;
  const ModelInputs& inputs_;
  ModelPlan plan_;
};

}  // namespace

Status CheckModel(const ModelConfig& model, const ModelInputs& inputs) {
  return PlanModel(model, inputs).status();
}

StatusOr<ModelPlan> PlanModel(const ModelConfig& model, const ModelInputs& inputs) {
  return Planner(model, inputs).Build();
}

}  // namespace simurgh
