#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "config/layer_shape.h"
#include "config/model_shorthand.h"
#include "config/sections.h"

namespace simurgh {
namespace {

using Kind = LayerConfig::Kind;
using Named = ModelShorthand::Kind;

constexpr uint32_t kDefaultWidth = 32;  // Width of the last default layer.

// Returns the layers, or the default ones with this last width.
std::vector<LayerConfig> OrDefault(const std::vector<LayerConfig>& layers, uint32_t width) {
  if (!layers.empty()) return layers;
  return {{.kind = Kind::kLinear, .width = 64},
          {.kind = Kind::kRelu},
          {.kind = Kind::kLinear, .width = width},
          {.kind = Kind::kRelu}};
}

// Expands one model. Each method returns after its first report.
class Expansion {
 public:
  Expansion(const ModelShorthand& shorthand, ClusterConfig* config, Diagnostics* diagnostics)
      : model_(shorthand),
        deep_(shorthand.has_no_layers ? shorthand.deep : OrDefault(shorthand.deep, kDefaultWidth)),
        config_(*config),
        towers_(config->model.towers),
        has_dense_(DenseWidth(*config) > 0),
        diagnostics_(*diagnostics) {
    for (const FeatureConfig& feature : config->features) {
      features_.push_back(feature.name);
      tables_[feature.name] = &config->tables[feature.table_index];
    }
  }

  void Run() {
    switch (model_.kind) {
      case Named::kNone:
        break;
      case Named::kDlrm:
        return Dlrm();
      case Named::kDcnV2:
        return DcnV2();
      case Named::kDeepFm:
        return DeepFm();
      case Named::kWideDeep:
        return WideDeep();
      case Named::kFinalMlp:
        return FinalMlp();
      case Named::kMaskNet:
        return MaskNet();
      case Named::kDin:
      case Named::kBst:
        return Interest();
      case Named::kMmoe:
        return Mmoe();
      case Named::kPle:
        return Ple();
      case Named::kEsmm:
        return Esmm();
      case Named::kTwoTower:
        return TwoTower();
    }
  }

 private:
  void Dlrm() {
    if (!has_dense_) {
      return Report("bottom", "requires dense columns",
                    "add dense columns, or choose another model");
    }
    const uint32_t dim = CommonDim(features_, "the vectors of the interaction have one width");
    if (dim == 0) return;
    const std::vector<LayerConfig> bottom = OrDefault(model_.bottom, dim);
    const auto last = std::find_if(bottom.rbegin(), bottom.rend(),
                                   [](const LayerConfig& l) { return l.kind == Kind::kLinear; });
    if (last == bottom.rend() || last->width != dim) {
      return Report("bottom",
                    absl::StrCat("must end as wide as the embeddings, whose dim is ", dim),
                    absl::StrCat("make {linear: ", dim, "} its last linear layer"));
    }
    Add("bottom", {"dense"}, bottom);
    Add("interaction", {"bottom", "embeddings"}, {{.kind = Kind::kDot, .width = dim}});
    Add("top", {"bottom", "interaction"}, WithLogits(OrDefault(model_.top, kDefaultWidth)));
  }

  void DcnV2() {
    const std::vector<std::string> inputs = WithDense({"embeddings"});
    std::vector<LayerConfig> layers(model_.cross_layers,
                                    {.kind = Kind::kCross, .rank = model_.rank});
    if (model_.structure == ModelShorthand::Structure::kParallel) {
      Add("cross", inputs, layers);
      Add("deep", inputs, deep_);
      Add("top", {"cross", "deep"}, {Logits()});
      return;
    }
    layers.insert(layers.end(), deep_.begin(), deep_.end());
    Add("top", inputs, WithLogits(layers));
  }

  void DeepFm() {
    std::vector<std::string> others;
    if (!SplitFeatures("first_order", &others)) return;
    const uint32_t dim = CommonDim(others, "the vectors of all other features have one width");
    if (dim == 0) return;
    if (others.size() < 2) {
      return Report("first_order", "leaves fewer than two features for the second order",
                    "add features of a common dim");
    }
    std::vector<std::string> vectors;
    if (!AddAttention(others, &vectors)) return;
    Add("first_order", InputsOf(model_.first_order_features), {{.kind = Kind::kSum}});
    Add("second_order", vectors, {{.kind = Kind::kFm, .width = dim}});
    Add("deep", WithDense(vectors), WithLogits(deep_));
    std::vector<std::string> terms = {"first_order", "second_order", "deep"};
    if (has_dense_) {
      Add("numbers", {"dense"}, {Logits()});
      terms.emplace_back("numbers");
    }
    Add("top", terms, {{.kind = Kind::kSum}});
  }

