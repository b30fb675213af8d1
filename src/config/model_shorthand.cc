#include "config/model_shorthand.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "config/layer_list.h"
#include "config/nearest.h"
#include "config/sections.h"

namespace simurgh {
namespace {

using Kind = ModelShorthand::Kind;
using Layer = LayerConfig::Kind;

constexpr uint32_t kMaxCrossLayers = 64;
constexpr size_t kMaxFeatures = 4096;

// Expands one model; each method leaves with a report at the first thing that does not fit.
class Expansion {
 public:
  Expansion(const ModelShorthand& shorthand, ClusterConfig* config, Diagnostics* diagnostics)
      : model_(shorthand),
        config_(*config),
        towers_(config->model.towers),
        has_dense_(DenseWidth(*config) > 0),
        diagnostics_(*diagnostics) {}

  void Run() {
    switch (model_.kind) {
      case Kind::kNone:
        break;
      case Kind::kDlrm:
        return Dlrm();
      case Kind::kDcnV2:
        return DcnV2();
      case Kind::kDeepFm:
        return DeepFm();
      case Kind::kWideDeep:
        return WideDeep();
    }
  }

 private:
  void Dlrm() {
    if (!has_dense_) {
      return Report("bottom", "the data has no dense columns for it to read",
                    "add dense columns, or choose another model");
    }
    const uint32_t dim = CommonDim(AllFeatures(), "every vector of the interaction has one width");
    if (dim == 0) return;
    const auto last = std::find_if(model_.bottom.rbegin(), model_.bottom.rend(),
                                   [](const LayerConfig& l) { return l.kind == Layer::kLinear; });
    if (last == model_.bottom.rend() || last->width != dim) {
      return Report("bottom",
                    absl::StrCat("must end as wide as the embeddings, whose dim is ", dim),
                    absl::StrCat("make {linear: ", dim, "} its last linear layer"));
    }
    Add("bottom", {"dense"}, model_.bottom);
    Add("interaction", {"bottom", "embeddings"}, {{.kind = Layer::kDot, .width = dim}});
    Add("top", {"bottom", "interaction"}, WithLogits(model_.top));
  }

  void DcnV2() {
    const std::vector<std::string> inputs = WithDense({"embeddings"});
    std::vector<LayerConfig> layers(model_.cross_layers,
                                    {.kind = Layer::kCross, .rank = model_.rank});
    if (model_.structure == ModelShorthand::Structure::kParallel) {
      Add("cross", inputs, layers);
      Add("deep", inputs, model_.deep);
      Add("top", {"cross", "deep"}, {Logits()});
      return;
    }
    layers.insert(layers.end(), model_.deep.begin(), model_.deep.end());
    Add("top", inputs, WithLogits(layers));
  }

  void DeepFm() {
    std::vector<const FeatureConfig*> others;
    if (!HasOneLabel()) return;
    if (!SplitFeatures("first_order", &others)) return;
    const uint32_t dim = CommonDim(others, "the factors of all other features have one width");
    if (dim == 0) return;
    if (others.size() < 2) {
      return Report("first_order", "leaves fewer than two features for the second order",
                    "add features of a common dim");
    }
    Add("first_order", FirstOrderInputs(), {{.kind = Layer::kSum}});
    Add("second_order", InputsOf(others), {{.kind = Layer::kFm, .width = dim}});
    Add("deep", WithDense(InputsOf(others)), WithLogits(model_.deep));
    std::vector<std::string> terms = {"first_order", "second_order", "deep"};
    if (has_dense_) {
      Add("numbers", {"dense"}, {Logits()});
      terms.emplace_back("numbers");
    }
    Add("top", terms, {{.kind = Layer::kSum}});
  }

