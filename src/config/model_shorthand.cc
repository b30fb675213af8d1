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
#include "absl/strings/str_join.h"

#include "config/defaults.h"
#include "config/map_reader.h"
#include "config/nearest.h"
#include "config/sections.h"

namespace simurgh {
namespace {

using Kind = LayerConfig::Kind;

constexpr size_t kMaxLayers = 256;
// Layers that a file may name by a word.
constexpr std::array kWords = {Kind::kBatchNorm, Kind::kLayerNorm, Kind::kL2Norm, Kind::kRelu,
                               Kind::kGelu,      Kind::kSilu,      Kind::kTanh,   Kind::kSigmoid,
                               Kind::kGate,      Kind::kPrelu,     Kind::kDice,   Kind::kSoftmax,
                               Kind::kCross,     Kind::kSum,       Kind::kMean,   Kind::kLast};

// Layers that a file may name by a key.
constexpr std::array kKeys = {Kind::kLinear,  Kind::kBatchNorm, Kind::kLayerNorm,    Kind::kDice,
                              Kind::kDropout, Kind::kDot,       Kind::kFm,           Kind::kCross,
                              Kind::kSum,     Kind::kProduct,   Kind::kBilinear,     Kind::kJoint,
                              Kind::kMix,     Kind::kAttention, Kind::kSelfAttention};

constexpr size_t kMaxHidden = 8;
constexpr NumberRange kDropoutRate{0.0F, 0.999F, "number from 0 to 0.999"};

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
  in.Choice<Kind>("activation", "activation of the hidden layers", &layer->activation,
                  {{"relu", Kind::kRelu},
                   {"sigmoid", Kind::kSigmoid},
                   {"prelu", Kind::kPrelu},
                   {"dice", Kind::kDice}});
  in.Bool("softmax",
          "whether the weights of a sample's rows pass a softmax, so that they add up to 1",
          &layer->normalises);
}

void ReadSelfAttention(MapReader& in, LayerConfig* layer) {
  layer->width = 1;
  in.Integer("heads", "number of heads; a row's dim is a multiple of it", &layer->width, 1,
             kMaxLayerWidth);
  uint32_t hidden = 64;
  in.Integer("hidden", "width of the hidden layer behind the attention", &hidden, 1,
             kMaxLayerWidth);
  layer->hidden = {hidden};
  in.Bool("positions", "whether a vector of its place is added to each row", &layer->positions);
  in.Bool("causal", "whether a row reads only the rows up to it", &layer->causal);
}

void ReadLayer(const YamlNode* node, const std::string& path, ReadContext* context,
               std::vector<LayerConfig>* layers) {
  LayerConfig layer;
  if (node != nullptr && node->kind == YamlNode::Kind::kScalar) {
    const auto word = std::ranges::find(kWords, node->text, [](Kind kind) { return NameOf(kind); });
    if (word == kWords.end()) {
      const bool needs_key = std::ranges::find(kLayerNames, node->text) != kLayerNames.end();
      context->diagnostics.Report(
          path, absl::StrCat("'", node->text, "' is not a layer"),
          needs_key ? absl::StrCat("write {", node->text, ": ...} with what the reference names")
                    : NearestRemedy("layer", node->text, {kLayerNames.begin(), kLayerNames.end()}));
    } else {
      layer.kind = *word;
      context->settings[path] = NameOf(layer.kind);
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
    in.Map("layer_norm", [&](MapReader& map) {
      map.Number("epsilon", "number added to the variance", &layer.epsilon, kPositive);
    });
    in.Map("dice", [&](MapReader& map) {
      map.Number("momentum", "share of the batch in the update of running statistics",
                 &layer.momentum, kPositiveShare);
      map.Number("epsilon", "number added to the variance", &layer.epsilon, kPositive);
    });
    in.Number("dropout", "share of the values that a training step sets to 0, below 1", &layer.rate,
              kDropoutRate);
    in.Integer("dot", "width of the vectors whose pairwise dot products are the output",
               &layer.width, 1, kMaxLayerWidth, "none");
    in.Integer("fm", "width of the vectors whose summed pairwise dot products are the output",
               &layer.width, 1, kMaxLayerWidth, "none");
    in.Integer("sum",
               "number of equal pieces of the input; the output is the sum of each; `sum` is 1",
               &layer.width, 1, kMaxLayerWidth, "none");
    in.Integer("product",
               "number of equal pieces of the input; the output is their product, number by number",
               &layer.width, 2, kMaxLayerWidth, "none");
    in.Integer("bilinear",
               "number of heads; the output is x1 W x2 of the input's halves, W of blocks for each "
               "head",
               &layer.width, 1, kMaxLayerWidth, "none");
    in.Integer("joint",
               "number of equal pieces, logits; the output is the logit of the product of their "
               "probabilities",
               &layer.width, 2, kMaxLayerWidth, "none");
    in.Integer("mix",
               "number of terms: the first columns are factors of equal pieces of the others; the "
               "output is the sum",
               &layer.width, 1, kMaxLayerWidth, "none");
    in.Map("attention", [&](MapReader& map) { ReadAttention(map, &layer); });
    in.Map("self_attention", [&](MapReader& map) {
      LayerConfig attention;
      ReadSelfAttention(map, &attention);
      if (in.Has("self_attention")) layer = attention;
    });
    in.Map("cross", [&](MapReader& map) {
      map.Integer("rank", "rank of `W` in `x0 * (x W + b) + x`; 0: full", &layer.rank, 0,
                  kMaxLayerWidth);
    });
    size_t given = 0;
    for (const Kind kind : kKeys) {
      if (!in.Has(NameOf(kind))) continue;
      layer.kind = kind;
      context->settings[path] = NameOf(kind);
      ++given;
    }
    if (given != 1) {
      std::vector<std::string> keys;
      for (const Kind kind : kKeys) keys.emplace_back(NameOf(kind));
      context->diagnostics.Report(path, "not a single layer",
                                  absl::StrCat("set one of ", absl::StrJoin(keys, ", ")));
    }
  });
  if (!ReadsSequence(layer)) layer.hidden.clear();
  layers->push_back(layer);
}

}  // namespace

