#include "config/model_shorthand.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "config/defaults.h"
#include "config/map_reader.h"
#include "config/sections.h"

namespace simurgh {
namespace {

using Kind = LayerConfig::Kind;

constexpr size_t kMaxLayers = 256;
constexpr char kLayerType[] =
    "{linear: width}, batch_norm, {batch_norm: {momentum, epsilon}}, relu, gelu, sigmoid, softmax, "
    "{dot: width}, {fm: width}, cross, {cross: {rank}}, sum, {sum: width}, {mix: terms}, mean, "
    "last or {attention: {hidden}}";

constexpr std::array<std::pair<const char*, Kind>, 9> kWords = {{{"batch_norm", Kind::kBatchNorm},
                                                                 {"relu", Kind::kRelu},
                                                                 {"gelu", Kind::kGelu},
                                                                 {"sigmoid", Kind::kSigmoid},
                                                                 {"softmax", Kind::kSoftmax},
                                                                 {"cross", Kind::kCross},
                                                                 {"sum", Kind::kSum},
                                                                 {"mean", Kind::kMean},
                                                                 {"last", Kind::kLast}}};

constexpr std::array<std::pair<const char*, Kind>, 8> kKeys = {{{"linear", Kind::kLinear},
                                                                {"batch_norm", Kind::kBatchNorm},
                                                                {"dot", Kind::kDot},
                                                                {"fm", Kind::kFm},
                                                                {"cross", Kind::kCross},
                                                                {"sum", Kind::kSum},
                                                                {"mix", Kind::kMix},
                                                                {"attention", Kind::kAttention}}};

constexpr size_t kMaxHidden = 8;

void ReadAttention(MapReader& in, LayerConfig* layer) {
  std::vector<std::string> widths = {"32", "16"};
  const auto width_of = [](const std::string& text) {
    uint32_t width = 0;
    return absl::SimpleAtoi(text, &width) && width <= kMaxLayerWidth ? width : 0;
  };
  in.Texts("hidden", "widths of the hidden layers that weigh a row for the query, see Sequences",
           &widths, {0, kMaxHidden}, Need::kOptional,
           absl::StrCat("integers from 1 to ", kMaxLayerWidth), [&](const std::string& text) {
             return width_of(text) > 0 ? "" : absl::StrCat("'", text, "' is not a width");
           });
  for (const std::string& width : widths) layer->hidden.push_back(width_of(width));
}

void ReadLayer(const YamlNode* node, const std::string& path, ReadContext* context,
               std::vector<LayerConfig>* layers) {
  LayerConfig layer;
  if (node != nullptr && node->kind == YamlNode::Kind::kScalar) {
    const auto* word =
        std::ranges::find_if(kWords, [&](const auto& entry) { return node->text == entry.first; });
    if (word == kWords.end()) {
      context->diagnostics.Report(path, absl::StrCat("'", node->text, "' is not a layer"),
                                  absl::StrCat("expected: ", kLayerType));
    } else {
      layer.kind = word->second;
      context->settings[path] = word->first;
    }
    layers->push_back(layer);
    return;
  }
  MapReader::Read(node, path, context, [&](MapReader& in) {
    in.Integer("linear", "outputs of a linear layer", &layer.width, 1, kMaxLayerWidth, "none");
    in.Map("batch_norm", [&](MapReader& map) {
      map.Number("momentum", "share of the batch in the update of running statistics",
                 &layer.momentum, kPositiveShare);
      map.Number("epsilon", "number added to the variance", &layer.epsilon, kPositive);
    });
    in.Integer("dot", "width of the vectors whose pairwise dot products are the output",
               &layer.width, 1, kMaxLayerWidth, "none");
    in.Integer("fm", "width of the vectors whose summed pairwise dot products are the output",
               &layer.width, 1, kMaxLayerWidth, "none");
    in.Integer("sum",
               "number of equal pieces of the input; the output is the sum of each; `sum` is 1",
               &layer.width, 1, kMaxLayerWidth, "none");
    in.Integer("mix",
               "number of terms: the first columns are factors of equal pieces of the others; the "
               "output is the sum",
               &layer.width, 1, kMaxLayerWidth, "none");
    in.Map("attention", [&](MapReader& map) { ReadAttention(map, &layer); });
    in.Map("cross", [&](MapReader& map) {
      map.Integer("rank", "rank of `W` in `x0 * (x W + b) + x`; 0: full", &layer.rank, 0,
                  kMaxLayerWidth);
    });
    size_t given = 0;
    for (const auto& [key, kind] : kKeys) {
      if (!in.Has(key)) continue;
      layer.kind = kind;
      context->settings[path] = key;
      ++given;
    }
    if (given != 1) {
      context->diagnostics.Report(path, "not a single layer",
                                  absl::StrCat("expected: ", kLayerType));
    }
  });
  if (layer.kind != Kind::kAttention) layer.hidden.clear();
  layers->push_back(layer);
}

}  // namespace

void ReadLayers(MapReader& in, const std::string& key, const char* meaning,
                const std::string& fallback, std::vector<LayerConfig>* layers) {
  std::vector<std::string> words;
  for (const auto& [word, kind] : kWords) words.emplace_back(word);
  in.List(key, meaning, {1, kMaxLayers}, fallback.empty() ? Need::kRequired : Need::kOptional,
          "layers", fallback,
          {{"anyOf", Json::array({WordSchema(words), {{"$ref", "#/$defs/layer"}}})}},
          [&](const YamlNode* node, const std::string& path) {
            if (node == nullptr && !fallback.empty()) return;
            ReadLayer(node, path, in.context(), layers);
          });
}

namespace {

using Named = ModelShorthand::Kind;

constexpr uint32_t kMaxCrossLayers = 64;
constexpr char kDefaultLayers[] = "[{linear: 64}, relu, {linear: 32}, relu]";
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
        deep_(OrDefault(shorthand.deep, kDefaultWidth)),
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