  void WideDeep() {
    std::vector<const FeatureConfig*> others;
    if (!HasOneLabel()) return;
    if (!SplitFeatures("wide", &others)) return;
    const std::vector<std::string> deep_inputs = WithDense(InputsOf(others));
    if (deep_inputs.empty()) {
      return Report("wide", "leaves nothing for the deep part", "add features or dense columns");
    }
    Add("wide", FirstOrderInputs(), {{.kind = Layer::kSum}});
    Add("deep", deep_inputs, WithLogits(model_.deep));
    Add("top", {"wide", "deep"}, {{.kind = Layer::kSum}});
  }

  // Checks the features that are named under `key`, and finds the others.
  bool SplitFeatures(const std::string& key, std::vector<const FeatureConfig*>* others) {
    const std::vector<std::string>& named = model_.first_order_features;
    std::vector<std::string> known;
    for (const FeatureConfig& feature : config_.features) known.push_back(feature.name);
    for (size_t i = 0; i < named.size(); ++i) {
      const std::string element = absl::StrCat(key, ".", i);
      const auto found = std::ranges::find(known, named[i]);
      if (found == known.end()) {
        Report(element, absl::StrCat("'", named[i], "' is no feature"),
               absl::StrCat("the nearest feature is '", Nearest(named[i], known), "'"));
        return false;
      }
      const TableConfig& table = TableOf(config_.features[found - known.begin()]);
      if (table.dim != 1) {
        Report(element, absl::StrCat("its table '", table.name, "' has dim ", table.dim),
               "an id has one weight here: give the feature a table of dim 1");
        return false;
      }
      if (std::count(named.begin(), named.end(), named[i]) > 1) {
        Report(element, absl::StrCat("'", named[i], "' stands more than once"),
               "name every feature once");
        return false;
      }
    }
    for (const FeatureConfig& feature : config_.features) {
      if (std::ranges::find(named, feature.name) == named.end()) others->push_back(&feature);
    }
    return true;
  }

  // 0 after a report.
  uint32_t CommonDim(const std::vector<const FeatureConfig*>& features, const std::string& why) {
    if (features.empty()) return 1;
    const TableConfig& first = TableOf(*features.front());
    for (const FeatureConfig* feature : features) {
      const TableConfig& table = TableOf(*feature);
      if (table.dim == first.dim) continue;
      diagnostics_.Report(absl::StrCat("model.", model_.key),
                          absl::StrCat("feature '", feature->name, "' has dim ", table.dim, ", '",
                                       features.front()->name, "' has dim ", first.dim),
                          absl::StrCat(why, ": give their tables one dim"));
      return 0;
    }
    return first.dim;
  }

  std::vector<const FeatureConfig*> AllFeatures() const {
    std::vector<const FeatureConfig*> features;
    for (const FeatureConfig& feature : config_.features) features.push_back(&feature);
    return features;
  }

  static std::vector<std::string> InputsOf(const std::vector<const FeatureConfig*>& features) {
    std::vector<std::string> inputs;
    for (const FeatureConfig* feature : features) inputs.push_back(kFeatureInput + feature->name);
    return inputs;
  }

  std::vector<std::string> FirstOrderInputs() const {
    std::vector<std::string> inputs;
    for (const std::string& name : model_.first_order_features) {
      inputs.push_back(kFeatureInput + name);
    }
    return inputs;
  }

  std::vector<std::string> WithDense(std::vector<std::string> inputs) const {
    if (has_dense_) inputs.insert(inputs.begin(), "dense");
    return inputs;
  }

  const TableConfig& TableOf(const FeatureConfig& feature) const {
    return config_.tables[feature.table_index];
  }

  // One a label.
  LayerConfig Logits() const {
    return {.kind = Layer::kLinear, .width = static_cast<uint32_t>(TaskCount(config_.model))};
  }

  std::vector<LayerConfig> WithLogits(std::vector<LayerConfig> layers) const {
    layers.push_back(Logits());
    return layers;
  }

