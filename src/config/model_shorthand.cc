#include "config/model_shorthand.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

#include "config/layer_list.h"
#include "config/sections.h"

namespace simurgh {
namespace {

using Kind = ModelShorthand::Kind;
using Layer = LayerConfig::Kind;

constexpr uint32_t kMaxCrossLayers = 64;
constexpr size_t kMaxFeatures = 4096;

// Expands one model. Each method returns after its first report.
class Expansion {
 public:
  Expansion(const ModelShorthand& shorthand, ClusterConfig* config, Diagnostics* diagnostics)
      : model_(shorthand),
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
      return Report("bottom", "requires dense columns",
                    "add dense columns, or choose another model");
    }
    const uint32_t dim = CommonDim(features_, "the vectors of the interaction have one width");
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
    std::vector<std::string> others;
    if (!SplitFeatures("first_order", &others)) return;
    const uint32_t dim = CommonDim(others, "the vectors of all other features have one width");
    if (dim == 0) return;
    if (others.size() < 2) {
      return Report("first_order", "leaves fewer than two features for the second order",
                    "add features of a common dim");
    }
    Add("first_order", InputsOf(model_.first_order_features), {{.kind = Layer::kSum}});
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
    std::vector<std::string> others;
    if (!SplitFeatures("wide", &others)) return;
    const std::vector<std::string> deep_inputs = WithDense(InputsOf(others));
    if (deep_inputs.empty()) {
      return Report("wide", "leaves no inputs for the deep part", "add features or dense columns");
    }
    Add("wide", InputsOf(model_.first_order_features), {{.kind = Layer::kSum}});
    Add("deep", deep_inputs, WithLogits(model_.deep));
    Add("top", {"wide", "deep"}, {{.kind = Layer::kSum}});
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

  // 0 after a report.
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

  // One logit per label.
  LayerConfig Logits() const {
    return {.kind = Layer::kLinear, .width = static_cast<uint32_t>(TaskCount(config_.model))};
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
  const ClusterConfig& config_;
  std::vector<TowerConfig>& towers_;
  const bool has_dense_;
  Diagnostics& diagnostics_;
  std::vector<std::string> features_;
  std::map<std::string, const TableConfig*> tables_;  // By feature.
};

}  // namespace

void ReadShorthand(MapReader& section, ModelShorthand* shorthand) {
  section.OneOf({"towers", "dlrm", "dcn_v2", "deepfm", "wide_deep"});
  std::vector<std::string> given;
  if (section.Has("towers")) given.emplace_back("towers");
  const auto model = [&](const std::string& key, Kind kind, const auto& body) {
    const bool is_given = section.Has(key);
    if (is_given) {
      given.push_back(key);
      shorthand->kind = kind;
      shorthand->key = key;
    }
    const Need need = is_given || section.describing() ? Need::kRequired : Need::kOptional;
    section.Map(key, [&](MapReader& in) { body(in, need); });
  };
  const char* const deep =
      "layers over the dense columns and all other features, without the logit";
  model("dlrm", Kind::kDlrm, [&](MapReader& in, Need need) {
    ReadLayers(in, "bottom",
               "layers over the dense columns; the last width must equal the dim of the embeddings",
               need, false, &shorthand->bottom);
    ReadLayers(in, "top", "layers over the bottom's output and the dot products, without the logit",
               need, false, &shorthand->top);
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
    ReadLayers(in, "deep", deep, need, false, &shorthand->deep);
  });
  model("deepfm", Kind::kDeepFm, [&](MapReader& in, Need need) {
    in.Texts("first_order", "features with tables of dim 1, whose rows are the weights of the ids",
             &shorthand->first_order_features, {1, kMaxFeatures}, need, "names of features");
    ReadLayers(in, "deep", deep, need, false, &shorthand->deep);
  });
  model("wide_deep", Kind::kWideDeep, [&](MapReader& in, Need need) {
    in.Texts("wide",
             "features with tables of dim 1, usually crosses, whose summed rows are the wide part",
             &shorthand->first_order_features, {1, kMaxFeatures}, need, "names of features");
    ReadLayers(in, "deep", deep, need, false, &shorthand->deep);
  });
  if (section.describing()) return;
  if (given.empty()) {
    section.Error("towers", "missing",
                  "describe the network by towers, dlrm, dcn_v2, deepfm or wide_deep");
  } else if (given.size() > 1) {
    section.Error(given[1], absl::StrCat("conflicts with '", given[0], "'"), "keep one of them");
  }
}

void ExpandModel(const ModelShorthand& shorthand, ClusterConfig* config, Diagnostics* diagnostics) {
  Expansion(shorthand, config, diagnostics).Run();
}

}  // namespace simurgh