  // Two streams, whose outputs meet in a bilinear form. Source: Mao et al., "FinalMLP: an enhanced
  // two-stream MLP model for CTR prediction", AAAI 2023.
  void FinalMlp() {
    const std::vector<std::string> inputs = WithDense({"embeddings"});
    const size_t width = DenseWidth(config_) + config_.embedding_width();
    const char* const names[] = {"first", "second"};
    const size_t first_width = WidthAfter(OrDefault(model_.streams[0], kDefaultWidth), width);
    const size_t second_width = WidthAfter(OrDefault(model_.streams[1], kDefaultWidth), width);
    if (first_width != second_width) {
      return Report("second",
                    absl::StrCat("ends ", second_width, " wide, the first stream ", first_width),
                    "end both streams with one width");
    }
    if (first_width % model_.heads != 0) {
      return Report("heads", absl::StrCat("do not divide the streams' width, ", first_width),
                    "choose a divisor of it");
    }
    for (size_t i = 0; i < 2; ++i) {
      const std::vector<std::string>& context = model_.contexts[i];
      std::vector<std::string> stream_inputs = inputs;
      std::vector<LayerConfig> layers = OrDefault(model_.streams[i], kDefaultWidth);
      if (!context.empty()) {
        const std::string key = absl::StrCat(names[i], "_context");
        for (const std::string& feature : context) {
          if (!diagnostics_.CheckKnown(absl::StrCat("model.final_mlp.", key), "feature", feature,
                                       features_))
            return;
        }
        const std::string gate = absl::StrCat(names[i], "_gate");
        Add(gate, InputsOf(context),
            {Linear(64), {.kind = Kind::kRelu}, Linear(width), {.kind = Kind::kGate}});
        stream_inputs.push_back(gate);
        layers.insert(layers.begin(), {.kind = Kind::kProduct, .width = 2});
      }
      Add(names[i], stream_inputs, layers);
    }
    AddForLabels([&](const std::string& name) {
      Add(name + "_pairs", {"first", "second"}, {{.kind = Kind::kBilinear, .width = model_.heads}});
      Add(name + "_sum", {"first", "second"}, {Linear(1)});
      return std::vector{name + "_pairs", name + "_sum"};
    });
  }

  // Masks, made from all embeddings, multiply what a block reads. Source: Wang et al., "MaskNet:
  // introducing feature-wise multiplication to CTR ranking models by instance-guided mask",
  // DLP-KDD 2021.
  void MaskNet() {
    const std::vector<std::string> inputs = WithDense({"embeddings"});
    std::vector<std::string> normalised = WithDense({});
    for (const std::string& feature : features_) {
      const std::string tower = "normalised_" + feature;
      Add(tower, {kFeatureInput + feature}, {{.kind = Kind::kLayerNorm}});
      normalised.push_back(tower);
    }
    const size_t width = DenseWidth(config_) + config_.embedding_width();
    const bool is_serial = model_.structure == ModelShorthand::Structure::kStacked;
    const auto hidden = std::clamp<size_t>(
        std::lround(double{model_.mask_ratio} * static_cast<double>(width)), 1, kMaxLayerWidth);
    std::vector<std::string> blocks;
    for (uint32_t i = 1; i <= model_.blocks; ++i) {
      const bool reads_block = is_serial && i > 1;
      const std::string mask = absl::StrCat("mask_", i);
      const std::string block = absl::StrCat("block_", i);
      Add(mask, inputs,
          {Linear(hidden),
           {.kind = Kind::kRelu},
           Linear(reads_block ? model_.block_width : width)});
      std::vector<std::string> read = reads_block ? std::vector{blocks.back()} : normalised;
      read.push_back(mask);
      Add(block, read,
          {{.kind = Kind::kProduct, .width = 2},
           Linear(model_.block_width),
           {.kind = Kind::kLayerNorm},
           {.kind = Kind::kRelu}});
      blocks.push_back(block);
    }
    Add("top", is_serial ? std::vector{blocks.back()} : blocks, WithLogits(deep_));
  }