void ReadLayers(MapReader& in, const std::string& key, const char* meaning,
                const std::string& fallback, std::vector<LayerConfig>* layers, size_t fewest) {
  std::vector<std::string> words;
  for (const Kind kind : kWords) words.emplace_back(NameOf(kind));
  in.List(key, meaning, {fewest, kMaxLayers}, fallback.empty() ? Need::kRequired : Need::kOptional,
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
constexpr uint32_t kMaxLevels = 8;
constexpr char kDefaultLayers[] = "[{linear: 64}, relu, {linear: 32}, relu]";

constexpr char kOwnPairs[] = "each raw feature with a mask, for the feature of its table";

void ReadAttentions(MapReader& in, const std::string& fallback, ModelShorthand* shorthand) {
  in.Maps(
      "attention", "sequences that are read by target attention, see Sequences", {0, kMaxFeatures},
      [&](MapReader& entry) {
        ModelShorthand::Attention attention;
        entry.TextOrTexts("sequence",
                          "features with `pooling: raw` and `mask: true`, whose rows of a place "
                          "are read side by side",
                          &attention.sequences, {1, kMaxFeatures}, Need::kRequired, "features");
        entry.TextOrTexts("query",
                          "features that the ids of the sequences are weighed for, in their order; "
                          "the last sequences may have none",
                          &attention.queries, {1, kMaxFeatures}, Need::kRequired, "features");
        // A single name is recorded as earlier versions did.
        for (const auto& [key, names] :
             {std::pair("sequence", attention.sequences), std::pair("query", attention.queries)}) {
          if (names.size() == 1) entry.Record(key, names[0]);
        }
        shorthand->attention.push_back(attention);
      },
      fallback);
}

void ReadPooling(MapReader& in, ModelShorthand* shorthand) {
  shorthand->pooling = {.kind = Kind::kAttention, .activation = Kind::kDice};
  in.Map("weights", [&](MapReader& map) { ReadAttention(map, &shorthand->pooling); });
}

void ReadFinalMlp(MapReader& in, ModelShorthand* shorthand) {
  const char* const layers =
      "layers of a stream over the dense columns and all features; both end "
      "with one width";
  const char* const context = "features whose embeddings open the stream's gate; none: no gate";
  const auto features = [&](const std::string& key, std::vector<std::string>* names) {
    in.Texts(key, context, names, {0, kMaxFeatures}, Need::kOptional, "names of features");
  };
  ReadLayers(in, "first", layers, kDefaultLayers, &shorthand->streams[0]);
  ReadLayers(in, "second", layers, kDefaultLayers, &shorthand->streams[1]);
  features("first_context", &shorthand->contexts[0]);
  features("second_context", &shorthand->contexts[1]);
  in.Integer("heads", "heads of the bilinear fusion; the streams' width is a multiple of it",
             &shorthand->heads, 1, kMaxLayerWidth);
}

void ReadTwoTower(MapReader& in, ModelShorthand* shorthand) {
  const char* const names = "names of features";
  in.Texts("user", "features of the user's tower, which also reads the dense columns; at least one",
           &shorthand->user, {0, kMaxFeatures}, Need::kOptional, names);
  in.Texts("item", "features of the item's tower; at least one", &shorthand->item,
           {0, kMaxFeatures}, Need::kOptional, names);
  ReadLayers(in, "layers", "hidden layers of both towers; a linear layer of `dim` outputs follows",
             kDefaultLayers, &shorthand->deep, 0);
  shorthand->has_no_layers = in.Has("layers") && shorthand->deep.empty();
  in.Integer("dim", "width of the users' and items' vectors", &shorthand->dim, 1, kMaxLayerWidth);
  in.Bool("normalize", "whether the vectors have length 1", &shorthand->normalize);
  shorthand->loss = {.kind = LossConfig::Kind::kInBatchSoftmax,
                     .temperature = shorthand->normalize ? 0.05F : 1.0F};
  in.Number("temperature", "divisor of the scores; by default 1 without `normalize`",
            &shorthand->loss.temperature, kPositive);
  ReadNegatives(in, &shorthand->loss);
}

}  // namespace

void ReadNegatives(MapReader& in, LossConfig* loss) {
  constexpr uint32_t kMaxUniformNegatives = 32'768;
  in.Choice<LossConfig::Correction>(
      "correction",
      "what the loss takes off the score of an item: with log_q, the logarithm of its estimated "
      "frequency",
      &loss->correction,
      {{"none", LossConfig::Correction::kNone}, {"log_q", LossConfig::Correction::kLogQ}});
  in.For(Scope::kTraining)
      ->Integer("uniform_negatives",
                "number of further negatives of a step, over all ranks, drawn uniformly from "
                "`data.items`",
                &loss->uniform_negatives, 0, kMaxUniformNegatives);
}

void ReadShorthand(MapReader& section, ModelShorthand* shorthand) {
  section.OneOf({"towers", "dlrm", "dcn_v2", "deepfm", "wide_deep", "final_mlp", "mask_net", "din",
                 "bst", "mmoe", "ple", "esmm", "two_tower"});
  std::vector<std::string> given;
  if (section.Has("towers")) given.emplace_back("towers");
  const auto model = [&](const std::string& key, Named kind, const auto& body) {
    ModelShorthand own{.kind = kind, .key = key};
    section.Map(key, [&](MapReader& in) { body(in, &own); });
    if (!section.Has(key)) return;
    given.push_back(key);
    // The key is a setting, also if all of its keys have their defaults.
    if (own.deep.empty() && own.bottom.empty()) {
      section.Record(key, own.has_no_layers ? "no layers" : "default layers");
    }
    *shorthand = std::move(own);
  };
  const char* const deep =
      "layers over the dense columns and all other features, without the logit";
  model("dlrm", Named::kDlrm, [&](MapReader& in, ModelShorthand* own) {
    ReadLayers(in, "bottom",
               "layers over the dense columns; the last width must equal the dim of the embeddings",
               "[{linear: 64}, relu, {linear: DIM}, relu]", &own->bottom);
    ReadLayers(in, "top", "layers over the bottom's output and the dot products, without the logit",
               kDefaultLayers, &own->top);
  });
  model("dcn_v2", Named::kDcnV2, [&](MapReader& in, ModelShorthand* own) {
    using Structure = ModelShorthand::Structure;
    in.Integer("cross_layers", "number of cross layers over all dense columns and embeddings",
               &own->cross_layers, 1, kMaxCrossLayers);
    in.Integer("rank", "rank of the cross layers' weights; 0: full", &own->rank, 0, kMaxLayerWidth);
    in.Choice<Structure>(
        "structure", "input of the deep part: output of the cross layers, or their input",
        &own->structure, {{"stacked", Structure::kStacked}, {"parallel", Structure::kParallel}});
    ReadLayers(in, "deep", deep, kDefaultLayers, &own->deep);
  });
  model("deepfm", Named::kDeepFm, [&](MapReader& in, ModelShorthand* own) {
    in.Texts("first_order",
             "features with tables of dim 1, whose rows are the weights of the ids; empty: see "
             "Models",
             &own->first_order_features, {0, kMaxFeatures}, Need::kOptional, "names of features");
    ReadAttentions(in, "none", own);
    ReadLayers(in, "deep", deep, kDefaultLayers, &own->deep);
  });
  model("wide_deep", Named::kWideDeep, [&](MapReader& in, ModelShorthand* own) {
    in.Texts("wide",
             "features with tables of dim 1, usually crosses, whose summed rows are the wide part; "
             "empty: see Models",
             &own->first_order_features, {0, kMaxFeatures}, Need::kOptional, "names of features");
    ReadLayers(in, "deep", deep, kDefaultLayers, &own->deep);
  });
  model("final_mlp", Named::kFinalMlp,
        [&](MapReader& in, ModelShorthand* own) { ReadFinalMlp(in, own); });
  model("mask_net", Named::kMaskNet, [&](MapReader& in, ModelShorthand* own) {
    using Structure = ModelShorthand::Structure;
    own->structure = Structure::kParallel;
    in.Choice<Structure>(
        "structure", "input of a block: the embeddings, or the output of the block before it",
        &own->structure, {{"parallel", Structure::kParallel}, {"serial", Structure::kStacked}});
    in.Integer("blocks", "number of mask blocks", &own->blocks, 1, kMaxCrossLayers);
    in.Integer("width", "outputs of a block", &own->block_width, 1, kMaxLayerWidth);
    in.Number("mask_ratio", "width of a mask's hidden layer, in widths of the input",
              &own->mask_ratio, kPositive);
    ReadLayers(in, "deep", "layers over the blocks' outputs, without the logit", kDefaultLayers,
               &own->deep);
  });
  model("din", Named::kDin, [&](MapReader& in, ModelShorthand* own) {
    ReadAttentions(in, kOwnPairs, own);
    ReadPooling(in, own);
    ReadLayers(in, "deep", deep, kDefaultLayers, &own->deep);
  });
  model("bst", Named::kBst, [&](MapReader& in, ModelShorthand* own) {
    ReadAttentions(in, kOwnPairs, own);
    own->blocks = 1;
    in.Integer("blocks", "number of self-attention blocks over each sequence", &own->blocks, 1,
               kMaxCrossLayers);
    in.Integer("heads", "heads of a block; the width of a row is a multiple of it",
               &own->block.width, 1, kMaxLayerWidth);
    in.Integer("hidden", "width of a block's hidden layer", &own->block.hidden[0], 1,
               kMaxLayerWidth);
    in.Bool("causal", "whether a row reads only the rows up to it", &own->block.causal);
    ReadLayers(in, "deep", deep, kDefaultLayers, &own->deep);
  });
  const char* const of_label = "layers of each label, without the logit";
  const char* const of_expert = "layers of an expert";
  model("mmoe", Named::kMmoe, [&](MapReader& in, ModelShorthand* own) {
    in.Integer("experts", "number of experts, which all labels share", &own->experts, 2,
               kMaxExperts);
    ReadLayers(in, "expert", of_expert, kDefaultLayers, &own->expert);
    ReadLayers(in, "deep", of_label, kDefaultLayers, &own->deep);
  });
  model("ple", Named::kPle, [&](MapReader& in, ModelShorthand* own) {
    in.Integer("levels", "number of levels of experts", &own->levels, 1, kMaxLevels);
    in.Integer("shared_experts", "experts of a level that all labels share", &own->experts, 1,
               kMaxExperts);
    in.Integer("task_experts", "experts of a level that each label has for itself",
               &own->task_experts, 1, kMaxExperts);
    ReadLayers(in, "expert", of_expert, kDefaultLayers, &own->expert);
    ReadLayers(in, "deep", of_label, kDefaultLayers, &own->deep);
  });
  model("esmm", Named::kEsmm, [&](MapReader& in, ModelShorthand* own) {
    in.Name("click", "label of the first action", &own->click, Need::kOptional, "the first label");
    in.Name("conversion", "label of the action that follows it; 0 for rows without the first one",
            &own->conversion, Need::kOptional, "the second label");
    ReadLayers(in, "deep", of_label, kDefaultLayers, &own->deep);
  });
  model("two_tower", Named::kTwoTower,
        [&](MapReader& in, ModelShorthand* own) { ReadTwoTower(in, own); });
  if (section.describing()) return;
  if (given.empty()) {
    // Without a network a program computes it.
    if (!section.Has("initial_weights")) return;
    section.Error(
        "towers", "missing",
        "set model: deepfm or another model of the reference, or describe the network by towers");
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
    const bool is_attended = std::ranges::any_of(shorthand->attention, [&](const auto& attention) {
      return std::ranges::find(attention.sequences, name) != attention.sequences.end();
    });
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

}  // namespace simurgh
