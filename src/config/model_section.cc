#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"

#include "config/diagnostics.h"
#include "config/file.h"
#include "config/map_reader.h"
#include "config/model_shorthand.h"
#include "config/sections.h"
#include "config/tower_shape.h"

namespace simurgh {
namespace {

constexpr size_t kMaxTowers = 256;
constexpr NumberRange kSmoothing{0.0F, 0.999F, "number from 0 to 0.999"};
constexpr char kDense[] = "dense";
constexpr char kEmbeddings[] = "embeddings";

using Kind = LayerConfig::Kind;

// Checks a tower's inputs against `known`, the inputs before it.
void CheckInputs(const TowerConfig& tower, const std::vector<std::string>& known,
                 Diagnostics* diagnostics) {
  const std::string path = tower.key + ".input";
  diagnostics->CheckDistinct(tower.inputs, std::identity(),
                             [&](size_t i) { return absl::StrCat(path, ".", i); });
  for (size_t i = 0; i < tower.inputs.size(); ++i) {
    const std::string& input = tower.inputs[i];
    if (std::find(known.begin(), known.end(), input) == known.end()) {
      diagnostics->Report(
          tower.inputs.size() > 1 ? absl::StrCat(path, ".", i) : path,
          absl::StrCat("'", input, "' is neither dense, embeddings nor an earlier tower"),
          input.starts_with(kMaskInput) ? "give the feature pooling: raw and mask: true"
                                        : NearestRemedy("input", input, known));
    }
  }
}

void CheckLastTower(const std::vector<TowerConfig>& towers, size_t tasks,
                    Diagnostics* diagnostics) {
  const size_t index = towers.size() - 1;
  const std::vector<LayerConfig>& layers = towers[index].layers;
  const LayerConfig& last = layers.back();
  const bool gives_logits = last.kind == Kind::kSum || last.kind == Kind::kLinear;
  if (gives_logits && std::max(last.width, 1U) == tasks) return;
  const std::string path = absl::StrCat(towers[index].key, ".layers.", layers.size() - 1);
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

// Adds the towers of a mixture of experts: copies of `tower`, and for each gate the tower of the
// gate and that of the mixture.
void AddExperts(const TowerConfig& tower, uint32_t count, const std::vector<std::string>& gates,
                std::vector<TowerConfig>* towers) {
  std::vector<std::string> experts;
  for (uint32_t i = 1; i <= count; ++i) {
    experts.push_back(absl::StrCat(tower.name, ".expert_", i));
    towers->push_back(tower);
    towers->back().name = experts.back();
  }
  for (const std::string& gate : gates) {
    const std::string gate_name = absl::StrCat(tower.name, ".gate_", gate);
    std::vector<std::string> terms = {gate_name};
    terms.insert(terms.end(), experts.begin(), experts.end());
    towers->push_back({gate_name,
                       tower.inputs,
                       {{.kind = Kind::kLinear, .width = count}, {.kind = Kind::kSoftmax}},
                       tower.key});
    towers->push_back({absl::StrCat(tower.name, ".", gate),
                       std::move(terms),
                       {{.kind = Kind::kMix, .width = count}},
                       tower.key});
  }
}

void ReadTowers(MapReader& section, std::vector<TowerConfig>* towers) {
  section.List("towers",
               "chains of layers; the last one gives the logits, and a later tower must read every "
               "other one",
               {1, kMaxTowers}, Need::kOptional, "mappings", "none", /*element_schema=*/Json(),
               [&](const YamlNode* node, const std::string& path) {
                 MapReader::Read(node, path, section.context(), [&](MapReader& in) {
                   TowerConfig tower;
                   in.Name("name", "tower name, neither `dense` nor `embeddings`", &tower.name,
                           Need::kRequired);
                   in.TextOrTexts("input",
                                  "concatenated inputs: `dense`, `embeddings`, "
                                  "`embeddings.<feature>`, `mask.<feature>` or earlier towers",
                                  &tower.inputs, {1, kMaxTowers}, Need::kRequired,
                                  "inputs: dense, embeddings, embeddings.FEATURE, mask.FEATURE, "
                                  "earlier towers");
                   ReadLayers(in, "layers", "layers from input to output, see Layers",
                              /*fallback=*/"", &tower.layers);
                   tower.key = path;
                   uint32_t experts = 0;
                   std::vector<std::string> gates;
                   in.Integer("experts",
                              "number of experts, copies of the layers with different weights; "
                              "0: one, without gates",
                              &experts, 0, kMaxExperts);
                   in.When(experts > 0, "set experts")
                       ->Texts(
                           "gates",
                           "mixtures of the experts, usually one for each task; later towers "
                           "read `<tower>.<gate>`",
                           &gates, {0, kMaxTasks}, Need::kOptional, "names", [](const auto& name) {
                             return IsName(name) ? "" : absl::StrCat("'", name, "' is not a name");
                           });
                   if (experts == 0) {
                     towers->push_back(tower);
                   } else if (gates.empty()) {
                     in.Error("experts", "has no effect without gates", "name gates");
                   } else {
                     AddExperts(tower, experts, gates, towers);
                   }
                 });
               });
}

void ReadLoss(MapReader& in, LossConfig* loss) {
  // The kind decides which labels are numbers.
  in.For(Scope::kInput | Scope::kTraining | Scope::kModel)
      ->Choice("kind", "loss of a sample, see Losses", &loss->kind, kLossNames);
  in.When(!IsRegression(loss->kind), "set kind: bce or focal")
      ->Number("positive_weight",
               "`bce`, `focal`: factor of the loss of positive samples; values other than 1 shift "
               "the predictions",
               &loss->positive_weight, kPositive);
  in.When(loss->kind == LossConfig::Kind::kBce, "set kind: bce")
      ->Number("label_smoothing", "`bce`: labels y count as (1 - s) y + s / 2 with this s",
               &loss->label_smoothing, kSmoothing);
  {
    const auto in_batch =
        in.When(loss->kind == LossConfig::Kind::kInBatchSoftmax, "set kind: in_batch_softmax");
    in.Number("temperature",
              "`in_batch_softmax`: divisor of the scores; lower values weigh near items more",
              &loss->temperature, kPositive);
    ReadNegatives(in, loss);
  }
  in.When(loss->kind == LossConfig::Kind::kFocal, "set kind: focal")
      ->Number("gamma",
               "`focal`: exponent; larger values reduce the loss of samples predicted well",
               &loss->gamma, kNonNegative);
}

// Labels with the loss squared_error and weights are scaled by their statistics, which a stream
// does not have. Other labels are not scaled.
void FitTargets(ClusterConfig* config, Diagnostics* diagnostics) {
  DataConfig& data = config->data;
  for (size_t i = 0; i < data.columns.size(); ++i) {
    ColumnConfig& column = data.columns[i];
    if (!IsTarget(column.kind)) continue;
    const auto task = std::ranges::find(config->model.tasks, column.name, &TaskConfig::label);
    const bool is_scaled =
        column.kind == ColumnConfig::Kind::kWeight ||
        (task != config->model.tasks.end() && task->loss.kind == LossConfig::Kind::kSquaredError);
    if (is_scaled && HasPairs(data)) column.fit = true;  // Columns of pairs have no key for it.
    if (data.streams() || !is_scaled) column.fit = false;
    if (is_scaled || (column.mean == 0 && column.stddev == 1)) continue;
    diagnostics->Report(absl::StrCat("data.columns.", i, column.mean != 0 ? ".mean" : ".stddev"),
                        "a label is scaled with the loss squared_error only", "remove it");
  }
}

// Sets which cells the labels may have. Only binary labels have texts.
void LinkLabels(ClusterConfig* config, const std::vector<TaskConfig>& given,
                Diagnostics* diagnostics) {
  using Values = ColumnConfig::LabelValues;
  FitTargets(config, diagnostics);
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
    column->label_values = TakesCounts(kind) ? Values::kCounts : Values::kNumbers;
    if (column->positive.empty()) continue;
    diagnostics->Report(
        absl::StrCat("data.columns.", column - columns.begin(), ".positive"),
        absl::StrCat("label '", task.label, "' is a number, as its loss is ", NameOf(kind)),
        absl::StrCat("remove it, or set ", key, " to bce or focal"));
  }
}

}  // namespace

void ReadModel(MapReader& root, const std::string& folder, ModelConfig* model,
               ModelShorthand* shorthand) {
  const auto scope = root.For(Scope::kTraining | Scope::kModel);
  root.Map("model", [&](MapReader& section) {
    ReadTowers(section, &model->towers);
    ReadShorthand(section, shorthand);
    section.Map("loss", [&](MapReader& in) { ReadLoss(in, &model->loss); });
    if (shorthand->kind == ModelShorthand::Kind::kTwoTower) {
      if (section.Has("loss")) section.Error("loss", "conflicts with 'two_tower'", "remove it");
      model->loss = shorthand->loss;
    }
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
    section.For(Scope::kTraining)
        ->Text("initial_weights",
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
  if (towers.empty()) return;  // A program has the network.
  std::vector<std::string> known = {kEmbeddings};
  if (DenseWidth(config) > 0) known.emplace_back(kDense);
  for (const FeatureConfig& feature : config.features) {
    known.push_back(kFeatureInput + feature.name);
    if (feature.mask) known.push_back(kMaskInput + feature.name);
  }
  std::vector<std::string> unread = {kEmbeddings};
  // A tower must read the dense columns, except those of criteo data, which cannot be skipped.
  const std::vector<ColumnConfig>& columns = config.data.columns;
  if (std::ranges::count(columns, ColumnConfig::Kind::kDense, &ColumnConfig::kind) > 0) {
    unread.emplace_back(kDense);
  }
  const auto path_of = [&](size_t i) { return towers[i].key + ".name"; };
  diagnostics->CheckDistinct(towers, &TowerConfig::name, path_of);
  for (size_t i = 0; i < towers.size(); ++i) {
    const std::string& name = towers[i].name;
    const bool is_input = name == kDense || name == kEmbeddings || name.starts_with(kMaskInput) ||
                          name.starts_with(kFeatureInput);
    if (is_input) {
      return diagnostics->Report(path_of(i), absl::StrCat("'", name, "' is an input of the model"),
                                 "give the tower another name");
    }
  }
  for (size_t i = 0; i < towers.size(); ++i) {
    // The experts of a tower have the same inputs.
    if (i == 0 || towers[i].key != towers[i - 1].key) CheckInputs(towers[i], known, diagnostics);
    for (const std::string& input : towers[i].inputs) {
      std::erase(unread, input.starts_with(kFeatureInput) ? kEmbeddings : input);
    }
    known.push_back(towers[i].name);
    if (i + 1 < towers.size()) unread.push_back(towers[i].name);
  }
  if (!diagnostics->ok()) return;
  if (!IsInBatch(config.model)) CheckLastTower(towers, TaskCount(config.model), diagnostics);
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

namespace {

void CheckUniformNegatives(const ClusterConfig& config, uint32_t negatives,
                           Diagnostics* diagnostics) {
  const auto report = [&](const std::string& what, const std::string& remedy) {
    diagnostics->Report("model", absl::StrCat("uniform_negatives: ", what), remedy);
  };
  if (config.data.items.files.empty()) {
    report("data.items names no file to draw them from", "set data.items, or remove it");
  }
  constexpr uint64_t kMaxRows = 65'535;
  const uint64_t rows = uint64_t{config.training.batch_size} + negatives;
  if (rows > kMaxRows) {
    report(absl::StrCat("a batch would have ", rows, " rows, the limit is ", kMaxRows),
           "lower it, or training.batch_size");
  }
  // They would spoil the statistics of the user's tower, and those of the ranks' samples.
  for (const TowerConfig& tower : config.model.towers) {
    for (const LayerConfig& layer : tower.layers) {
      const bool is_dice = layer.activation == LayerConfig::Kind::kDice;
      if (layer.kind != LayerConfig::Kind::kBatchNorm && layer.kind != LayerConfig::Kind::kDice &&
          !(layer.kind == LayerConfig::Kind::kAttention && is_dice)) {
        continue;
      }
      return report(absl::StrCat("tower '", tower.name, "' has a layer with statistics of a batch"),
                    "use layer_norm in place of batch_norm, and prelu in place of dice");
    }
  }
}

}  // namespace

void CheckInBatch(const ClusterConfig& config, Diagnostics* diagnostics) {
  const ModelConfig& model = config.model;
  const auto is_in_batch = [](const TaskConfig& task) {
    return task.loss.kind == LossConfig::Kind::kInBatchSoftmax;
  };
  if (std::ranges::none_of(model.tasks, is_in_batch)) return;
  const auto report = [&](const std::string& what, const std::string& remedy) {
    diagnostics->Report("model.loss.kind", "in_batch_softmax " + what, remedy);
  };
  if (model.tasks.size() > 1) return report("supports one label only", "keep one label column");
  if (model.is_hosted()) return report("needs a model", "describe the network by towers");
  std::vector<InputShape> known = ModelInputShapes(config);
  for (const TowerConfig& tower : model.towers) {
    known.push_back(TowerShapeOf(tower, InputsOf(tower, known)).output);
  }
  const TowerConfig& last = model.towers.back();
  if (!IsDotOfTwo(last, InputsOf(last, known))) {
    report("needs a last tower that is one dot of two vectors of one width",
           "let it read a user's and an item's tower, with layers: [{dot: WIDTH}]");
  }
  if (const uint32_t negatives = model.tasks[0].loss.uniform_negatives; negatives > 0) {
    CheckUniformNegatives(config, negatives, diagnostics);
  }
  const bool evaluates = !config.data.test.empty() || !config.data.validation.empty();
  if (evaluates && config.data.items.files.empty()) {
    report("is evaluated by rankings of all items", "name the items' files in data.items");
  }
}

size_t DenseWidth(const ClusterConfig& config) {
  size_t width = 0;
  for (const ColumnConfig& column : ColumnsOf(config.data)) {
    if (column.kind == ColumnConfig::Kind::kDense) width += column.width;
  }
  for (const DerivedConfig& derived : config.data.derived) width += derived.width;
  for (const FeatureConfig& feature : config.features) width += feature.mask_width();
  return width;
}

void CheckWidths(const ClusterConfig& config, Diagnostics* diagnostics) {
  std::vector<InputShape> known = ModelInputShapes(config);
  for (const TowerConfig& tower : config.model.towers) {
    const TowerShape shape = TowerShapeOf(tower, InputsOf(tower, known));
    if (shape.output.width == 0) {
      return diagnostics->Report(absl::StrCat(tower.key, ".layers.", shape.layer), shape.problem,
                                 shape.remedy);
    }
    known.push_back(shape.output);
  }
}

}  // namespace simurgh