  // din: attention over each sequence for its query. Source: Zhou et al., "Deep Interest Network
  // for click-through rate prediction", KDD 2018. bst: self-attention over each sequence before.
  // Source: Chen et al., "Behavior Sequence Transformer for e-commerce recommendation in Alibaba",
  // DLP-KDD 2019, where the query is a row of the sequence.
  void Interest() {
    std::vector<std::string> inputs;
    if (!AddAttention(features_, &inputs)) return;
    Add("top", WithDense(inputs), WithLogits(deep_));
  }

  // Source: Ma et al., "Modeling task relationships in multi-task learning with multi-gate
  // mixture-of-experts", KDD 2018.
  void Mmoe() {
    const std::vector<std::string> inputs = WithDense({"embeddings"});
    const std::vector<std::string> experts = AddExperts("expert", model_.experts, inputs);
    AddForLabels([&](const std::string& name) {
      AddMixture(name + "_mix", inputs, experts);
      Add(name + "_deep", {name + "_mix"}, WithLogit(deep_));
      return std::vector{name + "_deep"};
    });
  }

  // Source: Tang et al., "Progressive layered extraction (PLE)", RecSys 2020.
  void Ple() {
    const std::vector<std::string> inputs = WithDense({"embeddings"});
    const std::vector<std::string> labels = Labels();
    std::map<std::string, std::vector<std::string>> inputs_of;  // Label, or "" for what is shared.
    for (const std::string& label : labels) inputs_of[label] = inputs;
    inputs_of[""] = inputs;
    for (uint32_t level = 1; level <= model_.levels; ++level) {
      const std::string prefix = absl::StrCat("level_", level, "_");
      const std::vector<std::string> shared =
          AddExperts(prefix + "shared", model_.experts, inputs_of[""]);
      std::vector<std::string> all = shared;
      std::map<std::string, std::vector<std::string>> next;
      for (const std::string& label : labels) {
        std::vector<std::string> experts =
            AddExperts(prefix + label, model_.task_experts, inputs_of[label]);
        all.insert(all.end(), experts.begin(), experts.end());
        experts.insert(experts.end(), shared.begin(), shared.end());
        AddMixture(prefix + label + "_mix", inputs_of[label], experts);
        next[label] = {prefix + label + "_mix"};
      }
      if (level < model_.levels) {
        AddMixture(prefix + "shared_mix", inputs_of[""], all);
        next[""] = {prefix + "shared_mix"};
      }
      inputs_of = std::move(next);
    }
    AddForLabels([&](const std::string& name) {
      Add(name + "_deep", inputs_of[name], WithLogit(deep_));
      return std::vector{name + "_deep"};
    });
  }

  // The probability of the conversion is that of the click times that of a conversion after it.
  // Source: Ma et al., "Entire space multi-task model", SIGIR 2018.
  void Esmm() {
    const std::vector<std::string> labels = Labels();
    const bool fits = labels.size() == 2;
    const std::string click = model_.click.empty() && fits ? labels[0] : model_.click;
    const std::string conversion =
        model_.conversion.empty() && fits ? labels[1] : model_.conversion;
    for (const auto& [key, name] : {std::pair("click", click), {"conversion", conversion}}) {
      if (name.empty()) continue;
      if (!diagnostics_.CheckKnown(absl::StrCat("model.esmm.", key), "label column", name, labels))
        return;
    }
    if (!fits || click == conversion) {
      return Report("conversion", "the model needs two labels, a click and a conversion",
                    "name both of data.columns with kind: label");
    }
    for (const TaskConfig& task : config_.model.tasks) {
      if (task.loss.kind == LossConfig::Kind::kBce) continue;
      return Report("conversion",
                    absl::StrCat("the loss of '", task.label, "' is ", NameOf(task.loss.kind),
                                 ", and the model multiplies probabilities"),
                    "use the loss bce for both labels");
    }
    const std::vector<std::string> inputs = WithDense({"embeddings"});
    Add("click", inputs, WithLogit(deep_));
    Add("conversion_after_click", inputs, WithLogit(deep_));
    Add("conversion", {"click", "conversion_after_click"}, {{.kind = Kind::kJoint, .width = 2}});
    const bool click_first = labels[0] == click;
    Add("top",
        click_first ? std::vector<std::string>{"click", "conversion"}
                    : std::vector<std::string>{"conversion", "click"},
        {{.kind = Kind::kSum, .width = 2}});
  }

