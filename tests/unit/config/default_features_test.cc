// Features and tables that a file leaves out.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "config/document.h"
#include "simurgh/config/agreement.h"
#include "tests/unit/config/error_cases.h"
#include "tests/unit/config/sample.h"

namespace simurgh {
namespace {

using Names = std::vector<std::string>;

// A file with an id column `a`, lists `b` of ids, numbers `x` and the label, and these sections.
std::string File(const std::string& sections, const std::string& columns = "") {
  return absl::StrCat(
      "data: {train: [CMakeLists.txt], csv: {columns: [{name: y, kind: label}, {name: a, kind: "
      "id}, ",
      "{name: x, kind: dense}, {name: b, kind: id, separator: \"|\"}", columns, "]}}\n", sections);
}

constexpr char kTower[] =
    "cluster: {name: a}\nembedding_ps: {instances: [{address: \"unix:///tmp/a\"}]}\n"
    "embedding_worker: {instances: [{address: \"unix:///tmp/b\"}]}\nnn_worker: {instances: [{}]}\n"
    "model: {towers: [{name: top, input: [dense, embeddings], layers: [{linear: 1}]}]}\n";

ClusterConfig Parse(const std::string& text, const std::vector<std::string>& overrides = {}) {
  StatusOr<ClusterConfig> config = ParseClusterConfig(text, kSamplePath, overrides);
  INFO(text);
  INFO(config.status().ToString());
  REQUIRE(config.ok());
  return *std::move(config);
}

Names Features(const ClusterConfig& config) {
  Names names;
  for (const FeatureConfig& feature : config.features) names.push_back(feature.name);
  return names;
}

Names Tables(const ClusterConfig& config) {
  Names names;
  for (const TableConfig& table : config.tables) names.push_back(table.name);
  return names;
}

std::string TowersText(const ClusterConfig& config) {
  std::string text;
  for (const TowerConfig& tower : config.model.towers) {
    absl::StrAppend(&text, tower.name, ":");
    for (const std::string& input : tower.inputs) absl::StrAppend(&text, " ", input);
    for (const LayerConfig& layer : tower.layers) {
      absl::StrAppend(&text, " ", static_cast<int>(layer.kind), "/", layer.width, "/", layer.rank);
    }
    text += "\n";
  }
  return text;
}

TEST_CASE("Each id column is a feature with a default table, unless one is given", "[config]") {
  const ClusterConfig short_one = Parse(File(kTower));
  CHECK(Features(short_one) == Names{"a", "b"});
  CHECK(Tables(short_one) == Names{"a", "b"});
  CHECK(short_one.features[1].column == "b");
  CHECK(short_one.features[1].table_index == 1);
  CHECK(short_one.features[1].pooling == Pooling::kSum);
  CHECK(short_one.tables[1].dim == 8);
  CHECK(short_one.tables[1].capacity_rows == TableConfig().capacity_rows);

  // As if all were written.
  const ClusterConfig long_one = Parse(File(
      absl::StrCat(kTower, "tables: [{name: a}, {name: b}]\nfeatures: [{name: a}, {name: b}]\n")));
  CHECK(Features(long_one) == Features(short_one));
  CHECK(Tables(long_one) == Tables(short_one));
  CHECK(TowersText(long_one) == TowersText(short_one));

  const ClusterConfig table = Parse(File(absl::StrCat(kTower, "tables: [{name: b, dim: 3}]\n")));
  CHECK(Tables(table) == Names{"b", "a"});
  CHECK(Features(table) == Names{"a", "b"});
  CHECK(table.embedding_width() == 11);

  const ClusterConfig feature = Parse(
      File(absl::StrCat(kTower, "features: [{name: b, pooling: mean}, {name: x2, column: x}]\n")));
  CHECK(Features(feature) == Names{"a", "b", "x2"});
  CHECK(Tables(feature) == Names{"a", "b", "x2"});
  CHECK(feature.features[1].pooling == Pooling::kMean);
}

TEST_CASE("A column that another feature or derived column reads has no feature", "[config]") {
  CHECK(Features(Parse(File(absl::StrCat(kTower, "features: [{name: ab, columns: [a, b]}]\n")))) ==
        Names{"ab"});
  CHECK(Features(Parse(File(absl::StrCat(kTower, "features: [{name: first, column: a}]\n")))) ==
        Names{"b", "first"});
  const ClusterConfig derived = Parse(
      File(kTower, ", {name: c, kind: id}, {name: s, kind: skip}") + "features: [{name: a}]\n",
      {"data.derived=[{name: d, columns: [c], plugin: {path: CMakeLists.txt}}]"});
  CHECK(Features(derived) == Names{"b", "a"});
}

TEST_CASE("Errors of features and tables that are left out", "[config]") {
  CHECK(ErrorOf(File(absl::StrCat(kTower, "features: [{name: b, column: a}]\n"))) ==
        "sample.yaml:1: data.csv.columns.3: no feature reads id column 'b', whose name another "
        "feature has; name it in a feature, or give it kind: skip");
  CHECK(ErrorOf(File(absl::StrCat(kTower, "tables: [{name: c}]\n"))) ==
        "sample.yaml:7: tables.0.name: no feature uses table 'c'; remove the table, or name it in "
        "a feature");
  CHECK(ErrorOf(File(absl::StrCat(kTower, "features: [{name: c, column: a, table: aa}]\n"))) ==
        "sample.yaml:7: features.0.table: no table is named 'aa'; use one of b");
  CHECK(ErrorOf(File(kTower), {"data.csv.columns.1.kind=skip", "data.csv.columns.3={name: b}"}) ==
        "sample.yaml:1: features: no column is an id, and no feature reads numbers; give a column "
        "kind: id, or name a feature of a dense column");
  std::string many;
  for (int i = 0; i < 4'095; ++i) absl::StrAppend(&many, ", {name: c", i, ", kind: id}");
  CHECK(ErrorOf(File(kTower, many))
            .find("features: 4097 features, one for each id column; use at most 4096") !=
        std::string::npos);
}

TEST_CASE("Criteo has all features, or those that are listed", "[config]") {
  const std::string data = "data: {format: criteo, train: [CMakeLists.txt]}\n";
  const ClusterConfig all = Parse(data + kTower);
  CHECK(all.features.size() == 26);
  CHECK(all.features[25].name == "C26");
  CHECK(Features(Parse(data + kTower + "features: [{name: C3}]\n")) == Names{"C3"});
}

TEST_CASE("Daemons must agree on features and tables that are left out", "[config]") {
  const std::string one = ClusterAgreement(Parse(File(kTower)));
  CHECK(one == ClusterAgreement(Parse(File(kTower))));
  CHECK(one != ClusterAgreement(Parse(File(kTower, ", {name: c, kind: id}"))));
  CHECK(one == ClusterAgreement(Parse(File(kTower, ", {name: c, kind: skip}"))));
}

}  // namespace
}  // namespace simurgh