  // Adds a tower for each attention. Sets the inputs of all features, those towers in place of the
  // sequences. Returns false after a report.
  bool AddAttention(const std::vector<std::string>& features, std::vector<std::string>* inputs) {
    std::map<std::string, std::string> towers;  // Sequence -> its tower.
    for (size_t i = 0; i < model_.attention.size(); ++i) {
      const auto& [sequence, query] = model_.attention[i];
      const std::string path = absl::StrCat("model.deepfm.attention.", i);
      for (const auto& [key, name] : {std::pair(".sequence", sequence), {".query", query}}) {
        if (!diagnostics_.CheckKnown(path + key, "feature", name, features)) return false;
        const FeatureConfig& feature =
            *std::ranges::find(config_.features, name, &FeatureConfig::name);
        const bool is_sequence = feature.pooling == Pooling::kRaw;
        const bool fits = name == sequence ? is_sequence && feature.mask : !is_sequence;
        if (fits && sequence != query) continue;
        diagnostics_.Report(path + key,
                            absl::StrCat("feature '", name, "' cannot be the ", key + 1),
                            "name a sequence with pooling: raw and mask: true, and a query of "
                            "another pooling");
        return false;
      }
      const std::string tower = absl::StrCat("attention_", i + 1);
      Add(tower, {kFeatureInput + query, kFeatureInput + sequence, "mask." + sequence},
          {{.kind = Kind::kAttention, .hidden = {32, 16}}});
      if (towers.emplace(sequence, tower).second) continue;
      diagnostics_.Report(path + ".sequence", absl::StrCat("'", sequence, "' is given twice"),
                          "remove one");
      return false;
    }
    for (const std::string& feature : features) {
      const auto tower = towers.find(feature);
      inputs->push_back(tower == towers.end() ? kFeatureInput + feature : tower->second);
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

  // Returns the layer with one logit per label.
  LayerConfig Logits() const {
    return {.kind = Kind::kLinear, .width = static_cast<uint32_t>(TaskCount(config_.model))};
  }

  std::vector<LayerConfig> WithLogits(std::vector<LayerConfig> layers) const {
    layers.push_back(Logits());
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

void ReadShorthand(MapReader& section, ModelShorthand* shorthand) {
  section.OneOf({"towers", "dlrm", "dcn_v2", "deepfm", "wide_deep"});
  std::vector<std::string> given;
  if (section.Has("towers")) given.emplace_back("towers");
  const auto model = [&](const std::string& key, Named kind, const auto& body) {
    const bool is_given = section.Has(key);
    if (is_given) {
      given.push_back(key);
      shorthand->kind = kind;
      shorthand->key = key;
    }
    section.Map(key, body);
    // The key is a setting, also if all of its keys have their defaults.
    if (is_given && shorthand->deep.empty() && shorthand->bottom.empty()) {
      section.Record(key, "default layers");
    }
  };
  const char* const deep =
      "layers over the dense columns and all other features, without the logit";
  model("dlrm", Named::kDlrm, [&](MapReader& in) {
    ReadLayers(in, "bottom",
               "layers over the dense columns; the last width must equal the dim of the embeddings",
               "[{linear: 64}, relu, {linear: DIM}, relu]", &shorthand->bottom);
    ReadLayers(in, "top", "layers over the bottom's output and the dot products, without the logit",
               kDefaultLayers, &shorthand->top);
  });
  model("dcn_v2", Named::kDcnV2, [&](MapReader& in) {
    using Structure = ModelShorthand::Structure;
    in.Integer("cross_layers", "number of cross layers over all dense columns and embeddings",
               &shorthand->cross_layers, 1, kMaxCrossLayers);
    in.Integer("rank", "rank of the cross layers' weights; 0: full", &shorthand->rank, 0,
               kMaxLayerWidth);
    in.Choice<Structure>("structure",
                         "input of the deep part: output of the cross layers, or their input",
                         &shorthand->structure,
                         {{"stacked", Structure::kStacked}, {"parallel", Structure::kParallel}});
    ReadLayers(in, "deep", deep, kDefaultLayers, &shorthand->deep);
  });
  model("deepfm", Named::kDeepFm, [&](MapReader& in) {
    in.Texts("first_order",
             "features with tables of dim 1, whose rows are the weights of the ids; empty: see "
             "Models",
             &shorthand->first_order_features, {0, kMaxFeatures}, Need::kOptional,
             "names of features");
    in.Maps(
        "attention", "sequences that are read by target attention, see Sequences",
        {0, kMaxFeatures},
        [&](MapReader& entry) {
          ModelShorthand::Attention attention;
          entry.Name("sequence", "feature with `pooling: raw` and `mask: true`",
                     &attention.sequence, Need::kRequired);
          entry.Name("query", "feature that the ids of the sequence are weighed for",
                     &attention.query, Need::kRequired);
          shorthand->attention.push_back(attention);
        },
        "none");
    ReadLayers(in, "deep", deep, kDefaultLayers, &shorthand->deep);
  });
  model("wide_deep", Named::kWideDeep, [&](MapReader& in) {
    in.Texts("wide",
             "features with tables of dim 1, usually crosses, whose summed rows are the wide part; "
             "empty: see Models",
             &shorthand->first_order_features, {0, kMaxFeatures}, Need::kOptional,
             "names of features");
    ReadLayers(in, "deep", deep, kDefaultLayers, &shorthand->deep);
  });
  if (section.describing()) return;
  if (given.empty()) {
    // Without a network a program computes it.
    if (!section.Has("initial_weights")) return;
    section.Error(
        "towers", "missing",
        "set model: deepfm, wide_deep, dlrm or dcn_v2, or describe the network by towers");
  } else if (given.size() > 1) {
    section.Error(given[1], absl::StrCat("conflicts with '", given[0], "'"), "keep one of them");
  }
}

void ExpandModelName(YamlNode* document) {
  YamlNode* const model = FindKey(*document, "model");
  if (model == nullptr || model->kind != YamlNode::Kind::kScalar) return;
  model->kind = YamlNode::Kind::kMap;
  model->items.push_back(
      {.place = model->place, .key = std::move(model->text), .key_place = model->place});
}

namespace {

constexpr char kEnd[] = "_weight";

void RemoveFirstOrder(ClusterConfig* config, std::vector<std::string>* table_paths) {
  std::set<std::string> weights;
  std::set<std::string> used;
  for (const FeatureConfig& feature : config->features) {
    weights.insert(feature.table + kEnd);
    used.insert(feature.table);
  }
  for (size_t i = config->tables.size(); i-- > 0;) {
    const std::string& name = config->tables[i].name;
    if (used.contains(name) || !weights.contains(name)) continue;
    config->tables.erase(config->tables.begin() + static_cast<std::ptrdiff_t>(i));
    table_paths->erase(table_paths->begin() + static_cast<std::ptrdiff_t>(i));
  }
}

}  // namespace

void AddFirstOrder(ReadContext* context, ModelShorthand* shorthand, ClusterConfig* config,
                   std::vector<std::string>* table_paths) {
  const bool has_first_order =
      shorthand->kind == Named::kDeepFm || shorthand->kind == Named::kWideDeep;
  if (!has_first_order) return RemoveFirstOrder(config, table_paths);
  if (!shorthand->first_order_features.empty()) return;
  std::set<std::string> features;
  std::map<std::string, TableConfig> tables;
  for (const FeatureConfig& feature : config->features) features.insert(feature.name);
  for (const TableConfig& table : config->tables) tables.emplace(table.name, table);
  const std::vector<FeatureConfig> given = config->features;
  const SparseOptimizerConfig optimizer = FirstOrderOptimizer(
      uint64_t{config->training.batch_size} * config->nn_worker.instances.size(),
      RateFactor(VectorFeatures(*config)));
  for (const FeatureConfig& feature : given) {
    const std::string& name = feature.name;
    const bool is_weight =
        name.ends_with(kEnd) && features.contains(name.substr(0, name.size() - std::strlen(kEnd)));
    const bool is_attended =
        std::ranges::find(shorthand->attention, name, &ModelShorthand::Attention::sequence) !=
        shorthand->attention.end();
    if (is_weight || !tables.contains(feature.table)) continue;
    FeatureConfig weight = feature;
    weight.name += kEnd;
    // An item of a sequence has its own weight, apart from that of the same item as the query.
    weight.table = (is_attended ? name : feature.table) + kEnd;
    weight.mask = false;
    if (weight.pooling == Pooling::kRaw) weight.pooling = Pooling::kSum;
    for (const std::string& added : {weight.name, weight.table}) {
      if (IsName(added)) continue;
      return context->diagnostics.Report(
          absl::StrCat("model.", shorthand->key), absl::StrCat("'", added, "' is too long a name"),
          "use a shorter name of the feature and table, or name features of the first order");
    }
    shorthand->first_order_features.push_back(weight.name);
    if (features.contains(weight.name)) continue;
    TableConfig table = tables.at(feature.table);
    table.name = weight.table;
    table.dim = 1;
    table.initializer = {.kind = InitializerConfig::Kind::kZero};
    table.optimizer = optimizer;
    table.initial_rows.clear();
    if (tables.emplace(table.name, table).second) {
      config->tables.push_back(table);
      table_paths->push_back(feature.key);
    }
    config->features.push_back(std::move(weight));
  }
  context->settings["features, of first order"] =
      RecordedText(TextsText(shorthand->first_order_features));
}

void ExpandModel(const ModelShorthand& shorthand, ClusterConfig* config, Diagnostics* diagnostics) {
  Expansion(shorthand, config, diagnostics).Run();
}

}  // namespace simurgh