  // Source: Yi et al., "Sampling-bias-corrected neural modeling for large corpus item
  // recommendations", RecSys 2019, section 3, without the correction.
  void TwoTower() {
    std::map<std::string, std::string> sides;  // Feature -> the key that names it first.
    for (const auto& [key, names] : {std::pair("user", &model_.user), {"item", &model_.item}}) {
      if (names->empty()) return Report(key, "names no feature", "list the features of its tower");
      for (size_t i = 0; i < names->size(); ++i) {
        const std::string& name = (*names)[i];
        const std::string path = absl::StrCat(key, ".", i);
        if (!diagnostics_.CheckKnown("model.two_tower." + path, "feature", name, features_)) return;
        const auto [side, is_new] = sides.emplace(name, key);
        if (is_new) continue;
        return Report(path,
                      absl::StrCat("feature '", name, "' is named in ", side->second, ", too"),
                      "name it once");
      }
    }
    for (const std::string& feature : features_) {
      if (sides.contains(feature)) continue;
      return Report("user", absl::StrCat("feature '", feature, "' is in neither tower"),
                    "name it in user or item, or remove the feature");
    }
    for (const TaskConfig& task : config_.model.tasks) {
      if (task.loss.kind == LossConfig::Kind::kInBatchSoftmax) continue;
      return Report("user",
                    absl::StrCat("the loss of '", task.label, "' is ", NameOf(task.loss.kind)),
                    "remove model.tasks; the loss is in_batch_softmax");
    }
    std::vector<LayerConfig> layers = deep_;
    layers.push_back(Linear(model_.dim));
    if (model_.normalize) layers.push_back({.kind = Kind::kL2Norm});
    Add("user", WithDense(InputsOf(model_.user)), layers);
    Add("item", InputsOf(model_.item), layers);
    Add("top", {"user", "item"}, {{.kind = Kind::kDot, .width = model_.dim}});
  }

  // Adds what gives the logit of each label, and the top. add: adds towers whose names begin with
  // the label's; returns those whose outputs add up to its logit.
  template <typename AddTowers>
  void AddForLabels(const AddTowers& add) {
    std::vector<std::string> terms;
    for (const std::string& label : Labels()) {
      for (const std::string& term : add(label)) terms.push_back(term);
    }
    Add("top", terms, {{.kind = Kind::kSum, .width = static_cast<uint32_t>(Labels().size())}});
  }

  std::vector<std::string> AddExperts(const std::string& name, uint32_t count,
                                      const std::vector<std::string>& inputs) {
    std::vector<std::string> experts;
    for (uint32_t i = 1; i <= count; ++i) {
      experts.push_back(absl::StrCat(name, "_", i));
      Add(experts.back(), inputs, OrDefault(model_.expert, kDefaultWidth));
    }
    return experts;
  }

  // Adds the gate, which reads `inputs`, and the mixture of the experts.
  void AddMixture(const std::string& name, const std::vector<std::string>& inputs,
                  const std::vector<std::string>& experts) {
    const auto count = static_cast<uint32_t>(experts.size());
    Add(name + "_gate", inputs, {Linear(count), {.kind = Kind::kSoftmax}});
    std::vector<std::string> terms = {name + "_gate"};
    terms.insert(terms.end(), experts.begin(), experts.end());
    Add(name, terms, {{.kind = Kind::kMix, .width = count}});
  }

  // Returns names that begin the towers of each label.
  std::vector<std::string> Labels() const {
    std::vector<std::string> labels;
    for (const TaskConfig& task : config_.model.tasks) labels.push_back(task.label);
    return labels;
  }

