// `simurgh serve` recommends items by a model of two towers, and ranks them by another model.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/cluster/model_server.h"
#include "tests/cluster/trained_model.h"

namespace simurgh::testing {
namespace {

using Catch::Contains;
using Json = nlohmann::json;

constexpr int kItems = 150;
constexpr int kUsers = 40;

struct Item {
  std::string id;
  std::string shop;
  std::string color;
  std::string price;
};

struct User {
  std::string id;
  std::string age;
};

Item ItemOf(int i) {
  static constexpr const char* kColors[] = {"red", "green", "blue"};
  return {absl::StrCat("i", i), absl::StrCat("s", i % 7), kColors[i % 3],
          absl::StrCat(i * 13 % 40, ".5")};
}

User UserOf(int i) { return {absl::StrCat("u", i), absl::StrCat(20 + i * 7 % 50)}; }

std::string RowOf(const User& user) {
  return absl::StrCat(R"({"user": ")", user.id, R"(", "age": )", user.age, "}");
}

std::string BodyOf(const std::vector<User>& users, const std::string& more = "") {
  std::vector<std::string> rows;
  rows.reserve(users.size());
  for (const User& user : users) rows.push_back(RowOf(user));
  return absl::StrCat("{", more, more.empty() ? "" : ", ", "\"instances\": [",
                      absl::StrJoin(rows, ", "), "]}");
}

// A score of each item.
using Scores = std::map<std::string, double>;

struct Recommended {
  std::vector<std::string> ids;
  std::vector<double> scores;
};

std::vector<Recommended> RecommendedBy(const HttpAnswer& answer) {
  INFO(answer.body);
  REQUIRE(answer.code == 200);
  std::vector<Recommended> all;
  const Json body = Json::parse(answer.body);
  for (const Json& one : body["recommendations"]) {
    all.push_back(
        {one["ids"].get<std::vector<std::string>>(), one["scores"].get<std::vector<double>>()});
  }
  return all;
}

// Returns why these are not the k best of the scores, to 1e-5; an empty text if they are.
std::string WrongIn(const Recommended& found, const Scores& scores, size_t k) {
  std::vector<double> best;
  for (const auto& [id, score] : scores) best.push_back(score);
  std::ranges::sort(best, std::greater<>());
  best.resize(std::min(best.size(), k));
  if (found.ids.size() != best.size() || found.scores.size() != best.size()) {
    return absl::StrCat(found.ids.size(), " items instead of ", best.size());
  }
  for (size_t i = 0; i < best.size(); ++i) {
    const auto own = scores.find(found.ids[i]);
    if (own == scores.end()) return found.ids[i] + " must not be there";
    const double most = 1e-5 * std::max(1.0, std::abs(best[i]));
    if (std::abs(found.scores[i] - own->second) > most || std::abs(best[i] - own->second) > most) {
      return absl::StrCat(found.ids[i], " has ", found.scores[i], ", predicted is ", own->second,
                          ", the best is ", best[i]);
    }
    if (std::ranges::count(found.ids, found.ids[i]) != 1) return found.ids[i] + " is there twice";
  }
  return "";
}

// Data of users who like items, an item file, and models of both kinds.
struct Models {
  Models() {
    std::mt19937 random(5);
    std::string rows = "user,age,item,shop,price,click\n";
    for (int row = 0; row < 4'000; ++row) {
      const int user = static_cast<int>(random() % kUsers);
      const int item = static_cast<int>(random() % kItems);
      const bool likes = (user * 5 + item) % 7 < 2 || random() % 10 == 0;
      absl::StrAppend(&rows, UserOf(user).id, ",", UserOf(user).age, ",", ItemOf(item).id, ",",
                      ItemOf(item).shop, ",", ItemOf(item).price, ",", likes ? 1 : 0, "\n");
    }
    folder.Write("train.csv", rows);
    WriteItems(kItems);
  }

  // Replaces the file at once, as a program should.
  void WriteItems(int count) const {
    std::string rows = "color,item,price,shop\n";
    for (int i = 0; i < count; ++i) {
      const Item item = ItemOf(i);
      absl::StrAppend(&rows, item.color, ",", item.id, ",", item.price, ",", item.shop, "\n");
    }
    folder.Write("items.new", rows);
    std::filesystem::rename(folder.Path("items.new"), items);
  }

