#include <string>

#include <catch2/catch.hpp>

#include "config/sections.h"
#include "tests/unit/config/sample.h"

namespace simurgh {
namespace {

// The sample with another model, dim of the table of cities, and columns.
StatusOr<ClusterConfig> WithModel(const std::string& model, const std::string& city_dim = "16",
                                  const std::string& columns = "") {
  std::string text = kSample;
  const size_t begin = text.find("model:\n");
  text.replace(begin, text.find("training:\n") - begin, "model:\n  " + model + "\n");
  text.replace(text.find("dim: 4"), 6, "dim: " + city_dim);
  if (!columns.empty()) {
    const std::string age = "kind: dense, transform: log1p, mean: 2, stddev: 0.25, missing: -1";
    text.replace(text.find(age), age.size(), columns);
  }
  return ParseClusterConfig(text, kSamplePath, {});
}

// Without file and line.
std::string ErrorOf(const StatusOr<ClusterConfig>& config) {
  REQUIRE_FALSE(config.ok());
  const std::string message(config.status().message());
  return message.substr(message.find(": ") + 2);
}

constexpr char kDlrm[] = "dlrm: {bottom: [{linear: 16}, relu], top: [{linear: 8}]}";

}  // namespace

TEST_CASE("A dlrm needs dense columns, and one width for all vectors", "[config]") {
  CHECK(WithModel(kDlrm).ok());
  CHECK(ErrorOf(WithModel(kDlrm, "4")) ==
        "model.dlrm: feature 'bought' has dim 16, 'city' has dim 4; the vectors of the "
        "interaction have one width: give their tables one dim");
  CHECK(ErrorOf(WithModel("dlrm: {bottom: [{linear: 8}], top: [relu]}")) ==
        "model.dlrm.bottom: must end as wide as the embeddings, whose dim is 16; make {linear: 16} "
        "its last linear layer");
  CHECK(ErrorOf(WithModel("dlrm: {bottom: [relu], top: [relu]}")) ==
        "model.dlrm.bottom: must end as wide as the embeddings, whose dim is 16; make {linear: 16} "
        "its last linear layer");
  CHECK(ErrorOf(WithModel(kDlrm, "16", "kind: skip")) ==
        "model.dlrm.bottom: requires dense columns; add dense columns, or "
        "choose another model");
}

TEST_CASE("Features of the first order stand on tables of dim 1", "[config]") {
  for (const std::string model : {"deepfm: {first_order: ", "wide_deep: {wide: "}) {
    const std::string key = model.starts_with("deepfm") ? "deepfm.first_order" : "wide_deep.wide";
    const std::string rest = ", deep: [{linear: 4}, relu]}";
    CHECK(WithModel(model + "[city]" + rest, "1").ok());
    CHECK(ErrorOf(WithModel(model + "[city]" + rest)) ==
          "model." + key +
              ".0: its table 'city' has dim 16; give the feature a table of dim 1, "
              "one weight per id");
    CHECK(ErrorOf(WithModel(model + "[city, town]" + rest, "1")) ==
          "model." + key + ".1: no feature is named 'town'; use one of city, bought, seen, shop");
    CHECK(ErrorOf(WithModel(model + "[city, city]" + rest, "1")) ==
          "model." + key + ".1: 'city' repeats model." + key + ".0; use each name once");
  }
}

TEST_CASE("Tables of the first order may be there for another model", "[config]") {
  std::string text = kSample;
  const std::string names = "[item, shop]";
  text.replace(text.find(names), names.size(), "[item, item_weight, shop]");
  const auto config = ParseClusterConfig(text, kSamplePath, {});
  REQUIRE(config.ok());
  for (const TableConfig& table : config->tables) CHECK(table.name != "item_weight");
  CHECK(config->tables.size() == ParseClusterConfig(kSample, kSamplePath, {})->tables.size());
}

TEST_CASE("A dcn_v2 is one tower or three", "[config]") {
  const auto stacked = WithModel("dcn_v2: {cross_layers: 2, rank: 3, deep: [{linear: 4}]}");
  REQUIRE(stacked.ok());
  REQUIRE(stacked->model.towers.size() == 1);
  CHECK(stacked->model.towers[0].inputs == std::vector<std::string>{"dense", "embeddings"});
  CHECK(stacked->model.towers[0].layers.size() == 4);
  CHECK(stacked->model.towers[0].layers[1].rank == 3);
  const auto parallel =
      WithModel("dcn_v2: {structure: parallel, deep: [{linear: 4}]}", "4", "kind: skip");
  REQUIRE(parallel.ok());
  REQUIRE(parallel->model.towers.size() == 3);
  CHECK(parallel->model.towers[0].inputs == std::vector<std::string>{"embeddings"});
  CHECK(parallel->model.towers[0].layers.size() == 3);
  CHECK(parallel->model.towers[2].inputs == std::vector<std::string>{"cross", "deep"});
}

TEST_CASE("A network is described in one way", "[config]") {
  CHECK(WithModel("loss: {kind: focal}")->model.is_hosted());
  CHECK(ErrorOf(WithModel("initial_weights: CMakeLists.txt")) ==
        "model.towers: missing; set model: deepfm or another model of the reference, or describe "
        "the network by towers");
  CHECK(ErrorOf(WithModel(std::string(kDlrm) + "\n  dcn_v2: {deep: [relu]}")) ==
        "model.dcn_v2: conflicts with 'dlrm'; keep one of them");
  CHECK(ErrorOf(WithModel("dcn_v2: {deep: [relu]}\n  loss: {gamma: 1}")) ==
        "model.loss.gamma: has no effect with kind: bce; remove it, or set kind: focal");
}

TEST_CASE("Interactions in towers must fit their input", "[config]") {
  const auto tower = [](const std::string& input, const std::string& layers) {
    return "towers: [{name: top, input: " + input + ", layers: [" + layers + "]}]";
  };
  const auto without_dense = [](const std::string& model, const std::string& city_dim = "16") {
    return WithModel(model, city_dim, "kind: skip");
  };
  CHECK(without_dense(tower("embeddings", "{dot: 16}, {linear: 1}")).ok());
  CHECK(without_dense(tower("[embeddings.city, embeddings.shop]", "{fm: 16}, sum")).ok());
  CHECK(without_dense(tower("embeddings", "cross, {cross: {rank: 2}}, {linear: 1}")).ok());
  CHECK(
      ErrorOf(without_dense(tower("embeddings", "{dot: 16}, {linear: 1}"), "4")) ==
      "model.towers.0.layers.0: 52 columns are not a multiple of 16, at least 32; read embeddings "
      "of one dim and towers of this width, and set that width");
  CHECK(
      ErrorOf(without_dense(tower("embeddings.city", "{fm: 16}, sum"))) ==
      "model.towers.0.layers.0: 16 columns are not a multiple of 16, at least 32; read embeddings "
      "of one dim and towers of this width, and set that width");
  CHECK(
      ErrorOf(WithModel(tower("[dense, embeddings]", "{linear: 3}, cross, {linear: 1}"))) ==
      "model.towers.0.layers.1: cross on 3 columns in a tower that reads 65; move layers of other "
      "widths after it, or to another tower");
  CHECK(ErrorOf(without_dense(tower("[embeddings.town, embeddings.city]", "{linear: 1}"))) ==
        "model.towers.0.input.0: 'embeddings.town' is neither dense, embeddings nor an earlier "
        "tower; the nearest input is 'embeddings.seen'");
}

}  // namespace simurgh