  // Adds a tower for each attention. Sets the inputs of all features, those towers in place of the
  // sequences. Returns false after a report.
  bool AddAttention(const std::vector<std::string>& features, std::vector<std::string>* inputs) {
    const std::vector<ModelShorthand::Attention> attentions =
        model_.attention.empty() && model_.kind != Named::kDeepFm ? OwnPairs() : model_.attention;
    if (attentions.empty() && model_.kind != Named::kDeepFm) {
      Report("attention", "there is no sequence whose table another feature has",
             "give a list pooling: raw and mask: true, and the table of its query, or name both");
      return false;
    }
    std::map<std::string, std::string> towers;  // Sequence -> its tower.
    for (size_t i = 0; i < attentions.size(); ++i) {
      const auto& [sequences, queries] = attentions[i];
      const std::string path = absl::StrCat("model.", model_.key, ".attention.", i);
      if (!CheckFeatures(path + ".sequence", sequences, features, /*is_sequence=*/true) ||
          !CheckFeatures(path + ".query", queries, features, /*is_sequence=*/false)) {
        return false;
      }
      const std::string tower = absl::StrCat("attention_", i + 1);
      std::vector<std::string> rows = InputsOf(sequences);
      const std::string mask = kMaskInput + sequences.front();
      if (model_.kind == Named::kBst) {
        std::vector<std::string> read = rows;
        read.push_back(mask);
        rows = {absl::StrCat("sequence_", i + 1)};
        Add(rows[0], read, std::vector<LayerConfig>(1, model_.block));
        for (uint32_t block = 2; block <= model_.blocks; ++block) {
          const std::string next = absl::StrCat("sequence_", i + 1, "_", block);
          Add(next, {rows[0], mask}, {model_.block});
          towers_.back().layers[0].positions = false;
          rows = {next};
        }
      }
      std::vector<std::string> read = InputsOf(queries);
      read.insert(read.end(), rows.begin(), rows.end());
      read.push_back(mask);
      Add(tower, read, {model_.pooling});
      for (const std::string& sequence : sequences) {
        const bool is_first = sequence == sequences.front();
        if (towers.emplace(sequence, is_first ? tower : "").second) continue;
        diagnostics_.Report(path + ".sequence", absl::StrCat("'", sequence, "' is given twice"),
                            "remove one");
        return false;
      }
    }
    for (const std::string& feature : features) {
      const auto tower = towers.find(feature);
      if (tower == towers.end()) {
        inputs->push_back(kFeatureInput + feature);
      } else if (!tower->second.empty()) {
        inputs->push_back(tower->second);
      }
    }
    return true;
  }

  // Returns each raw feature with a mask, for the first other feature of its table.
  std::vector<ModelShorthand::Attention> OwnPairs() const {
    std::vector<ModelShorthand::Attention> pairs;
    for (const FeatureConfig& feature : config_.features) {
      if (!IsSequence(feature) || !feature.mask) continue;
      const auto query = std::ranges::find_if(config_.features, [&](const FeatureConfig& other) {
        return !IsSequence(other) && other.table_index == feature.table_index;
      });
      if (query != config_.features.end()) pairs.push_back({{feature.name}, {query->name}});
    }
    return pairs;
  }

  static bool IsSequence(const FeatureConfig& feature) { return feature.pooling == Pooling::kRaw; }

  // Reports an unknown feature, or one that cannot be a sequence, or a query.
  bool CheckFeatures(const std::string& path, const std::vector<std::string>& names,
                     const std::vector<std::string>& known, bool is_sequence) {
    for (size_t i = 0; i < names.size(); ++i) {
      const std::string place = names.size() == 1 ? path : absl::StrCat(path, ".", i);
      if (!diagnostics_.CheckKnown(place, "feature", names[i], known)) return false;
      const FeatureConfig& feature =
          *std::ranges::find(config_.features, names[i], &FeatureConfig::name);
      if (is_sequence ? IsSequence(feature) && feature.mask : !IsSequence(feature)) continue;
      diagnostics_.Report(place,
                          absl::StrCat("feature '", names[i], "' cannot be the ",
                                       is_sequence ? "sequence" : "query"),
                          "name a sequence with pooling: raw and mask: true, and a query of "
                          "another pooling");
      return false;
    }
    return true;
  }

  void WideDeep() {
    std::vector<std::string> others;
    if (!SplitFeatures("wide", &others)) return;
    const std::vector<std::string> deep_inputs = WithDense(InputsOf(others));
    if (deep_inputs.empty()) {
      return Report("wide", "leaves no inputs for the deep part", "add features or dense columns");
    }
    Add("wide", InputsOf(model_.first_order_features), {{.kind = Kind::kSum}});
    Add("deep", deep_inputs, WithLogits(deep_));
    Add("top", {"wide", "deep"}, {{.kind = Kind::kSum}});
  }

