#include "config/tower_shape.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "config/layer_shape.h"
#include "config/sections.h"

namespace simurgh {
namespace {

using Kind = LayerConfig::Kind;

// Returns the index of the first sequence; the number of inputs if there is none.
size_t FirstSequence(std::span<const InputShape> inputs) {
  if (inputs.empty()) return 0;
  const InputShape& mask = inputs.back();
  size_t found = inputs.size();
  for (size_t i = inputs.size() - 1; i > 0 && inputs[i - 1].places == mask.width; --i) {
    if (inputs[i - 1].mask == mask.name) found = i - 1;
  }
  return found;
}

// Returns whether the query is as wide as some of the first sequences' rows together.
bool FitsQuery(size_t query, std::span<const InputShape> sequences) {
  for (const InputShape& sequence : sequences) {
    const size_t dim = sequence.width / sequence.places;
    if (query <= dim) return query == dim;
    query -= dim;
  }
  return false;
}

}  // namespace

SequenceShape SequenceShapeOf(const LayerConfig& layer, std::span<const InputShape> inputs) {
  SequenceShape shape{.first = FirstSequence(inputs)};
  if (shape.first == inputs.size()) {
    const InputShape* const last = inputs.size() < 2 ? nullptr : &inputs[inputs.size() - 2];
    if (last != nullptr && last->places > 0 && inputs.back().name.starts_with(kMaskInput) &&
        last->places != inputs.back().width) {
      shape.problem = absl::StrCat("'", last->name, "' has ", last->places, " places, '",
                                   inputs.back().name, "' ", inputs.back().width);
      shape.remedy = "give the features one max_length";
      return shape;
    }
    shape.problem = "the last inputs are not a raw feature and its mask";
    shape.remedy = "end the tower's input with embeddings.FEATURE and mask.FEATURE";
    return shape;
  }
  const std::span<const InputShape> sequences =
      inputs.subspan(shape.first, inputs.size() - shape.first - 1);
  shape.places = inputs.back().width;
  for (const InputShape& input : inputs.first(shape.first)) shape.query_width += input.width;
  for (const InputShape& sequence : sequences) shape.row_width += sequence.width / shape.places;
  const bool attends = layer.kind == Kind::kAttention;
  if (attends ? !FitsQuery(shape.query_width, sequences) : shape.query_width > 0) {
    shape.problem =
        attends ? absl::StrCat("the query has ", shape.query_width, " columns, a row has ",
                               shape.row_width)
                : std::string("the layer reads sequences alone, and the tower has other inputs");
    shape.remedy = attends ? "read a query of the rows' dim first, or of the first sequences' dims"
                           : "remove the other inputs";
    return shape;
  }
  shape.width = shape.row_width;
  if (layer.kind != Kind::kSelfAttention) return shape;
  if (shape.row_width % layer.width == 0) {
    shape.width = shape.places * shape.row_width;
    return shape;
  }
  shape.width = 0;
  shape.problem =
      absl::StrCat("a row has ", shape.row_width, " columns, no multiple of ", layer.width);
  shape.remedy = "choose heads that divide it";
  return shape;
}

TowerShape TowerShapeOf(const TowerConfig& tower, std::span<const InputShape> inputs) {
  TowerShape shape{.output = {.name = tower.name, .mask = inputs.back().name}};
  size_t& width = shape.output.width;
  for (const InputShape& input : inputs) width += input.width;
  const size_t tower_width = width;
  for (; shape.layer < tower.layers.size() && width > 0; ++shape.layer) {
    const LayerConfig& layer = tower.layers[shape.layer];
    shape.output.places = 0;
    if (!ReadsSequence(layer)) {
      const LayerShape next = ShapeOf(layer, width, tower_width);
      width = next.width;
      shape.problem = next.problem;
      shape.remedy = next.remedy;
    } else if (shape.layer > 0) {
      width = 0;
      shape.problem = "reads a sequence, but is not the tower's first layer";
      shape.remedy = "begin another tower with it";
    } else {
      const SequenceShape sequence = SequenceShapeOf(layer, inputs);
      width = sequence.width;
      if (layer.kind == Kind::kSelfAttention) shape.output.places = sequence.places;
      shape.problem = sequence.problem;
      shape.remedy = sequence.remedy;
    }
    if (width == 0) return shape;
  }
  return shape;
}

bool IsDotOfTwo(const TowerConfig& tower, std::span<const InputShape> inputs) {
  const bool is_dot = tower.layers.size() == 1 && tower.layers[0].kind == Kind::kDot;
  return is_dot && inputs.size() == 2 && inputs[0].width == inputs[1].width &&
         inputs[0].width == tower.layers[0].width;
}

std::vector<InputShape> ModelInputShapes(const ClusterConfig& config) {
  std::vector<InputShape> shapes = {{"dense", DenseWidth(config)},
                                    {"embeddings", config.embedding_width()}};
  for (const FeatureConfig& feature : config.features) {
    const std::string mask = kMaskInput + feature.name;
    shapes.push_back({mask, feature.mask_width()});
    shapes.push_back({kFeatureInput + feature.name,
                      feature.width(config.tables[feature.table_index].dim), feature.places(),
                      mask});
  }
  return shapes;
}

std::vector<InputShape> InputsOf(const TowerConfig& tower, std::span<const InputShape> known) {
  std::vector<InputShape> inputs;
  for (const std::string& name : tower.inputs) {
    inputs.push_back(*std::ranges::find(known, name, &InputShape::name));
  }
  return inputs;
}

}  // namespace simurgh
