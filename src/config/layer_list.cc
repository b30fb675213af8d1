#include "config/layer_list.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "config/value_schema.h"

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
          "layers", fallback, EitherSchema({WordSchema(words), DefinitionSchema("layer")}),
          [&](const YamlNode* node, const std::string& path) {
            if (node == nullptr && !fallback.empty()) return;
            ReadLayer(node, path, in.context(), layers);
          });
}

}  // namespace simurgh