  // For models whose logit has terms that are one number.
  bool HasOneLabel() {
    if (TaskCount(config_.model) == 1) return true;
    diagnostics_.Report(absl::StrCat("model.", model_.key), "is a model of one label",
                        "write it as towers, with terms for each label");
    return false;
  }

  void Add(std::string name, std::vector<std::string> inputs, std::vector<LayerConfig> layers) {
    towers_.push_back({std::move(name), std::move(inputs), std::move(layers)});
  }

  void Report(const std::string& key, const std::string& what, const std::string& remedy) {
    diagnostics_.Report(absl::StrCat("model.", model_.key, ".", key), what, remedy);
  }

  const ModelShorthand& model_;
  const ClusterConfig& config_;
  std::vector<TowerConfig>& towers_;
  const bool has_dense_;
  Diagnostics& diagnostics_;
};

}  // namespace

void ReadShorthand(MapReader& section, ModelShorthand* shorthand) {
  std::vector<std::string> given;
  if (section.Has("towers")) given.emplace_back("towers");
  const auto model = [&](const std::string& key, Kind kind, const auto& body) {
    const bool here = section.Has(key);
    if (here) {
      given.push_back(key);
      shorthand->kind = kind;
      shorthand->key = key;
    }
    const Need need = here || section.describing() ? Need::kRequired : Need::kOptional;
    section.Map(key, [&](MapReader& in) { body(in, need); });
  };
  const auto layers = [](MapReader& in, const std::string& key, const char* meaning, Need need,
                         std::vector<LayerConfig>* out) {
    ReadLayers(in, key, meaning, need, false, out);
  };
  const char* const deep =
      "layers over the dense columns and all other features, without the logit";
  model("dlrm", Kind::kDlrm, [&](MapReader& in, Need need) {
    layers(in, "bottom", "layers over the dense columns; as wide at the end as the embeddings",
           need, &shorthand->bottom);
    layers(in, "top", "layers over the bottom's output and the dot products, without the logit",
           need, &shorthand->top);
  });
  model("dcn_v2", Kind::kDcnV2, [&](MapReader& in, Need need) {
    using Structure = ModelShorthand::Structure;
    in.Integer("cross_layers", "number of cross layers over all dense columns and embeddings",
               &shorthand->cross_layers, 1, kMaxCrossLayers);
    in.Integer("rank", "rank of the cross layers' weights; 0: full", &shorthand->rank, 0,
               kMaxLayerWidth);
    in.Choice<Structure>("structure",
                         "input of the deep part: output of the cross layers, or their input",
                         &shorthand->structure,
                         {{"stacked", Structure::kStacked}, {"parallel", Structure::kParallel}});
    layers(in, "deep", deep, need, &shorthand->deep);
  });
  model("deepfm", Kind::kDeepFm, [&](MapReader& in, Need need) {
    in.Texts("first_order", "features with tables of dim 1, whose rows are the weights of the ids",
             &shorthand->first_order_features, {1, kMaxFeatures}, need, "names of features");
    layers(in, "deep", deep, need, &shorthand->deep);
  });
  model("wide_deep", Kind::kWideDeep, [&](MapReader& in, Need need) {
    in.Texts("wide",
             "features with tables of dim 1, usually crosses, whose summed rows are the wide part",
             &shorthand->first_order_features, {1, kMaxFeatures}, need, "names of features");
    layers(in, "deep", deep, need, &shorthand->deep);
  });
  if (section.describing()) return;
  if (given.empty()) {
    section.Error("towers", "missing",
                  "describe the network by towers, dlrm, dcn_v2, deepfm or wide_deep");
  } else if (given.size() > 1) {
    section.Error(given[1], absl::StrCat("stands beside '", given[0], "'"),
                  "describe the network by one of them");
  }
}

void ExpandModel(const ModelShorthand& shorthand, ClusterConfig* config, Diagnostics* diagnostics) {
  Expansion(shorthand, config, diagnostics).Run();
}

}  // namespace simurgh