  // Checks the first-order features, given under `key`, and finds the others.
  bool SplitFeatures(const std::string& key, std::vector<std::string>* others) {
    if (TaskCount(config_.model) > 1) {
      diagnostics_.Report(absl::StrCat("model.", model_.key), "supports one label only",
                          "describe the model by towers, with terms for each label");
      return false;
    }
    const std::vector<std::string>& named = model_.first_order_features;
    const auto path_of = [&](size_t i) {
      return absl::StrCat("model.", model_.key, ".", key, ".", i);
    };
    for (size_t i = 0; i < named.size(); ++i) {
      if (!diagnostics_.CheckKnown(path_of(i), "feature", named[i], features_)) return false;
      const TableConfig& table = *tables_[named[i]];
      if (table.dim == 1) continue;
      diagnostics_.Report(path_of(i),
                          absl::StrCat("its table '", table.name, "' has dim ", table.dim),
                          "give the feature a table of dim 1, one weight per id");
      return false;
    }
    diagnostics_.CheckDistinct(named, std::identity(), path_of);
    for (const std::string& feature : features_) {
      if (std::ranges::find(named, feature) == named.end()) others->push_back(feature);
    }
    return diagnostics_.ok();
  }

  // Returns the dim that all the features have; 0 after a report.
  uint32_t CommonDim(const std::vector<std::string>& features, const std::string& why) {
    if (features.empty()) return 1;
    const uint32_t first = tables_[features.front()]->dim;
    for (const std::string& feature : features) {
      const uint32_t dim = tables_[feature]->dim;
      if (dim == first) continue;
      diagnostics_.Report(absl::StrCat("model.", model_.key),
                          absl::StrCat("feature '", feature, "' has dim ", dim, ", '",
                                       features.front(), "' has dim ", first),
                          absl::StrCat(why, ": give their tables one dim"));
      return 0;
    }
    return first;
  }

  static std::vector<std::string> InputsOf(std::vector<std::string> features) {
    for (std::string& feature : features) feature.insert(0, kFeatureInput);
    return features;
  }

  std::vector<std::string> WithDense(std::vector<std::string> inputs) const {
    if (has_dense_) inputs.insert(inputs.begin(), "dense");
    return inputs;
  }

  // Returns the width of the layers' output; 0 if they do not fit, which a later check reports.
  static size_t WidthAfter(const std::vector<LayerConfig>& layers, size_t width) {
    const size_t input = width;
    for (const LayerConfig& layer : layers) {
      if (width > 0 && !ReadsSequence(layer)) width = ShapeOf(layer, width, input).width;
    }
    return width;
  }

  static LayerConfig Linear(size_t width) {
    return {.kind = Kind::kLinear, .width = static_cast<uint32_t>(width)};
  }

  // Returns the layer with one logit per label.
  LayerConfig Logits() const { return Linear(TaskCount(config_.model)); }

  std::vector<LayerConfig> WithLogits(std::vector<LayerConfig> layers) const {
    layers.push_back(Logits());
    return layers;
  }

  static std::vector<LayerConfig> WithLogit(std::vector<LayerConfig> layers) {
    layers.push_back(Linear(1));
    return layers;
  }

  void Add(std::string name, std::vector<std::string> inputs, std::vector<LayerConfig> layers) {
    towers_.push_back({std::move(name), std::move(inputs), std::move(layers)});
  }

  void Report(const std::string& key, const std::string& what, const std::string& remedy) {
    diagnostics_.Report(absl::StrCat("model.", model_.key, ".", key), what, remedy);
  }

  const ModelShorthand& model_;
  const std::vector<LayerConfig> deep_;
  const ClusterConfig& config_;
  std::vector<TowerConfig>& towers_;
  const bool has_dense_;
  Diagnostics& diagnostics_;
  std::vector<std::string> features_;
  std::map<std::string, const TableConfig*> tables_;  // Feature -> its table.
};

}  // namespace

void ExpandModel(const ModelShorthand& shorthand, ClusterConfig* config, Diagnostics* diagnostics) {
  Expansion(shorthand, config, diagnostics).Run();
}

}  // namespace simurgh
