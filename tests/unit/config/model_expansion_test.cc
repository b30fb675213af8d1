#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include <catch2/catch.hpp>

#include "config/retrieval.h"
#include "config/sections.h"
#include "tests/unit/config/sample.h"

namespace simurgh {
namespace {

using Lines = std::vector<std::string>;

// Features `user`, `item` of dim 4, and their histories of three places; a number `age`; two
// labels.
constexpr char kHistories[] = R"(cluster: {name: short, seed: 1}
tables: [{names: [user, item, shop], dim: 4}]
features:
  - {name: user}
  - {name: item}
  - {name: shop}
  - {name: seen, table: item, pooling: raw, max_length: 3, mask: true}
  - {name: shops, table: shop, pooling: raw, max_length: 3, mask: true}
data:
  format: csv
  train: [CMakeLists.txt]
  csv: {separator: ";"}
  columns:
    - {name: age, kind: dense}
    - {name: user, kind: id}
    - {name: item, kind: id}
    - {name: shop, kind: id}
    - {name: seen, kind: id, separator: "|"}
    - {name: shops, kind: id, separator: "|"}
    - {name: click, kind: label}
)";
constexpr char kSecondLabel[] = "    - {name: buy, kind: label}\n";

StatusOr<ClusterConfig> Parse(const std::string& model, bool has_second_label = false) {
  return ParseClusterConfig(
      absl::StrCat(kHistories, has_second_label ? kSecondLabel : "", "model: ", model, "\n"),
      kSamplePath, {});
}

// Each tower in one line: "name: inputs > layers", widths behind names.
Lines TowersOf(const std::string& model, bool has_second_label = false) {
  const auto config = Parse(model, has_second_label);
  INFO(config.status().ToString());
  REQUIRE(config.ok());
  Lines lines;
  for (const TowerConfig& tower : config->model.towers) {
    std::string line = absl::StrCat(tower.name, ": ", absl::StrJoin(tower.inputs, " "));
    for (const LayerConfig& layer : tower.layers) {
      absl::StrAppend(&line, " > ", NameOf(layer.kind));
      if (layer.width > 0) absl::StrAppend(&line, " ", layer.width);
    }
    lines.push_back(line);
  }
  return lines;
}

std::string ErrorOf(const std::string& model, bool has_second_label = false) {
  const auto config = Parse(model, has_second_label);
  REQUIRE_FALSE(config.ok());
  const std::string message(config.status().message());
  return message.substr(message.find(": ") + 2);
}

// The embeddings have 12 columns of ids, 24 of histories; `dense` has 1 number and 6 of masks.

TEST_CASE("A final_mlp is two gated streams and their fusion", "[config]") {
  CHECK(TowersOf("{final_mlp: {first: [{linear: 8}], second: [{linear: 8}], second_context: [user, "
                 "item], heads: 2}}") ==
        Lines{"first: dense embeddings > linear 8",
              "second_gate: embeddings.user embeddings.item > linear 64 > relu > linear 43 > gate",
              "second: dense embeddings second_gate > product 2 > linear 8",
              "click_pairs: first second > bilinear 2", "click_sum: first second > linear 1",
              "top: click_pairs click_sum > sum 1"});
  CHECK(TowersOf("final_mlp", true).back() ==
        "top: click_pairs click_sum buy_pairs buy_sum > sum 2");
  CHECK(ErrorOf("{final_mlp: {first: [{linear: 8}, relu], second: [{linear: 6}, relu]}}") ==
        "model.final_mlp.second: ends 6 wide, the first stream 8; end both streams with one width");
  CHECK(ErrorOf("{final_mlp: {heads: 5}}") ==
        "model.final_mlp.heads: do not divide the streams' width, 32; choose a divisor of it");
  CHECK(ErrorOf("{final_mlp: {first_context: [usr]}}") ==
        "model.final_mlp.first_context: no feature is named 'usr'; the nearest feature is 'user'");
}

TEST_CASE("A mask_net has blocks side by side or one after another", "[config]") {
  const Lines parallel =
      TowersOf("{mask_net: {blocks: 2, width: 5, mask_ratio: 0.5, deep: [relu]}}");
  CHECK(parallel ==
        Lines{"normalised_user: embeddings.user > layer_norm",
              "normalised_item: embeddings.item > layer_norm",
              "normalised_shop: embeddings.shop > layer_norm",
              "normalised_seen: embeddings.seen > layer_norm",
              "normalised_shops: embeddings.shops > layer_norm",
              "mask_1: dense embeddings > linear 22 > relu > linear 43",
              "block_1: dense normalised_user normalised_item normalised_shop normalised_seen "
              "normalised_shops mask_1 > product 2 > linear 5 > layer_norm > relu",
              "mask_2: dense embeddings > linear 22 > relu > linear 43",
              "block_2: dense normalised_user normalised_item normalised_shop normalised_seen "
              "normalised_shops mask_2 > product 2 > linear 5 > layer_norm > relu",
              "top: block_1 block_2 > relu > linear 1"});
  const Lines serial =
      TowersOf("{mask_net: {structure: serial, blocks: 2, width: 5, deep: [relu]}}");
  CHECK(Lines(serial.end() - 3, serial.end()) ==
        Lines{"mask_2: dense embeddings > linear 86 > relu > linear 5",
              "block_2: block_1 mask_2 > product 2 > linear 5 > layer_norm > relu",
              "top: block_2 > relu > linear 1"});
}

TEST_CASE("din and bst read each history for the feature of its table", "[config]") {
  const std::string top = "top: dense embeddings.user embeddings.item embeddings.shop ";
  CHECK(TowersOf("{din: {deep: [prelu]}}") ==
        Lines{"attention_1: embeddings.item embeddings.seen mask.seen > attention",
              "attention_2: embeddings.shop embeddings.shops mask.shops > attention",
              top + "attention_1 attention_2 > prelu > linear 1"});
  CHECK(TowersOf(
            "{din: {attention: [{sequence: [seen, shops], query: [item, shop]}], deep: [relu]}}") ==
        Lines{"attention_1: embeddings.item embeddings.shop embeddings.seen embeddings.shops "
              "mask.seen > attention",
              top + "attention_1 > relu > linear 1"});
  CHECK(TowersOf("{bst: {attention: [{sequence: seen, query: item}], blocks: 2, heads: 2, deep: "
                 "[relu]}}") ==
        Lines{"sequence_1: embeddings.seen mask.seen > self_attention 2",
              "sequence_1_2: sequence_1 mask.seen > self_attention 2",
              "attention_1: embeddings.item sequence_1_2 mask.seen > attention",
              top + "attention_1 embeddings.shops > relu > linear 1"});
  const auto config = Parse("din");
  REQUIRE(config.ok());
  CHECK(config->model.towers[0].layers[0].activation == LayerConfig::Kind::kDice);
  CHECK(ErrorOf("{din: {attention: [{sequence: user, query: item}]}}") ==
        "model.din.attention.0.sequence: feature 'user' cannot be the sequence; name a sequence "
        "with pooling: raw and mask: true, and a query of another pooling");
}

TEST_CASE("mmoe and ple mix experts for each label", "[config]") {
  CHECK(TowersOf("{mmoe: {experts: 2, expert: [{linear: 3}], deep: [relu]}}", true) ==
        Lines{"expert_1: dense embeddings > linear 3", "expert_2: dense embeddings > linear 3",
              "click_mix_gate: dense embeddings > linear 2 > softmax",
              "click_mix: click_mix_gate expert_1 expert_2 > mix 2",
              "click_deep: click_mix > relu > linear 1",
              "buy_mix_gate: dense embeddings > linear 2 > softmax",
              "buy_mix: buy_mix_gate expert_1 expert_2 > mix 2",
              "buy_deep: buy_mix > relu > linear 1", "top: click_deep buy_deep > sum 2"});
  const Lines ple = TowersOf(
      "{ple: {levels: 2, shared_experts: 1, task_experts: 1, expert: [{linear: 3}], deep: [relu]}}",
      true);
  CHECK(ple ==
        Lines{"level_1_shared_1: dense embeddings > linear 3",
              "level_1_click_1: dense embeddings > linear 3",
              "level_1_click_mix_gate: dense embeddings > linear 2 > softmax",
              "level_1_click_mix: level_1_click_mix_gate level_1_click_1 level_1_shared_1 > mix 2",
              "level_1_buy_1: dense embeddings > linear 3",
              "level_1_buy_mix_gate: dense embeddings > linear 2 > softmax",
              "level_1_buy_mix: level_1_buy_mix_gate level_1_buy_1 level_1_shared_1 > mix 2",
              "level_1_shared_mix_gate: dense embeddings > linear 3 > softmax",
              "level_1_shared_mix: level_1_shared_mix_gate level_1_shared_1 level_1_click_1 "
              "level_1_buy_1 > mix 3",
              "level_2_shared_1: level_1_shared_mix > linear 3",
              "level_2_click_1: level_1_click_mix > linear 3",
              "level_2_click_mix_gate: level_1_click_mix > linear 2 > softmax",
              "level_2_click_mix: level_2_click_mix_gate level_2_click_1 level_2_shared_1 > mix 2",
              "level_2_buy_1: level_1_buy_mix > linear 3",
              "level_2_buy_mix_gate: level_1_buy_mix > linear 2 > softmax",
              "level_2_buy_mix: level_2_buy_mix_gate level_2_buy_1 level_2_shared_1 > mix 2",
              "click_deep: level_2_click_mix > relu > linear 1",
              "buy_deep: level_2_buy_mix > relu > linear 1", "top: click_deep buy_deep > sum 2"});
}

TEST_CASE("An esmm multiplies the probabilities of two labels", "[config]") {
  CHECK(TowersOf("{esmm: {deep: [relu]}}", true) ==
        Lines{"click: dense embeddings > relu > linear 1",
              "conversion_after_click: dense embeddings > relu > linear 1",
              "conversion: click conversion_after_click > joint 2",
              "top: click conversion > sum 2"});
  CHECK(TowersOf("{esmm: {click: buy, conversion: click}}", true).back() ==
        "top: conversion click > sum 2");
  CHECK(ErrorOf("{esmm: {click: age}}", true) ==
        "model.esmm.click: no label column is named 'age'; use one of click, buy");
  CHECK(ErrorOf("{esmm: {}, loss: {kind: poisson}}", true) ==
        "model.esmm.conversion: the loss of 'click' is poisson, and the model multiplies "
        "probabilities; use the loss bce for both labels");
  for (const auto& [model, both] :
       {std::pair("esmm", false), {"{esmm: {click: buy, conversion: buy}}", true}}) {
    CAPTURE(model);
    CHECK(ErrorOf(model, both) ==
          "model.esmm.conversion: the model needs two labels, a click and a conversion; name both "
          "of data.columns with kind: label");
  }
}

TEST_CASE("The loss in_batch_softmax needs a dot of two vectors", "[config]") {
  const auto model = [](const std::string& top, const std::string& loss) {
    return absl::StrCat(
        "{towers: [{name: one, input: [dense, embeddings.user], layers: [{linear: 4}]}, {name: "
        "two, "
        "input: [embeddings.item], layers: [l2_norm]}, {name: top, ",
        top, "}], loss: {kind: in_batch_softmax", loss, "}}");
  };
  const std::string top = "input: [one, two], layers: [{dot: 4}]";
  const auto config = Parse(model(top, ", temperature: 0.1"));
  INFO(config.status().ToString());
  REQUIRE(config.ok());
  const LossConfig& loss = config->model.tasks.at(0).loss;
  CHECK(loss.kind == LossConfig::Kind::kInBatchSoftmax);
  CHECK(loss.temperature == 0.1F);
  CHECK(config->data.columns.back().label_values == ColumnConfig::LabelValues::kCounts);

  const std::string no_dot =
      "model.loss.kind: in_batch_softmax needs a last tower that is one dot of two vectors of one "
      "width; let it read a user's and an item's tower, with layers: [{dot: WIDTH}]";
  for (const char* const other :
       {"input: [one, two], layers: [{linear: 1}]", "input: [one, two], layers: [{dot: 2}, sum]",
        "input: [one, two], layers: [{dot: 4}, {linear: 1}]"}) {
    CAPTURE(other);
    CHECK(ErrorOf(model(other, "")) == no_dot);
  }
  CHECK(ErrorOf(model(top, ", temperature: 0")) ==
        "model.loss.temperature: 0 is out of range; use 1.2e-38 to 3.4e38");
  CHECK(ErrorOf(model(top, ", gamma: 1")) ==
        "model.loss.gamma: has no effect with kind: in_batch_softmax; remove it, or set kind: "
        "focal");
  CHECK(ErrorOf("{deepfm: {}, loss: {temperature: 2}}") ==
        "model.loss.temperature: has no effect with kind: bce; remove it, or set kind: "
        "in_batch_softmax");
  CHECK(Parse(model(top, "") + "\nnn_worker: {device: cuda}").ok());
  CHECK(ErrorOf(model(top, ", temperature: -0.1")) ==
        "model.loss.temperature: -0.1 is out of range; use 1.2e-38 to 3.4e38");
  CHECK(loss.correction == LossConfig::Correction::kLogQ);
  const auto plain = Parse(model(top, ", correction: none"));
  REQUIRE(plain.ok());
  CHECK(plain->model.tasks.at(0).loss.correction == LossConfig::Correction::kNone);
  CHECK(ErrorOf(model(top, ""), /*has_second_label=*/true) ==
        "model.loss.kind: in_batch_softmax supports one label only; keep one label column");
  for (const char* const files : {"data.test", "data.validation"}) {
    const auto tested =
        ParseClusterConfig(absl::StrCat(kHistories, "model: ", model(top, ""), "\n"), kSamplePath,
                           {absl::StrCat(files, "=[CMakeLists.txt]")});
    REQUIRE_FALSE(tested.ok());
    CHECK_THAT(std::string(tested.status().message()),
               Catch::EndsWith("model.loss.kind: in_batch_softmax is evaluated by rankings of all "
                               "items; name the items' files in data.items"));
  }
}

TEST_CASE("A two_tower has a tower for the user and one for the item", "[config]") {
  CHECK(TowersOf("{two_tower: {user: [user, seen, shops], item: [item, shop], layers: [{linear: "
                 "8}, relu], dim: 6}}") ==
        Lines{"user: dense embeddings.user embeddings.seen embeddings.shops > linear 8 > relu > "
              "linear 6 > l2_norm",
              "item: embeddings.item embeddings.shop > linear 8 > relu > linear 6 > l2_norm",
              "top: user item > dot 6"});
  CHECK(TowersOf("{two_tower: {user: [user, seen, shops, shop], item: [item], normalize: "
                 "false}}")[1] ==
        "item: embeddings.item > linear 64 > relu > linear 32 > relu > linear 32");
  CHECK(TowersOf("{two_tower: {user: [user, seen, shops, shop], item: [item], layers: [], dim: "
                 "6}}")[1] == "item: embeddings.item > linear 6 > l2_norm");
  const auto temperature = [](const std::string& more) {
    const auto config = Parse(
        absl::StrCat("{two_tower: {user: [user, seen, shops, shop], item: [item]", more, "}}"));
    REQUIRE(config.ok());
    CHECK(config->model.tasks.at(0).loss.kind == LossConfig::Kind::kInBatchSoftmax);
    return config->model.tasks.at(0).loss.temperature;
  };
  CHECK(temperature("") == 0.05F);
  CHECK(temperature(", normalize: false") == 1.0F);
  CHECK(temperature(", temperature: 0.2") == 0.2F);
  const auto plain =
      Parse("{two_tower: {user: [user, seen, shops, shop], item: [item], correction: none}}");
  REQUIRE(plain.ok());
  CHECK(plain->model.tasks.at(0).loss.correction == LossConfig::Correction::kNone);
}

TEST_CASE("Uniform negatives need items, and no statistics of a batch", "[config]") {
  const auto error = [](const std::string& more, const std::string& override) {
    const auto config = ParseClusterConfig(
        absl::StrCat(kHistories,
                     "model: {two_tower: {user: [user, seen, shops, shop], item: "
                     "[item], uniform_negatives: 8",
                     more, "}}\n"),
        kSamplePath, {override});
    return std::string(config.status().message());
  };
  const std::string items = "data.items=CMakeLists.txt";
  CHECK_THAT(
      error("", "training.batch_size=16"),
      Catch::EndsWith("model: uniform_negatives: data.items names no file to draw them from; "
                      "set data.items, or remove it"));
  CHECK_THAT(
      error(", layers: [{linear: 4}, batch_norm]", items),
      Catch::EndsWith("model: uniform_negatives: tower 'user' has a layer with statistics of "
                      "a batch; use layer_norm in place of batch_norm, and prelu in place "
                      "of dice"));
  CHECK(error("", items) == "");
}

TEST_CASE("The features of a two_tower are in one tower each", "[config]") {
  const auto error = [](const std::string& body) { return ErrorOf("{two_tower: {" + body + "}}"); };
  CHECK(ErrorOf("two_tower") ==
        "model.two_tower.user: names no feature; list the features of its tower");
  CHECK(error("user: [user, seen, shops, shop], item: []") ==
        "model.two_tower.item: names no feature; list the features of its tower");
  CHECK(error("user: [usr], item: [item]") ==
        "model.two_tower.user.0: no feature is named 'usr'; the nearest feature is 'user'");
  CHECK(error("user: [user, seen, shops, shop], item: [item, user]") ==
        "model.two_tower.item.1: feature 'user' is named in user, too; name it once");
  CHECK(error("user: [user, seen, user], item: [item]") ==
        "model.two_tower.user.2: feature 'user' is named in user, too; name it once");
  CHECK(error("user: [user, seen, shops], item: [item]") ==
        "model.two_tower.user: feature 'shop' is in neither tower; name it in user or item, or "
        "remove the feature");
  const std::string all = "{two_tower: {user: [user, seen, shops, shop], item: [item]}";
  CHECK(ErrorOf(all + ", loss: {kind: bce}}") ==
        "model.loss: conflicts with 'two_tower'; remove it");
  CHECK(ErrorOf(all + ", tasks: [{label: click, loss: {kind: bce}}]}") ==
        "model.two_tower.user: the loss of 'click' is bce; remove model.tasks; the loss is "
        "in_batch_softmax");
  CHECK(ErrorOf(all + "}", /*has_second_label=*/true) ==
        "model.loss.kind: in_batch_softmax supports one label only; keep one label column");
}

TEST_CASE("data.items needs two towers and one id column that names an item", "[config]") {
  const auto parse = [](const std::string& items, const std::string& model,
                        const std::string& format = "csv") {
    return ParseClusterConfig(
        absl::StrCat(kHistories, "  items: ", items, "\nmodel: ", model, "\n"), kSamplePath,
        {"data.format=" + format});
  };
  const auto error = [&](const std::string& items, const std::string& model) {
    const auto config = parse(items, model);
    REQUIRE_FALSE(config.ok());
    const std::string text(config.status().message());
    return text.substr(text.find("data."));
  };
  const std::string one = "{two_tower: {user: [user, seen, shops, shop], item: [item]}}";
  const std::string two = "{two_tower: {user: [user, seen, shops], item: [item, shop]}}";
  for (const char* const items :
       {"CMakeLists.txt", "[CMakeLists.txt]", "{files: [CMakeLists.txt]}"}) {
    CAPTURE(items);
    const auto config = parse(items, one);
    INFO(config.status().ToString());
    REQUIRE(config.ok());
    REQUIRE(config->data.items.files.size() == 1);
    CHECK(config->data.items.files[0] == "CMakeLists.txt");
    CHECK(config->data.items.id == "item");
  }
  CHECK(parse("{files: [CMakeLists.txt], id: title}", two)->data.items.id == "title");
  CHECK(Parse(one)->data.items.files.empty());
  CHECK(error("CMakeLists.txt", two) ==
        "data.items.id: missing; the item's tower reads several id columns: item, shop; name the "
        "one whose text names an item");
  CHECK(error("CMakeLists.txt", "deepfm") ==
        "data.items: the model's last tower is no dot of a user's and an item's tower; remove it, "
        "or set model: two_tower");
  CHECK_THAT(error("no.csv", one), Catch::StartsWith("data.items.files.0: "));
  CHECK(error("{id: item}", one) ==
        "data.items.files: missing; expected: list of 1 to 65536 paths of files");
  const auto config =
      ParseClusterConfig(absl::StrCat(kHistories, "model: ", one, "\n"), kSamplePath,
                         {"data.items=CMakeLists.txt", "data.items.id=shop"});
  REQUIRE(config.ok());
  CHECK(config->data.items.id == "shop");
  CHECK(config->data.items.top == std::vector<uint32_t>{10, 20, 100});
  CHECK(config->training.early_stopping.metric == EvaluationMetric::kNdcg);
  CHECK(parse("{files: [CMakeLists.txt], top: [1, 5]}", one)->data.items.top ==
        std::vector<uint32_t>{1, 5, 20});
  CHECK(error("{files: [CMakeLists.txt], top: [5, 5]}", one) ==
        "data.items.top: not in ascending order; order the lengths, each once");
  CHECK(error("{files: [CMakeLists.txt], top: [0]}", one) ==
        "data.items.top.0: '0' is not a length; expected: integers from 1 to 100000");
}

TEST_CASE("Evaluations of two towers are compared by a ranking's metric", "[config]") {
  const std::string model = "{two_tower: {user: [user, seen, shops, shop], item: [item]}}";
  const auto metric = [&](const std::string& of_model, const std::string& name) {
    return ParseClusterConfig(
        absl::StrCat(kHistories, "  items: CMakeLists.txt\n  validation: [CMakeLists.txt]\nmodel: ",
                     of_model, "\ntraining: {evaluate_every_epochs: 1}\n"),
        kSamplePath, {"training.early_stopping={patience: 1, metric: " + name + "}"});
  };
  for (const auto& [name, wanted] : {std::pair("ndcg@20", EvaluationMetric::kNdcg),
                                     {"recall@20", EvaluationMetric::kRecall},
                                     {"hit_rate@20", EvaluationMetric::kHitRate},
                                     {"mrr", EvaluationMetric::kMrr}}) {
    CAPTURE(name);
    const auto config = metric(model, name);
    INFO(config.status().ToString());
    REQUIRE(config.ok());
    CHECK(config->training.early_stopping.metric == wanted);
    CHECK(config->checkpoint.best_by == wanted);
    CHECK(ScoreOf(wanted, 0.5) == 0.5);
  }
  CHECK_THAT(std::string(metric(model, "auc").status().message()),
             Catch::Contains("auc is no metric of label 'click', whose loss is in_batch_softmax; "
                             "choose ndcg@20, recall@20, hit_rate@20 or mrr"));
  CHECK_THAT(ErrorOf("deepfm\ntraining: {early_stopping: {patience: 1, metric: mrr}}"),
             Catch::Contains("mrr is no metric of label 'click', whose loss is bce; choose another "
                             "metric, or set model: two_tower"));
}

TEST_CASE("A tower's columns are those of its features and earlier towers", "[config]") {
  const auto config = Parse("{two_tower: {user: [user, seen], item: [item, shop, shops]}}");
  REQUIRE(config.ok());
  const std::optional<TwoTowers> towers = TwoTowersOf(*config);
  REQUIRE(towers.has_value());
  CHECK(ColumnsOfTower(*config, towers->user) == Lines{"age", "user", "seen"});
  CHECK(ColumnsOfTower(*config, towers->item) == Lines{"item", "shop", "shops"});
  CHECK(ColumnsOfTower(*config, config->model.towers.back().name) ==
        Lines{"age", "user", "item", "shop", "seen", "shops"});
  CHECK_FALSE(TwoTowersOf(*Parse("deepfm")).has_value());
}

}  // namespace
}  // namespace simurgh
