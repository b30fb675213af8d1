#include "config/retrieval.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "config/diagnostics.h"
#include "config/sections.h"
#include "config/tower_shape.h"

namespace simurgh {
namespace {

using ColumnKind = ColumnConfig::Kind;

// Collects what towers read.
struct TowerInputs {
  const ClusterConfig& config;
  std::set<std::string> columns = {};

  void AddFeature(const FeatureConfig& feature) {
    for (const std::string& source : feature.sources()) columns.insert(source);
  }

  void AddInput(const std::string& input) {
    if (input == "dense") {
      for (const ColumnConfig& column : ColumnsOf(config.data)) {
        if (column.kind == ColumnKind::kDense) columns.insert(column.name);
      }
      for (const DerivedConfig& derived : config.data.derived) {
        columns.insert(derived.columns.begin(), derived.columns.end());
      }
      return;
    }
    for (const FeatureConfig& feature : config.features) {
      if (input == "embeddings" || input == kFeatureInput + feature.name ||
          input == kMaskInput + feature.name) {
        AddFeature(feature);
      }
    }
    for (const TowerConfig& tower : config.model.towers) {
      if (tower.name != input) continue;
      for (const std::string& name : tower.inputs) AddInput(name);
    }
  }
};

}  // namespace

std::optional<TwoTowers> TwoTowersOf(const ClusterConfig& config) {
  if (config.model.is_hosted()) return std::nullopt;
  std::vector<InputShape> known = ModelInputShapes(config);
  for (const TowerConfig& tower : config.model.towers) {
    known.push_back(TowerShapeOf(tower, InputsOf(tower, known)).output);
  }
  const TowerConfig& last = config.model.towers.back();
  if (!IsDotOfTwo(last, InputsOf(last, known))) return std::nullopt;
  for (const std::string& input : last.inputs) {
    const auto& towers = config.model.towers;
    if (std::ranges::find(towers, input, &TowerConfig::name) == towers.end()) return std::nullopt;
  }
  return TwoTowers{.user = last.inputs[0], .item = last.inputs[1]};
}

std::vector<std::string> ColumnsOfTower(const ClusterConfig& config, const std::string& tower) {
  TowerInputs inputs{config};
  inputs.AddInput(tower);
  std::vector<std::string> names;
  for (const ColumnConfig& column : ColumnsOf(config.data)) {
    if (inputs.columns.contains(column.name)) names.push_back(column.name);
  }
  return names;
}

std::vector<std::string> IdColumnsOfTower(const ClusterConfig& config, const std::string& tower) {
  const std::vector<std::string> read = ColumnsOfTower(config, tower);
  std::vector<std::string> ids;
  for (const ColumnConfig& column : config.data.columns) {
    const bool is_read = std::ranges::find(read, column.name) != read.end();
    if (is_read && column.kind == ColumnKind::kId) ids.push_back(column.name);
  }
  return ids;
}

void LinkItems(ClusterConfig* config, Diagnostics* diagnostics) {
  ItemsConfig& items = config->data.items;
  if (items.files.empty()) return;
  const auto report = [&](const std::string& key, const std::string& what,
                          const std::string& remedy) {
    diagnostics->Report("data.items" + key, what, remedy);
  };
  const std::optional<TwoTowers> towers = TwoTowersOf(*config);
  if (!towers) {
    return report("", "the model's last tower is no dot of a user's and an item's tower",
                  "remove it, or set model: two_tower");
  }
  using Format = DataConfig::Format;
  if (config->data.format == Format::kCriteo || HasPairs(config->data)) {
    return report("", "items have no names in this format",
                  "remove it, or use data.format: csv, json or parquet");
  }
  // The metrics that evaluations are compared by.
  if (std::ranges::find(items.top, kComparedItems) == items.top.end()) {
    items.top.push_back(kComparedItems);
    std::ranges::sort(items.top);
  }
  if (!items.id.empty()) return;
  const std::vector<std::string> ids = IdColumnsOfTower(*config, towers->item);
  if (ids.size() == 1) {
    items.id = ids[0];
  } else if (ids.empty()) {
    report(".id", "missing; the item's tower reads no id column",
           "name the column of the files whose text names an item");
  } else {
    report(".id",
           absl::StrCat("missing; the item's tower reads several id columns: ",
                        absl::StrJoin(ids, ", ")),
           "name the one whose text names an item");
  }
}

}  // namespace simurgh
