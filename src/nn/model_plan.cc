#include "nn/model_plan.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/hash.h"
#include "config/layer_shape.h"
#include "config/tower_shape.h"

namespace simurgh {
namespace {

constexpr size_t kMaxParameters = size_t{1} << 31;

constexpr std::string_view kDenseName = "dense";
constexpr std::string_view kEmbeddingsName = "embeddings";

template <typename... Parts>
Status Invalid(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("model: ", parts...));
}

using Kind = LayerConfig::Kind;

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
    if (IsInBatch(model_)) {
      const LossConfig loss = TasksOf(model_).front().loss;
      plan_.is_in_batch = true;
      plan_.output_factor = 1.0F / loss.temperature;
      plan_.counts_items = loss.correction == LossConfig::Correction::kLogQ;
    }
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
    shapes_.clear();
    for (const std::string& name : config.inputs) {
      SIMURGH_RETURN_IF_ERROR(AddInput(name, tower));
    }
    tower.activation_column = plan_.activation_width;
    plan_.activation_width += tower.input_width;
    if (config.layers.empty()) {
      return Invalid("tower '", config.name, "' has no layers; add at least one");
    }
    for (const LayerConfig& layer : config.layers) {
      SIMURGH_RETURN_IF_ERROR(AddLayer(layer, tower));
    }
    plan_.towers.push_back(std::move(tower));
    return absl::OkStatus();
  }

  Status AddInput(const std::string& name, TowerPlan& tower) {
    TowerInput input;
    InputShape shape;
    if (name == kDenseName) {
      input.source = TowerInput::Source::kDense;
      input.width = plan_.dense_width;
    } else if (name == kEmbeddingsName) {
      input.source = TowerInput::Source::kEmbeddings;
      input.width = plan_.embedding_width;
    } else if (name.starts_with(kFeatureInput)) {
      SIMURGH_RETURN_IF_ERROR(FindFeature(name, tower, input, shape));
    } else if (name.starts_with(kMaskInput)) {
      FindMask(name, input);
    } else {
      input.source = TowerInput::Source::kTower;
      input.tower = FindTower(name);
      if (input.tower == plan_.towers.size()) {
        return Invalid("tower '", tower.name, "' reads '", name,
                       "'; use `dense`, `embeddings` or an earlier tower");
      }
      const TowerPlan& read = plan_.towers[input.tower];
      input.width = read.output_width();
      if (read.last().config.kind == LayerConfig::Kind::kSelfAttention) {
        shape.places = read.last().places;
        shape.mask = model_.towers[input.tower].inputs.back();
      }
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
    shape.name = name;
    shape.width = input.width;
    shapes_.push_back(shape);
    return absl::OkStatus();
  }

  Status AddLayer(const LayerConfig& config, TowerPlan& tower) {
    LayerPlan layer;
    layer.config = config;
    layer.input_width = tower.layers.empty() ? tower.input_width : tower.output_width();
    layer.output_width = layer.input_width;
    const std::string place =
        absl::StrCat("tower '", tower.name, "' layer ", tower.layers.size() + 1);
    SIMURGH_RETURN_IF_ERROR(ReadsSequence(config) ? SizeSequence(place, tower, layer)
                                                  : SizeLayer(place, tower, layer));
    AddParameters(layer);
    if (config.kind == LayerConfig::Kind::kDropout) {
      const bool after_relu =
          !tower.layers.empty() && tower.last().config.kind == LayerConfig::Kind::kRelu;
      // A relu's backward pass finds in the dropout's output which values are positive.
      layer.is_in_place = config.rate == 0.0F || after_relu;
      plan_.drops |= config.rate > 0.0F;
      layer.stream = Mix64(HashBytes(tower.name) + tower.layers.size());
    }
    if (layer.is_in_place) {
      layer.activation_column =
          tower.layers.empty() ? tower.activation_column : tower.last().activation_column;
      tower.layers.push_back(layer);
      return absl::OkStatus();
    }
    layer.activation_column = plan_.activation_width;
    plan_.activation_width += layer.output_width;
    layer.scratch_column = plan_.activation_width;
    plan_.activation_width += ScratchWidth(layer);
    if (config.kind == LayerConfig::Kind::kCross) {
      if (!tower.last_cross) {
        tower.origin_column = plan_.activation_width;
        plan_.activation_width += tower.input_width;
      }
      tower.last_cross = tower.layers.size();
    }
    AddInner(layer);
    tower.layers.push_back(layer);
    return absl::OkStatus();
  }

  static size_t ScratchWidth(const LayerPlan& layer) {
    switch (layer.config.kind) {
      case LayerConfig::Kind::kCross:
        return layer.output_width + layer.config.rank;
      case LayerConfig::Kind::kAttention:
        return layer.places * layer.inner.front().input_width;
      case LayerConfig::Kind::kSelfAttention:
        return layer.places * (2 * layer.row_width + layer.config.width * layer.places);
      case LayerConfig::Kind::kDice:
        return layer.output_width;
      case LayerConfig::Kind::kLayerNorm:
        return 2;
      case LayerConfig::Kind::kBilinear:
        return layer.input_width / 2;
      default:
        return 0;
    }
  }

  // Adds columns for the layers inside the layer.
  void AddInner(LayerPlan& layer) {
    for (LayerPlan& inner : layer.inner) {
      inner.activation_column = plan_.activation_width;
      plan_.activation_width += layer.places * inner.output_width;
      inner.scratch_column = plan_.activation_width;
      plan_.activation_width += layer.places * ScratchWidth(inner);
    }
  }

  // Gives the layer, and then those inside it, places in the flat buffers.
  void AddParameters(LayerPlan& layer) {
    layer.parameter_offset = plan_.parameter_count;
    for (const ParameterPlan& part : layer.parts) {
      plan_.parameter_blocks.push_back({plan_.parameter_count, part.count()});
      plan_.parameter_count += part.count();
    }
    for (LayerPlan& inner : layer.inner) {
      AddParameters(inner);
      layer.parts.insert(layer.parts.end(), inner.parts.begin(), inner.parts.end());
    }
    layer.parameter_count = plan_.parameter_count - layer.parameter_offset;
    if (!layer.has_statistics) return;
    layer.statistics_offset = plan_.statistics_count;
    plan_.statistics_count += 2 * layer.output_width;
  }

  // Sets the layer's output width and its parameters.
  static Status SizeLayer(const std::string& place, const TowerPlan& tower, LayerPlan& layer) {
    const LayerConfig& config = layer.config;
    const LayerShape shape = ShapeOf(config, layer.input_width, tower.input_width);
    if (shape.width == 0) return Invalid(place, ": ", shape.problem, "; ", shape.remedy);
    layer.output_width = shape.width;
    const size_t width = layer.output_width;
    switch (config.kind) {
      case LayerConfig::Kind::kLinear:
        AddLinear(layer, "");
        break;
      case LayerConfig::Kind::kBatchNorm:
        layer.parts = {Constant("scale", width, 1.0F), Constant("shift", width, 0.0F)};
        layer.has_statistics = true;
        break;
      case LayerConfig::Kind::kLayerNorm:
        layer.parts = {Constant("scale", width, 1.0F), Constant("shift", width, 0.0F)};
        break;
      case LayerConfig::Kind::kPrelu:
        layer.parts = {Constant("slope", width, 0.25F)};
        break;
      case LayerConfig::Kind::kDice:
        layer.parts = {Constant("slope", width, 0.0F)};
        layer.has_statistics = true;
        break;
      case LayerConfig::Kind::kBilinear: {
        const size_t half = layer.input_width / 2;
        const size_t block = half / config.width;
        layer.parts = {Uniform("weight", {half, block}, half * block)};
        break;
      }
      case LayerConfig::Kind::kCross:
        if (const size_t rank = config.rank; rank > 0) {
          layer.parts = {Uniform("down", {width, rank}, width), Uniform("up", {rank, width}, rank)};
        } else {
          layer.parts = {Uniform("weight", {width, width}, width)};
        }
        layer.parts.push_back(Constant("bias", width, 0.0F));
        break;
      default:
        break;
    }
    return absl::OkStatus();
  }

  static ParameterPlan Constant(std::string name, size_t length, float value) {
    return {.name = std::move(name), .shape = {length}, .value = value};
  }
  static ParameterPlan Uniform(std::string name, std::vector<size_t> shape, size_t inputs) {
    return {.name = std::move(name),
            .shape = std::move(shape),
            .initial = ParameterPlan::Initial::kUniform,
            .inputs = inputs};
  }

  // Adds weight (inputs, outputs) and bias (outputs). end: of their names.
  static void AddLinear(LayerPlan& layer, const std::string& end) {
    const size_t inputs = layer.input_width;
    layer.parts.push_back(Uniform("weight" + end, {inputs, layer.output_width}, inputs));
    layer.parts.push_back(Uniform("bias" + end, {layer.output_width}, inputs));
  }

  Status SizeSequence(const std::string& place, TowerPlan& tower, LayerPlan& layer) const {
    if (!tower.layers.empty()) return Invalid(place, ": begin another tower with it");
    const SequenceShape shape = SequenceShapeOf(layer.config, shapes_);
    if (shape.width == 0) return Invalid(place, ": ", shape.problem, "; ", shape.remedy);
    layer.output_width = shape.width;
    layer.places = shape.places;
    layer.row_width = shape.row_width;
    layer.query_width = shape.query_width;
    Interleave(shape, tower);
    if (layer.config.kind == LayerConfig::Kind::kAttention) AddScorer(layer);
    if (layer.config.kind == LayerConfig::Kind::kSelfAttention) AddBlock(layer);
    return absl::OkStatus();
  }

  // Places what several sequences have at one place side by side.
  static void Interleave(const SequenceShape& shape, TowerPlan& tower) {
    const size_t end = tower.inputs.size() - 1;
    if (end - shape.first == 1) return;
    size_t column = shape.query_width;
    for (size_t i = shape.first; i < end; ++i) {
      TowerInput& input = tower.inputs[i];
      input.column = column;
      input.places = shape.places;
      input.stride = shape.row_width;
      column += input.width / input.places;
    }
  }

  static LayerPlan LinearLayer(size_t inputs, size_t outputs, const std::string& end) {
    LayerPlan linear{.config = {.width = static_cast<uint32_t>(outputs)},
                     .input_width = inputs,
                     .output_width = outputs};
    AddLinear(linear, end);
    return linear;
  }

  // Adds the layers that weigh a row by (q, k, q - k, q * k), where the last two are of the columns
  // that the query q has.
  static void AddScorer(LayerPlan& layer) {
    const Kind activation = layer.config.activation;
    size_t width = layer.row_width + 3 * layer.query_width;
    for (size_t i = 0; i < layer.config.hidden.size(); ++i) {
      const std::string end = absl::StrCat("_", i + 1);
      layer.inner.push_back(LinearLayer(width, layer.config.hidden[i], end));
      width = layer.config.hidden[i];
      if (activation == Kind::kRelu) continue;
      LayerPlan active{.config = {.kind = activation}, .input_width = width, .output_width = width};
      const bool is_dice = activation == Kind::kDice;
      if (is_dice || activation == Kind::kPrelu) {
        active.parts = {Constant("slope" + end, width, is_dice ? 0.0F : 0.25F)};
      }
      active.has_statistics = is_dice;
      active.suffix = end;
      layer.inner.push_back(active);
    }
    layer.inner.push_back(LinearLayer(width, 1, absl::StrCat("_", layer.config.hidden.size() + 1)));
  }

  static void AddBlock(LayerPlan& layer) {
    const size_t width = layer.row_width;
    if (layer.config.positions) {
      ParameterPlan positions = Constant("positions", width, 0.0F);
      positions.shape = {layer.places, width};
      layer.parts.push_back(positions);
    }
    const auto norm = [&](const std::string& end) {
      return LayerPlan{
          .config = {.kind = Kind::kLayerNorm, .epsilon = layer.config.epsilon},
          .input_width = width,
          .output_width = width,
          .parts = {Constant("scale" + end, width, 1.0F), Constant("shift" + end, width, 0.0F)}};
    };
    const size_t hidden = layer.config.hidden[0];
    layer.inner = {
        LinearLayer(width, 3 * width, "_in"), LinearLayer(width, width, "_out"), norm("_1"),
        LinearLayer(width, hidden, "_1"),     LinearLayer(hidden, width, "_2"),  norm("_2")};
  }

  Status CheckTop() const {
    const TowerPlan& top = plan_.top();
    const size_t tasks = TaskCount(model_);
    // shapes_ has the inputs of the last tower.
    if (IsInBatch(model_)) {
      if (tasks == 1 && IsDotOfTwo(model_.towers.back(), shapes_)) return absl::OkStatus();
      return Invalid("tower '", top.name,
                     "' is not one dot of two vectors; in_batch_softmax needs "
                     "a user's and an item's, of one width");
    }
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

  Status FindFeature(const std::string& name, const TowerPlan& tower, TowerInput& input,
                     InputShape& shape) const {
    input.source = TowerInput::Source::kEmbeddings;
    for (const ModelInputs::Feature& feature : inputs_.features) {
      input.width = feature.width;
      shape.places = feature.places;
      shape.mask = kMaskInput + feature.name;
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
  std::vector<InputShape> shapes_;  // Inputs of the last tower.
};

}  // namespace

Status CheckModel(const ModelConfig& model, const ModelInputs& inputs) {
  return PlanModel(model, inputs).status();
}

StatusOr<ModelPlan> PlanModel(const ModelConfig& model, const ModelInputs& inputs) {
  return Planner(model, inputs).Build();
}

}  // namespace simurgh
