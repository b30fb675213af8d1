#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"

#include "config/diagnostics.h"
#include "config/file.h"
#include "config/layer_list.h"
#include "config/model_shorthand.h"
#include "config/sections.h"

namespace simurgh {
namespace {

constexpr size_t kMaxTowers = 256;
constexpr char kDense[] = "dense";
constexpr char kEmbeddings[] = "embeddings";

using Kind = LayerConfig::Kind;

// Checks a tower's inputs against `known`, the inputs before it, and removes them from `unread`.
void CheckInputs(size_t index, const TowerConfig& tower, const std::vector<std::string>& known,
                 std::vector<std::string>* unread, Diagnostics* diagnostics) {
  const std::string path = absl::StrCat("model.towers.", index, ".input");
  diagnostics->CheckDistinct(tower.inputs, std::identity(),
                             [&](size_t i) { return absl::StrCat(path, ".", i); });
  for (size_t i = 0; i < tower.inputs.size(); ++i) {
    const std::string& input = tower.inputs[i];
    if (std::find(known.begin(), known.end(), input) == known.end()) {
      diagnostics->Report(
          tower.inputs.size() > 1 ? absl::StrCat(path, ".", i) : path,
          absl::StrCat("'", input, "' is neither dense, embeddings nor an earlier tower"),
          NearestRemedy("input", input, known));
    }
    std::erase(*unread, input.starts_with(kFeatureInput) ? kEmbeddings : input);
  }
}

void CheckLastTower(const std::vector<TowerConfig>& towers, size_t tasks,
                    Diagnostics* diagnostics) {
  const size_t index = towers.size() - 1;
  const std::vector<LayerConfig>& layers = towers[index].layers;
  const LayerConfig& last = layers.back();
  const bool gives_logits = last.kind == Kind::kSum || last.kind == Kind::kLinear;
  if (gives_logits && std::max(last.width, 1U) == tasks) return;
  const std::string path = absl::StrCat("model.towers.", index, ".layers.", layers.size() - 1);
  if (tasks == 1) {
    diagnostics->Report(path, "the last tower must output one number",
                        "end its layers with {linear: 1} or sum; the loss applies sigmoid or exp");
    return;
  }
  diagnostics->Report(path,
                      absl::StrCat("the last tower must output ", tasks, " numbers, one per label"),
                      absl::StrCat("end its layers with {linear: ", tasks, "}, or {sum: ", tasks,
                                   "} of as many towers; the loss applies sigmoid or exp"));
}

void ReadTowers(MapReader& section, std::vector<TowerConfig>* towers) {
  section.List("towers",
               "chains of layers; the last one gives the logits, and a later tower must read every "
               "other one",
               {1, kMaxTowers}, Need::kOptional, "mappings", "none", /*element_schema=*/"",
               [&](const YamlNode* node, const std::string& path) {
                 MapReader::Read(node, path, section.context(), [&](MapReader& in) {
                   TowerConfig tower;
                   in.Name("name", "tower name, neither `dense` nor `embeddings`", &tower.name,
                           Need::kRequired);
                   in.TextOrTexts("input",
                                  "concatenated inputs: `dense`, `embeddings`, "
                                  "`embeddings.<feature>` or earlier towers",
                                  &tower.inputs, {1, kMaxTowers}, Need::kRequired,
                                  "inputs: dense, embeddings, embeddings.FEATURE, earlier towers");
                   ReadLayers(in, "layers", "layers from input to output, see Layers",
                              /*fallback=*/"", &tower.layers);
                   towers->push_back(tower);
                 });
               });
}

void ReadLoss(MapReader& in, LossConfig* loss) {
  using LossKind = LossConfig::Kind;
  in.Choice<LossKind>("kind", "loss of a sample, see Losses", &loss->kind,
                      {{"bce", LossKind::kBce},
                       {"focal", LossKind::kFocal},
                       {"squared_error", LossKind::kSquaredError},
                       {"poisson", LossKind::kPoisson}});
  in.Number("positive_weight",
            "`bce`, `focal`: factor of the loss of positive samples; values other than 1 shift the "
            "predictions",
            &loss->positive_weight, kPositive);
  in.Number("gamma", "`focal`: exponent; larger values reduce the loss of samples predicted well",
            &loss->gamma, kNonNegative);
  in.OnlyWith(loss->kind == LossKind::kFocal, "set kind: focal", {"gamma"});
  in.OnlyWith(!IsRegression(loss->kind), "set kind: bce or focal", {"positive_weight"});
}

// Sets which cells the labels may have. Only binary labels have texts.
void LinkLabels(ClusterConfig* config, const std::vector<TaskConfig>& given,
                Diagnostics* diagnostics) {
  using Values = ColumnConfig::LabelValues;
  for (const TaskConfig& task : config->model.tasks) {
    const LossConfig::Kind kind = task.loss.kind;
    if (!IsRegression(kind)) continue;
    const auto entry = std::ranges::find(given, task.label, &TaskConfig::label);
    const std::string key = entry == given.end()
                                ? "model.loss.kind"
                                : absl::StrCat("model.tasks.", entry - given.begin(), ".loss.kind");
    if (config->data.format == DataConfig::Format::kCriteo) {
      diagnostics->Report(key, absl::StrCat("is ", NameOf(kind), ", but criteo labels are 0 or 1"),
                          "choose bce or focal, or another data.format");
      continue;
    }
    if (config->training.keep_negatives < 1.0F) {
      diagnostics->Report("training.keep_negatives",
                          absl::StrCat("requires a binary label; the loss is ", NameOf(kind)),
                          "set it to 1");
    }
    std::vector<ColumnConfig>& columns = config->data.columns;
    const auto column = std::ranges::find(columns, task.label, &ColumnConfig::name);
    column->label_values = kind == LossConfig::Kind::kPoisson ? Values::kCounts : Values::kNumbers;
    if (column->positive.empty()) continue;
    diagnostics->Report(
        absl::StrCat("data.columns.", column - columns.begin(), ".positive"),
        absl::StrCat("label '", task.label, "' is a number, as its loss is ", NameOf(kind)),
        absl::StrCat("remove it, or set ", key, " to bce or focal"));
  }
}

// The output width of a layer; 0 after a report.
size_t WidthAfter(const LayerConfig& layer, size_t width, size_t tower_width,
                  const std::string& path, Diagnostics* diagnostics) {
  switch (layer.kind) {
    case Kind::kLinear:
      return layer.width;
    case Kind::kSum:
      if (const uint32_t sums = std::max(layer.width, 1U); width % sums == 0) return sums;
      diagnostics->Report(
          path, absl::StrCat(width, " columns cannot be split into ", layer.width, " sums"),
          "read the same number of columns for each sum");
      return 0;
    case Kind::kCross:
      if (width == tower_width) return width;
      diagnostics->Report(
          path, absl::StrCat("cross on ", width, " columns in a tower that reads ", tower_width),
          "move layers of other widths after it, or to another tower");
      return 0;
    case Kind::kDot:
    case Kind::kFm: {
      const size_t vectors = width / layer.width;
      if (width % layer.width == 0 && vectors >= 2) {
        return layer.kind == Kind::kFm ? 1 : vectors * (vectors - 1) / 2;
      }
      diagnostics->Report(
          path,
          absl::StrCat(width, " columns are not a multiple of ", layer.width, ", at least ",
                       2 * layer.width),
          "read embeddings of one dim and towers of this width, and set that width");
      return 0;
    }
    case Kind::kBatchNorm:
    case Kind::kRelu:
    case Kind::kGelu:
    case Kind::kSigmoid:
      break;
  }
  return width;
}

}  // namespace

void ReadModel(MapReader& root, const std::string& folder, ModelConfig* model,
               ModelShorthand* shorthand) {
  root.Map("model", [&](MapReader& section) {
    ReadTowers(section, &model->towers);
    ReadShorthand(section, shorthand);
    section.Map("loss", [&](MapReader& in) { ReadLoss(in, &model->loss); });
    section.Maps("tasks",
                 "tasks of several labels, in any order; a label without an entry has weight 1 and "
                 "`model.loss`",
                 {0, kMaxTasks}, [&](MapReader& in) {
                   TaskConfig task{.label = {}, .weight = 1.0F, .loss = model->loss};
                   in.Name("label", "label column", &task.label, Need::kRequired);
                   in.Number("weight", "factor of the task's loss in the sum", &task.weight,
                             kNonNegative);
                   in.Map("loss", [&](MapReader& map) { ReadLoss(map, &task.loss); });
                   model->tasks.push_back(task);
                 });
    section.Text(
        "initial_weights",
        "tensor file with the dense weights that a new training begins with, see Warm start",
        &model->initial_weights, "path of a file");
    if (section.Has("initial_weights")) {
      section.Record("initial_weights", FileName(model->initial_weights));
      model->initial_weights = PathIn(folder, model->initial_weights);
    }
  });
}

void LinkTasks(ClusterConfig* config, Diagnostics* diagnostics) {
  ModelConfig& model = config->model;
  std::vector<std::string> labels;
  for (const ColumnConfig& column : ColumnsOf(config->data)) {
    if (column.kind == ColumnConfig::Kind::kLabel) labels.push_back(column.name);
  }
  const std::vector<TaskConfig> given = std::move(model.tasks);
  const auto path_of = [](size_t i) { return absl::StrCat("model.tasks.", i, ".label"); };
  for (size_t i = 0; i < given.size(); ++i) {
    diagnostics->CheckKnown(path_of(i), "label column", given[i].label, labels);
  }
  diagnostics->CheckDistinct(given, &TaskConfig::label, path_of);
  model.tasks.clear();
  for (const std::string& label : labels) {
    const auto task = std::ranges::find(given, label, &TaskConfig::label);
    model.tasks.push_back(task != given.end()
                              ? *task
                              : TaskConfig{.label = label, .weight = 1.0F, .loss = model.loss});
  }
  if (labels.size() > 1 && config->training.keep_negatives < 1.0F) {
    diagnostics->Report("training.keep_negatives", "requires a single label", "set it to 1");
  }
  LinkLabels(config, given, diagnostics);
}

void CheckModel(const ClusterConfig& config, Diagnostics* diagnostics) {
  const std::vector<TowerConfig>& towers = config.model.towers;
  std::vector<std::string> known = {kEmbeddings};
  if (DenseWidth(config) > 0) known.emplace_back(kDense);
  for (const FeatureConfig& feature : config.features) {
    known.push_back(kFeatureInput + feature.name);
  }
  std::vector<std::string> unread = {kEmbeddings};
  // Not of the criteo format, whose columns cannot be skipped.
  const std::vector<ColumnConfig>& columns = config.data.columns;
  if (std::ranges::count(columns, ColumnConfig::Kind::kDense, &ColumnConfig::kind) > 0) {
    unread.emplace_back(kDense);
  }
  const auto path_of = [](size_t i) { return absl::StrCat("model.towers.", i, ".name"); };
  diagnostics->CheckDistinct(towers, &TowerConfig::name, path_of);
  for (size_t i = 0; i < towers.size(); ++i) {
    if (towers[i].name == kDense || towers[i].name == kEmbeddings) {
      return diagnostics->Report(path_of(i),
                                 absl::StrCat("'", towers[i].name, "' is an input of the model"),
                                 "give the tower another name");
    }
  }
  for (size_t i = 0; i < towers.size(); ++i) {
    CheckInputs(i, towers[i], known, &unread, diagnostics);
    known.push_back(towers[i].name);
    if (i + 1 < towers.size()) unread.push_back(towers[i].name);
  }
  if (!diagnostics->ok()) return;
  CheckLastTower(towers, TaskCount(config.model), diagnostics);
  for (const std::string& name : unread) {
    const auto tower = std::ranges::find(towers, name, &TowerConfig::name);
    if (tower == towers.end()) {
      diagnostics->Report("model.towers", absl::StrCat("no tower reads ", name),
                          name == kDense ? "give a tower input: dense, or columns kind: skip"
                                         : "give a tower input: embeddings");
    } else {
      diagnostics->Report(path_of(tower - towers.begin()),
                          absl::StrCat("no later tower reads '", name, "'"),
                          "name it in an input, or remove the tower");
    }
  }
  if (diagnostics->ok()) CheckWidths(config, diagnostics);
}

size_t DenseWidth(const ClusterConfig& config) {
  const std::vector<ColumnConfig> columns = ColumnsOf(config.data);
  auto width = static_cast<size_t>(
      std::ranges::count(columns, ColumnConfig::Kind::kDense, &ColumnConfig::kind));
  for (const DerivedConfig& derived : config.data.derived) width += derived.width;
  for (const FeatureConfig& feature : config.features) width += feature.mask_width();
  return width;
}

void CheckWidths(const ClusterConfig& config, Diagnostics* diagnostics) {
  std::map<std::string, size_t> widths = {{"dense", DenseWidth(config)},
                                          {"embeddings", config.embedding_width()}};
  for (const FeatureConfig& feature : config.features) {
    widths[kFeatureInput + feature.name] = feature.width(config.tables[feature.table_index].dim);
  }
  const std::vector<TowerConfig>& towers = config.model.towers;
  for (size_t t = 0; t < towers.size(); ++t) {
    size_t tower_width = 0;
    for (const std::string& input : towers[t].inputs) tower_width += widths[input];
    size_t width = tower_width;
    for (size_t i = 0; i < towers[t].layers.size(); ++i) {
      width = WidthAfter(towers[t].layers[i], width, tower_width,
                         absl::StrCat("model.towers.", t, ".layers.", i), diagnostics);
      if (width == 0) return;
    }
    widths[towers[t].name] = width;
  }
}

}  // namespace simurgh
