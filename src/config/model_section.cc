#include <algorithm>

#include "absl/strings/str_cat.h"

#include "config/layer_list.h"
#include "config/model_shorthand.h"
#include "config/nearest.h"
#include "config/sections.h"

namespace simurgh {
namespace {

constexpr size_t kMaxTowers = 256;
constexpr char kDense[] = "dense";
constexpr char kEmbeddings[] = "embeddings";

using Kind = LayerConfig::Kind;

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
                        "give every tower a different name");
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
    diagnostics->Report(path, "the last tower must give one number, the logit",
                        "end its layers with {linear: 1} or sum; the loss applies the sigmoid");
    return;
  }
  diagnostics->Report(path,
                      absl::StrCat("the last tower must give ", tasks, " logits, one a label"),
                      absl::StrCat("end its layers with {linear: ", tasks, "}, or {sum: ", tasks,
                                   "} of as many towers; the loss applies the sigmoid"));
}

void ReadTowers(MapReader& section, std::vector<TowerConfig>* towers) {
  section.List("towers",
               "chains of layers; the last one gives the logits, and a later tower must read every "
               "other one",
               {1, kMaxTowers}, Need::kOptional, "mappings", "none",
               [&](const YamlNode* node, const std::string& path) {
                 MapReader::Read(node, path, section.context(), [&](MapReader& in) {
                   TowerConfig tower;
                   in.Name("name", "tower name, neither `dense` nor `embeddings`", &tower.name,
                           Need::kRequired);
                   in.TextOrTexts("input",
                                  "concatenated inputs: `dense`, `embeddings`, "
                                  "`embeddings.<feature>` or earlier towers",
                                  &tower.inputs, {1, kMaxTowers}, Need::kRequired,
                                  "dense, embeddings, embeddings.FEATURE, earlier towers");
                   ReadLayers(in, "layers", "layers from input to output, see Layers",
                              Need::kRequired, true, &tower.layers);
                   towers->push_back(tower);
                 });
               });
}

void ReadLoss(MapReader& in, LossConfig* loss) {
  using LossKind = LossConfig::Kind;
  in.Choice<LossKind>("kind", "loss of a sample, see Losses", &loss->kind,
                      {{"bce", LossKind::kBce}, {"focal", LossKind::kFocal}});
  in.Number("positive_weight",
            "factor of the loss of positive samples; values other than 1 shift the predictions",
            &loss->positive_weight, kPositive);
  in.Number("gamma", "`focal`: exponent; larger values reduce the loss of samples predicted well",
            &loss->gamma, kNonNegative);
  in.OnlyWith(loss->kind == LossKind::kFocal, "kind: focal", {"gamma"});
}

}  // namespace

void ReadModel(MapReader& root, ModelConfig* model, ModelShorthand* shorthand) {
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
  });
}

void LinkTasks(ClusterConfig* config, Diagnostics* diagnostics) {
  ModelConfig& model = config->model;
  std::vector<std::string> labels;
  for (const ColumnConfig& column : ColumnsOf(config->data)) {
    if (column.kind == ColumnConfig::Kind::kLabel) labels.push_back(column.name);
  }
  const std::vector<TaskConfig> given = std::move(model.tasks);
  for (size_t i = 0; i < given.size(); ++i) {
    const std::string path = absl::StrCat("model.tasks.", i, ".label");
    if (std::ranges::find(labels, given[i].label) == labels.end()) {
      diagnostics->Report(
          path, absl::StrCat("no label column is named '", given[i].label, "'"),
          absl::StrCat("the nearest label column is '", Nearest(given[i].label, labels), "'"));
    }
    if (std::ranges::count(given, given[i].label, &TaskConfig::label) > 1) {
      diagnostics->Report(path, absl::StrCat("'", given[i].label, "' stands more than once"),
                          "describe every task once");
    }
  }
  model.tasks.clear();
  for (const std::string& label : labels) {
    const auto task = std::ranges::find(given, label, &TaskConfig::label);
    model.tasks.push_back(task != given.end()
                              ? *task
                              : TaskConfig{.label = label, .weight = 1.0F, .loss = model.loss});
  }
  if (labels.size() > 1 && config->training.keep_negatives < 1.0F) {
    diagnostics->Report("training.keep_negatives", "with several labels, no row is a negative one",
                        "leave it at 1");
  }
}

void CheckModel(const ClusterConfig& config, Diagnostics* diagnostics) {
  const std::vector<TowerConfig>& towers = config.model.towers;
  std::vector<std::string> known = {kEmbeddings};
  if (DenseWidth(config) > 0) known.emplace_back(kDense);
  for (const FeatureConfig& feature : config.features) {
    known.push_back(kFeatureInput + feature.name);
  }
  std::vector<std::string> unread = {kEmbeddings};
  for (size_t i = 0; i < towers.size(); ++i) {
    CheckName(i, towers, diagnostics);
    CheckInputs(i, towers[i], known, &unread, diagnostics);
    known.push_back(towers[i].name);
    if (i + 1 < towers.size()) unread.push_back(towers[i].name);
  }
  if (!diagnostics->ok()) return;
  CheckLastTower(towers, TaskCount(config.model), diagnostics);
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
  if (diagnostics->ok()) CheckWidths(config, diagnostics);
}

}  // namespace simurgh
