#include <algorithm>

#include "absl/strings/str_cat.h"

#include "config/nearest.h"
#include "config/sections.h"

namespace simurgh {
namespace {

constexpr size_t kMaxTowers = 256;
constexpr size_t kMaxLayers = 256;
constexpr uint32_t kMaxWidth = 65'536;
constexpr char kDense[] = "dense";
constexpr char kEmbeddings[] = "embeddings";
constexpr char kLayerType[] =
    "{linear: width}, batch_norm, {batch_norm: {momentum, epsilon}}, relu or sigmoid";

using Kind = LayerConfig::Kind;

// A layer without parameters is a word, one with parameters a mapping of one key.
void ReadLayer(const YamlNode* node, const std::string& path, ReadContext* context,
               std::vector<LayerConfig>* layers) {
  LayerConfig layer;
  const bool is_word = node != nullptr && node->kind == YamlNode::Kind::kScalar;
  if (is_word) {
    if (node->text == "batch_norm") {
      layer.kind = Kind::kBatchNorm;
    } else if (node->text == "relu") {
      layer.kind = Kind::kRelu;
    } else if (node->text == "sigmoid") {
      layer.kind = Kind::kSigmoid;
    } else {
      context->diagnostics.Report(path, absl::StrCat("'", node->text, "' is no layer"),
                                  absl::StrCat("expected: ", kLayerType));
    }
    layers->push_back(layer);
    return;
  }
  MapReader::Read(node, path, context, [&](MapReader& in) {
    in.Integer("linear", &layer.width, 1, kMaxWidth, "none");
    in.Map("batch_norm", [&](MapReader& map) {
      map.Number("momentum", &layer.momentum, kPositiveShare);
      map.Number("epsilon", &layer.epsilon, kPositive);
    });
    if (in.Has("linear") == in.Has("batch_norm")) {
      context->diagnostics.Report(path, "not one layer", absl::StrCat("expected: ", kLayerType));
    }
    if (in.Has("batch_norm")) layer.kind = Kind::kBatchNorm;
  });
  layers->push_back(layer);
}

void CheckName(size_t index, const std::vector<TowerConfig>& towers, Diagnostics* diagnostics) {
  const std::string& name = towers[index].name;
  const std::string path = absl::StrCat("model.towers.", index, ".name");
  if (name == kDense || name == kEmbeddings) {
    diagnostics->Report(path, absl::StrCat("'", name, "' is an input of the model"),
                        "give the tower another name");
  }
  const auto end = towers.begin() + static_cast<std::ptrdiff_t>(index);
  if (std::any_of(towers.begin(), end, [&](const TowerConfig& t) { return t.name == name; })) {
    diagnostics->Report(path, absl::StrCat("'", name, "' is the name of an earlier tower"),
                        "give every tower a name of its own");
  }
}

// Checks a tower's inputs against what stands before it, and takes those from `unread`.
void CheckInputs(size_t index, const TowerConfig& tower, const std::vector<std::string>& known,
                 std::vector<std::string>* unread, Diagnostics* diagnostics) {
  const std::string path = absl::StrCat("model.towers.", index, ".input");
  for (size_t i = 0; i < tower.inputs.size(); ++i) {
    const std::string& input = tower.inputs[i];
    if (std::find(known.begin(), known.end(), input) == known.end()) {
      diagnostics->Report(
          tower.inputs.size() > 1 ? absl::StrCat(path, ".", i) : path,
          absl::StrCat("'", input, "' is neither dense, embeddings nor an earlier tower"),
          absl::StrCat("the nearest input is '", Nearest(input, known), "'"));
    }
    if (std::count(tower.inputs.begin(), tower.inputs.end(), input) > 1) {
      diagnostics->Report(path, absl::StrCat("'", input, "' stands more than once"),
                          "name every input once");
      return;
    }
    std::erase(*unread, input);
  }
}

bool HasDenseColumns(const DataConfig& data) {
  if (!data.derived.empty()) return true;
  const std::vector<ColumnConfig> columns = ColumnsOf(data);
  return std::any_of(columns.begin(), columns.end(), [](const ColumnConfig& column) {
    return column.kind == ColumnConfig::Kind::kDense;
  });
}

void CheckLastTower(const std::vector<TowerConfig>& towers, Diagnostics* diagnostics) {
  const size_t index = towers.size() - 1;
  const std::vector<LayerConfig>& layers = towers[index].layers;
  if (layers.back().kind == Kind::kLinear && layers.back().width == 1) return;
  diagnostics->Report(absl::StrCat("model.towers.", index, ".layers.", layers.size() - 1),
                      "the last tower must give one number, the logit",
                      "end its layers with {linear: 1}; the loss applies the sigmoid");
}

}  // namespace

void ReadModel(MapReader& root, ModelConfig* model) {
  root.Map("model", [&](MapReader& section) {
    section.Maps("towers", {1, kMaxTowers}, [&](MapReader& in) {
      TowerConfig tower;
      in.Name("name", &tower.name, Need::kRequired);
      in.TextOrTexts("input", &tower.inputs, {1, kMaxTowers}, Need::kRequired,
                     "dense, embeddings, earlier towers");
      in.List("layers", {1, kMaxLayers}, Need::kRequired, kLayerType, "[]",
              [&](const YamlNode* node, const std::string& path) {
                ReadLayer(node, path, in.context(), &tower.layers);
              });
      model->towers.push_back(tower);
    });
  });
}

void CheckModel(const ClusterConfig& config, Diagnostics* diagnostics) {
  const std::vector<TowerConfig>& towers = config.model.towers;
  std::vector<std::string> known = {kEmbeddings};
  if (HasDenseColumns(config.data)) known.emplace_back(kDense);
  std::vector<std::string> unread = {kEmbeddings};
  for (size_t i = 0; i < towers.size(); ++i) {
    CheckName(i, towers, diagnostics);
    CheckInputs(i, towers[i], known, &unread, diagnostics);
    known.push_back(towers[i].name);
    if (i + 1 < towers.size()) unread.push_back(towers[i].name);
  }
  if (!diagnostics->ok()) return;
  CheckLastTower(towers, diagnostics);
  for (const std::string& name : unread) {
    const auto tower = std::find_if(towers.begin(), towers.end(),
                                    [&](const TowerConfig& t) { return t.name == name; });
    if (tower == towers.end()) {
      diagnostics->Report("model.towers", "no tower reads embeddings",
                          "give a tower input: embeddings");
    } else {
      diagnostics->Report(absl::StrCat("model.towers.", tower - towers.begin(), ".name"),
                          absl::StrCat("no later tower reads '", name, "'"),
                          "name it in an input, or remove the tower");
    }
  }
}

}  // namespace simurgh
