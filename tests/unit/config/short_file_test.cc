// What a file may leave out: features, tables, instances, the layers of a model by its name.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "config/cluster_config.h"
#include "config/sections.h"
#include "tests/unit/config/error_cases.h"
#include "tests/unit/config/sample.h"

namespace simurgh {
namespace {

using Names = std::vector<std::string>;

// A file with an id column `a`, lists `b` of ids, numbers `x` and the label, and these sections.
// Its columns are in data.csv, as in older files.
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

TEST_CASE("Without ids, numbers have ranges", "[config]") {
  const ClusterConfig config =
      Parse(File(kTower), {"data.columns.1.kind=dense", "data.columns.3={name: b}"});
  CHECK(Features(config) == Names{"a_range", "x_range"});
  CHECK(Tables(config) == Names{"a_range", "x_range"});
  CHECK(config.features[1].column == "x");
  CHECK(config.features[1].processing.quantiles == 16);
}

TEST_CASE("Errors of features and tables that are left out", "[config]") {
  CHECK(ErrorOf(File(absl::StrCat(kTower, "features: [{name: b, column: a}]\n"))) ==
        "sample.yaml:1: data.columns.3: no feature reads id column 'b', whose name another "
        "feature has; name it in a feature, or give it kind: skip");
  CHECK(ErrorOf(File(absl::StrCat(kTower, "tables: [{name: c}]\n"))) ==
        "sample.yaml:7: tables.0.name: no feature uses table 'c'; remove the table, or name it in "
        "a feature");
  CHECK(ErrorOf(File(absl::StrCat(kTower, "features: [{name: c, column: a, table: aa}]\n"))) ==
        "sample.yaml:7: features.0.table: no table is named 'aa'; use one of b");
  const std::string error =
      ErrorOf(File(kTower),
              {"data.columns.1.kind=skip", "data.columns.2={name: x}", "data.columns.3={name: b}"});
  CHECK(error.substr(0, error.find('\n')) ==
        "sample.yaml:1: features: no column is an id, and no feature reads numbers; give a column "
        "kind: id, or a dense column a feature, such as `features: [{name: age_range, column: age, "
        "boundaries: [20, 40, 60]}]`");
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

TEST_CASE("Columns of JSON are those of data.columns", "[config]") {
  const auto file = [](const std::string& more) {
    return absl::StrCat(
        "data: {format: json, train: [CMakeLists.txt], columns: [{name: y, kind: label}, "
        "{name: a, kind: id, header_name: the a}, {name: b, kind: id, separator: \",\"}, "
        "{name: x, kind: dense, fit: false}]",
        more, "}\n", kTower);
  };
  const ClusterConfig config = Parse(file(""));
  CHECK(config.data.format == DataConfig::Format::kJson);
  CHECK(config.data.columns[1].header_name == "the a");
  CHECK(Features(config) == Names{"a", "b"});
  CHECK(ErrorOf(file(", csv: {header: true}")) ==
        "sample.yaml:1: data.csv: has no effect with format: json; remove it, or set format: csv");
  CHECK(ErrorOf(file(", criteo: {labels: 2}")) ==
        "sample.yaml:1: data.criteo: has no effect with format: json; remove it, or set format: "
        "criteo");
}

TEST_CASE("libsvm and libffm have columns of their own, whose features have weights", "[config]") {
  const auto file = [](const std::string& data, const std::string& more = "") {
    return absl::StrCat("data: {train: [CMakeLists.txt], ", data, "}\n",
                        "model: {towers: [{name: top, input: [embeddings], layers: [{linear: "
                        "1}]}]}\n",
                        more);
  };
  const ClusterConfig svm = Parse(file("format: libsvm"));
  REQUIRE(Features(svm) == Names{"features"});
  CHECK(svm.features[0].pooling == Pooling::kWeightedSum);
  CHECK(svm.features[0].weight_separator == ':');
  const std::string libffm = "format: libffm, libffm: {fields: 3}";
  CHECK(Features(Parse(file(libffm))) == Names{"field0", "field1", "field2"});
  CHECK(Tables(Parse(file(libffm))) == Names{"field0", "field1", "field2"});
  const ClusterConfig one =
      Parse(file(libffm, "features: [{name: f, column: field2, pooling: mean, modulo: 9}]\n"));
  REQUIRE(Features(one) == Names{"f"});
  CHECK(one.features[0].pooling == Pooling::kMean);
  CHECK(one.features[0].weight_separator == ':');
  CHECK(ErrorOf(file("format: libffm")) ==
        "sample.yaml:1: data.libffm.fields: missing; give the number of fields");
  CHECK(ErrorOf(file("format: libsvm, libffm: {fields: 3}")) ==
        "sample.yaml:1: data.libffm: has no effect with format: libsvm; remove it, or set format: "
        "libffm");
  CHECK(ErrorOf(file("format: libsvm, columns: [{name: y, kind: label}]")) ==
        "sample.yaml:1: data.columns: has no effect; remove it, or choose another format");
  CHECK(ErrorOf(file(libffm, "features: [{name: f, columns: [field0, field1]}]\n")) ==
        "sample.yaml:3: features.0.columns: not for indices with values; leave it out");
  CHECK(ErrorOf(file("format: libsvm", "features: [{name: features, quantiles: 3}]\n")) ==
        "sample.yaml:3: features.0.quantiles: not for indices with values; leave it out");
}

TEST_CASE("Daemons must agree on features and tables that are left out", "[config]") {
  const std::string one = ClusterAgreement(Parse(File(kTower)));
  CHECK(one == ClusterAgreement(Parse(File(kTower))));
  CHECK(one != ClusterAgreement(Parse(File(kTower, ", {name: c, kind: id}"))));
  CHECK(one == ClusterAgreement(Parse(File(kTower, ", {name: c, kind: skip}"))));
}

constexpr char kOnlyTower[] =
    "model: {towers: [{name: top, input: [dense, embeddings], layers: [{linear: 1}]}]}\n";

TEST_CASE("Processes must agree on models by name", "[config]") {
  // Models by name, which have no keys.
  const auto agreement = [](const char* model) {
    return ModelAgreement(Parse(File(absl::StrCat("model: ", model, "\n"))));
  };
  CHECK(agreement("deepfm") != agreement("wide_deep"));
  CHECK(agreement("dlrm") != agreement("dcn_v2"));
  CHECK(ClusterAgreement(Parse(File("model: deepfm\n"))) !=
        ClusterAgreement(Parse(File("model: dcn_v2\n"))));
}

TEST_CASE("Without instances there is one of each, on this machine", "[config]") {
  const ClusterConfig config = Parse(File(kOnlyTower));
  CHECK(config.name == "simurgh");
  REQUIRE(config.embedding_ps.instances.size() == 1);
  CHECK(config.embedding_ps.instances[0].address == "127.0.0.1:7401");
  CHECK(config.embedding_ps.instances[0].listen_key == "sample.yaml:1: embedding_ps.instances");
  REQUIRE(config.embedding_worker.instances.size() == 1);
  CHECK(config.embedding_worker.instances[0].address == "127.0.0.1:7411");
  REQUIRE(config.nn_worker.instances.size() == 1);
  CHECK(config.nn_worker.instances[0].address.empty());
  const std::string written =
      "cluster: {name: simurgh}\nembedding_ps: {instances: [{address: \"127.0.0.1:7401\"}]}\n"
      "embedding_worker: {instances: [{address: \"127.0.0.1:7411\"}]}\nnn_worker: {instances: "
      "[{}]}\n";
  CHECK(ClusterAgreement(Parse(File(kOnlyTower + written))) == ClusterAgreement(config));
  CHECK(ErrorOf(File(std::string(kOnlyTower) + "embedding_ps: {instances: []}\n")) ==
        "sample.yaml:3: embedding_ps.instances: has 0 elements; expected: list of 1 to 1024 "
        "mappings");
}

TEST_CASE("A model by its name has default layers", "[config]") {
  const std::string layers = ", deep: [{linear: 64}, relu, {linear: 32}, relu]}}\n";
  const auto towers = [](const std::string& sections) { return TowersText(Parse(File(sections))); };
  CHECK(towers("model: dcn_v2\n") == towers("model: {dcn_v2: {cross_layers: 3" + layers));
  CHECK(
      towers("model: dlrm\ntables: [{name: a, dim: 4}, {name: b, dim: 4}]\n") ==
      towers("model: {dlrm: {bottom: [{linear: 64}, relu, {linear: 4}, relu], top: [{linear: 64}, "
             "relu, {linear: 32}, relu]}}\ntables: [{name: a, dim: 4}, {name: b, dim: 4}]\n"));
  const std::string weights =
      "tables: [{names: [a, b]}, {names: [a_weight, b_weight], dim: 1, initializer: {kind: "
      "zero}}]\n"
      "features: [{name: a}, {name: b}, {name: a_weight, column: a}, {name: b_weight, column: "
      "b}]\n";
  for (const std::string model : {"deepfm", "wide_deep"}) {
    const std::string key = model == "deepfm" ? "first_order" : "wide";
    const ClusterConfig named = Parse(File("model: " + model + "\n"));
    const ClusterConfig written =
        Parse(File("model: {" + model + ": {" + key + ": [a_weight, b_weight]" + layers + weights));
    CHECK(TowersText(named) == TowersText(written));
    CHECK(Features(named) == Features(written));
    CHECK(Tables(named) == Tables(written));
    CHECK(named.tables[3].dim == 1);
    CHECK(named.tables[3].initializer.kind == InitializerConfig::Kind::kZero);
    CHECK(named.features[3].column == "b");
  }
  // Settings of a file's name, and overrides of its keys.
  CHECK(towers("model: dcn_v2\n") !=
        TowersText(Parse(File("model: dcn_v2\n"), {"model.dcn_v2.cross_layers=2"})));
  CHECK(towers("model: dcn_v2\n") == TowersText(Parse(File(kOnlyTower), {"model=dcn_v2"})));
}

TEST_CASE("Weights of the first order follow their features", "[config]") {
  const ClusterConfig config = Parse(File(
      "model: deepfm\n"
      "tables: [{name: a, capacity_rows: 77, optimizer: {kind: sgd}}, {name: b_weight, dim: 1}]\n"
      "features: [{name: b, pooling: raw, max_length: 3, mask: true}, {name: c, column: a, table: "
      "a}]\n"));
  CHECK(Features(config) == Names{"b", "c", "b_weight", "c_weight"});
  CHECK(Tables(config) == Names{"a", "b_weight", "b", "a_weight"});
  CHECK(config.features[2].pooling == Pooling::kSum);
  CHECK(config.features[2].mask_width() == 0);
  CHECK(config.features[2].processing.max_length == 3);
  CHECK(config.features[3].table == "a_weight");
  CHECK(config.tables[3].capacity_rows == 77);
  CHECK(config.tables[3].optimizer.kind == SparseOptimizerConfig::Kind::kFtrl);
  // One that is there is used.
  CHECK(Features(Parse(File(
            "model: deepfm\nfeatures: [{name: a}, {name: b}, {name: a_weight, column: a}]\n"
            "tables: [{name: a_weight, dim: 1}]\n"))) == Names{"a", "b", "a_weight", "b_weight"});
}

TEST_CASE("Errors of models by name", "[config]") {
  CHECK(ErrorOf(File("model: depfm\n")) ==
        "sample.yaml:2: model.depfm: unknown key; the nearest known key is 'deepfm'");
  CHECK(
      ErrorOf(File("model: deepfm\nfeatures: [{name: b, table: t}]\ntables: [{name: t, dim: 3}]\n"))
          .starts_with("sample.yaml:2: model.deepfm: feature 'b' has dim 3, 'a' has dim 8"));
  const std::string name(60, 'n');
  CHECK(ErrorOf(File("model: deepfm\n", ", {name: " + name + ", kind: id}")) ==
        "sample.yaml:2: model.deepfm: '" + name +
            "_weight' is too long a name; use a shorter name of the feature and table, or name "
            "features of the first order");
}

TEST_CASE("A deepfm attends to sequences, which have weights of the first order", "[config]") {
  const auto text = [](const std::string& attention, const std::string& rest = "mask: true") {
    return File(
        absl::StrCat("features: [{name: a}, {name: b, table: a, pooling: raw, max_length: 4, ",
                     rest, "}]\nmodel: {deepfm: {attention: [", attention, "]}}\n"));
  };
  const ClusterConfig config = Parse(text("{sequence: b, query: a}"));
  CHECK(Features(config) == Names{"a", "b", "a_weight", "b_weight"});
  CHECK(Tables(config) == Names{"a", "a_weight", "b_weight"});
  const auto tower = [&](const std::string& name) {
    return *std::ranges::find(config.model.towers, name, &TowerConfig::name);
  };
  CHECK(tower("attention_1").inputs == Names{"embeddings.a", "embeddings.b", "mask.b"});
  CHECK(tower("attention_1").layers[0].kind == LayerConfig::Kind::kAttention);
  CHECK(tower("second_order").inputs == Names{"embeddings.a", "attention_1"});
  CHECK(tower("deep").inputs == Names{"dense", "embeddings.a", "attention_1"});
  const auto error = [](const std::string& file) {
    const std::string message(ParseClusterConfig(file, kSamplePath, {}).status().message());
    return message.substr(message.find("model."));
  };
  CHECK(error(text("{sequence: a, query: b}")) ==
        "model.deepfm.attention.0.sequence: feature 'a' cannot be the sequence; name a sequence "
        "with pooling: raw and mask: true, and a query of another pooling");
  CHECK(error(text("{sequence: b, query: a}", "mask: false"))
            .starts_with("model.deepfm.attention.0.sequence: feature 'b' cannot be the sequence"));
  CHECK(error(text("{sequence: b, query: a}, {sequence: b, query: a}")) ==
        "model.deepfm.attention.1.sequence: 'b' is given twice; remove one");
  CHECK(error(text("{sequence: b, query: c}"))
            .starts_with("model.deepfm.attention.0.query: no feature is named 'c'"));
}

}  // namespace
}  // namespace simurgh