  // more: overrides.
  void Train(const std::string& model, const std::string& price, const std::string& network,
             int steps, std::vector<std::string> more = {}) const {
    const std::string config =
        folder.Write("train.yaml", absl::StrCat(R"(cluster: {name: shop}
embedding_ps: {instances: [{address: "127.0.0.1:7601"}]}
embedding_worker: {instances: [{address: "127.0.0.1:7611"}]}
nn_worker: {instances: [{}]}
tables: [{names: [user, item, shop], dim: 8, initializer: {low: -0.5, high: 0.5}, optimizer: {kind: adagrad, learning_rate: 0.1}}]
features: [{name: user}, {name: item}, {name: shop}]
data:
  format: csv
  train: [train.csv]
  csv: {header: true}
  columns: [{name: user, kind: id}, {name: age, kind: dense}, {name: item, kind: id}, {name: shop, kind: id}, {name: price, kind: )",
                                                price, R"(}, {name: click, kind: label}]
model: )",
                                                network, R"(
training: {batch_size: 64, epochs: 100, dense_optimizer: {kind: adam, learning_rate: 0.01}}
checkpoint: {keep: 100}
)"));
    more.push_back("checkpoint.directory=" + model);
    more.push_back(absl::StrCat("training.max_steps=", steps));
    const TrainerOutcome outcome = RunStandalone({.config = config, .overrides = std::move(more)});
    REQUIRE(outcome.exit_code == 0);
  }
  void TrainTowers(int steps, std::vector<std::string> more = {}) const {
    Train(towers, "skip",
          "{two_tower: {user: [user], item: [item, shop], layers: [{linear: 16}, relu], dim: 8, "
          "temperature: 0.2}}",
          steps, std::move(more));
  }
  void TrainRanker(int steps) const {
    Train(ranker, "dense",
          "{towers: [{name: top, input: [dense, embeddings], layers: [{linear: 16}, relu, {linear: "
          "1}]}]}",
          steps);
  }

  // Predicts each of the users with the items, by `simurgh predict`.
  std::vector<Scores> Predicted(const std::string& model, const std::vector<User>& users,
                                int count = kItems) const {
    std::string rows = "user,age,item,shop,price\n";
    for (const User& user : users) {
      for (int i = 0; i < count; ++i) {
        const Item item = ItemOf(i);
        absl::StrAppend(&rows, user.id, ",", user.age, ",", item.id, ",", item.shop, ",",
                        item.price, "\n");
      }
    }
    const std::string input = folder.Write("pairs.csv", rows);
    const std::string output = folder.Path("predicted.csv");
    const CommandResult result =
        Simurgh(absl::StrCat("predict --model ", model, " --input ", input, " --output ", output));
    INFO(result.error);
    REQUIRE(result.exit_code == 0);
    std::ifstream file(output);
    std::string line;
    std::getline(file, line);
    std::vector<Scores> all(users.size());
    for (Scores& scores : all) {
      for (int i = 0; i < count; ++i) {
        REQUIRE(std::getline(file, line));
        REQUIRE(absl::SimpleAtod(line, &scores[ItemOf(i).id]));
      }
    }
    return all;
  }

  const TemporaryFolder folder;
  const std::string items = folder.Path("items.csv");
  const std::string towers = folder.Path("model");
  const std::string ranker = folder.Path("ranker");
};

Scores Only(const Scores& scores, const std::function<bool(const Item&)>& keeps) {
  Scores kept;
  for (int i = 0; i < kItems; ++i) {
    const auto found = scores.find(ItemOf(i).id);
    if (found != scores.end() && keeps(ItemOf(i))) kept.insert(*found);
  }
  return kept;
}

void AwaitItems(const ModelServer& server, double items) {
  Await("the items are loaded", [&] { return server.Metric("simurgh_serve_items") == items; });
}

TEST_CASE("Recommended items are those of the highest predictions") {
  Models models;
  models.TrainTowers(60);
  const std::vector<User> users = {UserOf(0), UserOf(17), {"stranger", "33"}};
  const std::vector<Scores> scores = models.Predicted(models.towers, users);
  const std::string precision = GENERATE("f32", "int8");
  ModelServer server(models.towers, {"serving.item_precision=" + precision, "serving.item_id=item"},
                     {"--items", models.items});
  server.AwaitReady();
  INFO(server.process().log());

  SECTION("of all items") {
    for (const size_t k : {1, 10, kItems, kItems + 50}) {
      const auto found = RecommendedBy(server.Recommend(BodyOf(users, absl::StrCat("\"k\": ", k))));
      REQUIRE(found.size() == users.size());
      for (size_t user = 0; user < users.size(); ++user) {
        CHECK(WrongIn(found[user], scores[user], k).empty());
      }
    }
    CHECK(RecommendedBy(server.Recommend(BodyOf({users[0]})))[0].ids.size() == 10);
  }
  SECTION("without excluded items, and of some values") {
    const auto best = RecommendedBy(server.Recommend(BodyOf({users[0]}, "\"k\": 3")))[0].ids;
    const auto check = [&](const std::string& more, const std::function<bool(const Item&)>& keeps) {
      const auto found = RecommendedBy(server.Recommend(BodyOf({users[0]}, "\"k\": 20, " + more)));
      CHECK(WrongIn(found[0], Only(scores[0], keeps), 20).empty());
    };
    check(absl::StrCat("\"exclude\": [\"", absl::StrJoin(best, "\", \""), "\", \"unknown\"]"),
          [&](const Item& item) { return std::ranges::find(best, item.id) == best.end(); });
    check(R"("filter": {"color": "red"})", [](const Item& item) { return item.color == "red"; });
    check(R"("filter": {"color": ["red", "blue", "pink"], "shop": "s3"}, "exclude": ["i3"])",
          [](const Item& item) {
            return item.color != "green" && item.shop == "s3" && item.id != "i3";
          });
    check(R"("filter": {"color": []})", [](const Item&) { return false; });
  }
  SECTION("with errors that name the remedy") {
    const auto check = [&](const std::string& body, int code, const std::string& text) {
      const HttpAnswer answer = server.Recommend(body);
      INFO(body);
      CHECK(answer.code == code);
      CHECK_THAT(answer.body, Contains(text));
    };
    check(R"({"instances": [{"usr": "u1"}]})", 400, "unknown column; the nearest column is 'user'");
    check(R"({"instances": [{"item": "i1"}]})", 400, "unknown column");
    check(R"({"instances": [{"user": "u1"}], "k": 0})", 400, "k: is no whole number");
    check(R"({"instances": [{"user": "u1"}], "filter": {"colr": 1}})", 400,
          "column 'colr' is not in the item file; the nearest column is 'color'");
    check(R"({"instances": [{"user": "u1"}], "rank": true})", 400, "no ranking model");
    check(R"({"instances": [{"user": "u1"}], "candidates": 20})", 400, "for a ranking model");
    check(R"({"instances": [{"user": "u1", "age": "old"}]})", 400, "age");
    check(R"({"instances": []})", 400, "has no rows");
    check("no JSON", 400, "not JSON");
  }
  CHECK(server.Stop() == 0);
}

TEST_CASE("A model without items, or without two towers, recommends nothing") {
  Models models;
  models.TrainTowers(5);
  {
    ModelServer server(models.towers);
    server.AwaitReady();
    Await("the answer names the remedy", [&] {
      const HttpAnswer answer = server.Recommend(BodyOf({UserOf(1)}));
      return answer.code == 404 && Contains("give --items FILE").match(answer.body);
    });
    CHECK(server.Stop() == 0);
  }
  models.TrainRanker(5);
  std::filesystem::rename(models.ranker, models.folder.Path("other"));
  std::filesystem::remove_all(models.towers);
  std::filesystem::rename(models.folder.Path("other"), models.towers);
  ModelServer server(models.towers, {"serving.item_id=item"}, {"--items", models.items});
  server.AwaitReady();
  Await("the answer names the remedy", [&] {
    const HttpAnswer answer = server.Recommend(BodyOf({UserOf(1)}));
    return answer.code == 404 && Contains("model: two_tower").match(answer.body);
  });
  CHECK(server.Stop() == 0);
}

TEST_CASE("Without --items, the items of the model's data are used") {
  Models models;
  models.TrainTowers(20, {"data.items={files: [" + models.items + "], id: item}"});
  const std::vector<User> users = {UserOf(3)};
  const Scores scores = models.Predicted(models.towers, users)[0];
  std::filesystem::rename(models.items, models.folder.Path("elsewhere.csv"));
  ModelServer server(models.towers);
  Await("the reason names the file", [&] {
    const HttpAnswer answer = server.Get("/v2/health/ready");
    return answer.code == 503 && Contains("items.csv").match(answer.body);
  });
  CHECK(server.Predict(R"({"instances": [{"user": "u1", "item": "i1"}]})").code == 200);
  std::filesystem::rename(models.folder.Path("elsewhere.csv"), models.items);
  server.AwaitReady();
  const auto found = RecommendedBy(server.Recommend(BodyOf(users, "\"k\": 1000")));
  CHECK(WrongIn(found[0], scores, 1'000).empty());
  CHECK(server.Stop() == 0);
}

TEST_CASE("A change of the item file is used, and a bad file is not") {
  Models models;
  models.TrainTowers(30);
  const std::vector<User> users = {UserOf(3)};
  const Scores scores = models.Predicted(models.towers, users)[0];
  models.WriteItems(100);
  ModelServer server(models.towers, {"serving.item_id=item"}, {"--items", models.items});
  const auto find = [&] {
    return RecommendedBy(server.Recommend(BodyOf(users, "\"k\": 1000")))[0];
  };
  server.AwaitReady();
  CHECK(find().ids.size() == 100);

  models.WriteItems(kItems);
  AwaitItems(server, kItems);
  CHECK(WrongIn(find(), scores, 1'000).empty());

  // The same item twice.
  std::ofstream(models.items, std::ios::app) << "red,i5,1,s5\n";
  Await("the log names the item", [&] {
    return Contains("items not used").match(server.process().log()) &&
           Contains("i5").match(server.process().log());
  });
  CHECK(WrongIn(find(), scores, 1'000).empty());
  std::filesystem::remove(models.items);
  CHECK(WrongIn(find(), scores, 1'000).empty());
  models.WriteItems(50);
  AwaitItems(server, 50);
  CHECK(find().ids.size() == 50);
  CHECK(server.Stop() == 0);
}

TEST_CASE("Items beyond the memory budget are not used") {
  Models models;
  models.TrainTowers(5);
  ModelServer server(models.towers, {"serving.item_id=item", "serving.memory_budget=1000000"},
                     {"--items", models.items});
  server.AwaitReady();
  models.WriteItems(20'000);
  Await("the log names the budget", [&] {
    const std::string log = server.process().log();
    return Contains("items not used").match(log) && Contains("serving.memory_budget").match(log);
  });
  CHECK(RecommendedBy(server.Recommend(BodyOf({UserOf(1)}, "\"k\": 999")))[0].ids.size() == kItems);
  models.WriteItems(90);
  AwaitItems(server, 90);
  CHECK(server.Stop() == 0);
}

TEST_CASE("The server is not ready before it has the items, with the reason") {
  Models models;
  models.TrainTowers(5);
  std::filesystem::remove(models.items);
  ModelServer server(models.towers, {"serving.item_id=item"}, {"--items", models.items});
  Await("the reason names the file", [&] {
    const HttpAnswer answer = server.Get("/v2/health/ready");
    return answer.code == 503 && Contains("items.csv").match(answer.body);
  });
  CHECK(server.Recommend(BodyOf({UserOf(1)})).code == 503);
  models.WriteItems(10);
  server.AwaitReady();
  CHECK(RecommendedBy(server.Recommend(BodyOf({UserOf(1)}, "\"k\": 99")))[0].ids.size() == 10);
  CHECK(server.Stop() == 0);
}

TEST_CASE("While versions change, each answer is of one version") {
  Models models;
  models.TrainTowers(20);
  const std::vector<User> users = {UserOf(2), UserOf(9)};
  std::map<uint64_t, std::vector<Scores>> truths;
  truths[20] = models.Predicted(models.towers, users);
  ModelServer server(models.towers, {"serving.item_id=item"}, {"--items", models.items});
  server.AwaitReady();

  struct Seen {
    uint64_t version;
    std::vector<Recommended> found;
  };
  std::vector<std::vector<Seen>> seen(3);
  std::vector<std::string> failures(3);
  {
    std::vector<std::jthread> clients;
    for (size_t client = 0; client < seen.size(); ++client) {
      clients.emplace_back([&, client](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
          const HttpAnswer answer = server.Recommend(BodyOf(users, "\"k\": 30"));
          if (answer.code != 200) {
            failures[client] = answer.body;
            return;
          }
          Seen& one = seen[client].emplace_back(VersionOf(answer.body));
          const Json body = Json::parse(answer.body);
          for (const Json& user : body["recommendations"]) {
            one.found.push_back({user["ids"].get<std::vector<std::string>>(),
                                 user["scores"].get<std::vector<double>>()});
          }
        }
      });
    }
    for (const int step : {40, 60}) {
      models.TrainTowers(step);
      truths[static_cast<uint64_t>(step)] = models.Predicted(models.towers, users);
      Await("the new vectors are used",
            [&] { return server.Metric("simurgh_serve_items_step") == static_cast<double>(step); });
    }
  }
  std::map<uint64_t, size_t> answers;
  std::string wrong;
  for (size_t client = 0; client < seen.size(); ++client) {
    CHECK(failures[client].empty());
    for (const Seen& one : seen[client]) {
      ++answers[one.version];
      REQUIRE(truths.contains(one.version));
      for (size_t user = 0; user < users.size(); ++user) {
        const std::string problem = WrongIn(one.found[user], truths[one.version][user], 30);
        if (!problem.empty()) wrong = absl::StrCat("version ", one.version, ": ", problem);
      }
    }
  }
  CHECK(wrong.empty());
  CHECK(answers[20] > 0);
  CHECK(answers[40] > 0);
  CHECK(server.Stop() == 0);
}

TEST_CASE("A ranking model orders the candidates of two towers") {
  Models models;
  models.TrainTowers(60);
  models.TrainRanker(40);
  const std::vector<User> users = {UserOf(4), UserOf(11)};
  ModelServer server(models.towers, {"serving.item_id=item"},
                     {"--items", models.items, "--rank-model", models.ranker});
  server.AwaitReady();

  // The same by hand: candidates, then predictions of the pairs.
  const auto by_hand = [&](size_t candidates) {
    std::vector<Scores> ranked = models.Predicted(models.ranker, users);
    const auto nearest = RecommendedBy(
        server.Recommend(BodyOf(users, absl::StrCat("\"rank\": false, \"k\": ", candidates))));
    for (size_t user = 0; user < users.size(); ++user) {
      ranked[user] = Only(ranked[user], [&](const Item& item) {
        return std::ranges::find(nearest[user].ids, item.id) != nearest[user].ids.end();
      });
      REQUIRE(ranked[user].size() == candidates);
    }
    return ranked;
  };
  const auto check = [&](const std::string& more, size_t candidates, size_t k) {
    const std::vector<Scores> ranked = by_hand(candidates);
    const HttpAnswer answer = server.Recommend(BodyOf(users, more));
    CHECK_THAT(answer.body,
               Contains("\"model_version\":\"60\"") && Contains("\"rank_model_version\":"));
    const auto found = RecommendedBy(answer);
    for (size_t user = 0; user < users.size(); ++user) {
      CHECK(WrongIn(found[user], ranked[user], k).empty());
    }
    // One user alone, whose columns the rows share.
    const auto alone = RecommendedBy(server.Recommend(BodyOf({users[0]}, more)));
    CHECK(WrongIn(alone[0], ranked[0], k).empty());
  };
  check("\"k\": 5", 50, 5);
  check("\"k\": 7, \"candidates\": 20, \"rank\": true", 20, 7);

  const auto refuse = [&](const std::string& more, const std::string& text) {
    const HttpAnswer answer = server.Recommend(BodyOf(users, more));
    CHECK(answer.code == 400);
    CHECK_THAT(answer.body, Contains(text));
  };
  refuse("\"k\": 10, \"candidates\": 9", "is less than k, 10; use at least k");
  refuse("\"k\": 10, \"candidates\": 3000", "more rows than 4096");

  models.TrainRanker(80);  // It follows its own folder.
  Await("the new ranking model is used", [&] {
    return Contains("\"rank_model_version\":\"80\"")
        .match(server.Recommend(BodyOf(users, "\"k\": 5")).body);
  });
  check("\"k\": 5", 50, 5);

  CHECK_THAT(server.process().log(), !Contains("the ranking model reads"));
  models.folder.Write("items.new", "item,shop\ni1,s1\ni2,s2\n");
  std::filesystem::rename(models.folder.Path("items.new"), models.items);
  AwaitItems(server, 2);
  CHECK(server.Recommend(BodyOf(users, "\"k\": 2")).code == 200);
  CHECK_THAT(server.process().log(),
             Contains("the ranking model reads price, which the items and the towers' users lack"));
  CHECK(server.Stop() == 0);
}

}  // namespace
}  // namespace simurgh::testing
