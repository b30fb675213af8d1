// The best checkpoint of real daemons: kept, tested at the end and used by `simurgh predict`.

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "model/model_directory.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_cluster.h"
#include "tests/unit/model/command.h"
#include "tests/unit/model/model_files.h"

namespace simurgh::testing {
namespace {

using Catch::Contains;
using Catch::StartsWith;

constexpr std::chrono::seconds kDeadline{60};
const std::string kTestFile = "config/data/adult/adult.test.csv.zst";

// Training that is best long before its end.
std::vector<std::string> Overfitting(const std::string& model) {
  return {"training.epochs=8", "training.dense_optimizer.learning_rate=0.003",
          "data.validation=[data/adult/adult.test.csv.zst]", "checkpoint.directory=" + model,
          "checkpoint.keep=1"};
}

std::string Predict(const std::string& model, const std::string& more, int exit_code = 0) {
  const CommandResult result =
      RunCommand(absl::StrCat(std::getenv("SIMURGH_BIN_DIR"), "/simurgh predict --model ", model,
                              " --evaluate --input ", kTestFile, more.empty() ? "" : " ", more));
  CAPTURE(result.error);
  REQUIRE(result.exit_code == exit_code);
  if (exit_code != 0) return result.error;
  return result.out.substr(0, result.out.find('\n'));
}

// The step of the best evaluation that the log has.
uint64_t BestStepIn(const std::string& log, bool by_loss) {
  static const std::regex line(
      "validated: step=(\\d+) samples=\\d+ auc=([0-9.]+) log_loss=([0-9.]+)");
  uint64_t step = 0;
  double best = -1e9;
  for (std::sregex_iterator at(log.begin(), log.end(), line), end; at != end; ++at) {
    const double score = by_loss ? -std::stod((*at)[3]) : std::stod((*at)[2]);
    if (score > best) step = std::stoull((*at)[1]);
    best = std::max(score, best);
  }
  return step;
}

TEST_CASE("The best checkpoint is kept, tested and used for predictions") {
  struct Case {
    size_t ranks;
    std::vector<std::string> overrides;
    bool by_loss = false;
  };
  const Case input = GENERATE(
      Case{1, {"training.evaluate_every_steps=150", "training.staleness=4"}},
      Case{2,
           {"training.evaluate_every_epochs=1", "training.staleness=4",
            "training.reproducible=true"}},
      Case{1,
           {"training.evaluate_every_steps=150", "training.mode=sync",
            "training.early_stopping.patience=4", "training.early_stopping.metric=log_loss"},
           true});
  CAPTURE(input.ranks, input.overrides);
  const TemporaryFolder folder;
  const std::string model = folder.Path("model");
  std::vector<std::string> overrides = Overfitting(model);
  overrides.insert(overrides.end(), input.overrides.begin(), input.overrides.end());
  TestCluster cluster(
      {.config = "config/adult.yaml", .ranks = input.ranks, .overrides = overrides});
  const auto trainers = cluster.StartTrainers(input.ranks);
  TrainerOutcome outcome;
  for (const auto& trainer : trainers) {
    const TrainerOutcome one = Finish(*trainer);
    CAPTURE(trainer->log());
    REQUIRE(one.exit_code == 0);
    if (trainer == trainers[0]) outcome = one;
    CHECK(one.network_digest == outcome.network_digest);
  }
  ModelDirectory directory(model);
  const uint64_t last = directory.Latest().value().checkpoint.manifest.step;
  const uint64_t best = directory.BestStep().value().value();
  CAPTURE(trainers[0]->log(), best, last);
  REQUIRE(best < last);
  CHECK(*directory.Steps() == std::vector<uint64_t>{best, last});
  CHECK_THAT(ReadText(model + "/best"), Catch::StartsWith(absl::StrCat("step-", best, "\n")));
  CHECK(best == BestStepIn(trainers[0]->log(), input.by_loss));
  CHECK(directory.Open(best)->manifest.metrics.contains("validation_logloss"));
  CHECK_THAT(outcome.last_line,
             StartsWith(absl::StrCat(Predict(model, ""), " best_step=", best, " ")));
  CHECK(Predict(model, absl::StrCat("--step ", best)) == Predict(model, ""));
  const std::string newest = Predict(model, "--step latest");
  CHECK(newest == Predict(model, absl::StrCat("--step ", last)));
  CHECK(newest != Predict(model, ""));
  std::filesystem::remove_all(absl::StrCat(model, "/step-", best));
  CHECK_THAT(Predict(model, "", 3),
             Contains(absl::StrCat("there is no checkpoint of step ", best)) &&
                 Contains("use another --step"));
  CHECK(Predict(model, "--step latest") == newest);
}

TEST_CASE("Training that continues knows the best checkpoint of before") {
  const TemporaryFolder folder;
  const auto options = [&](const std::string& model) {
    std::vector<std::string> overrides = Overfitting(folder.Path(model));
    overrides.insert(overrides.end(), {"training.mode=sync", "training.evaluate_every_steps=150"});
    return TestClusterOptions{
        .config = "config/adult.yaml", .overrides = overrides, .digests = true};
  };
  struct Ended {
    TrainerOutcome outcome;
    std::map<std::string, uint64_t> rows;
    uint64_t best;
  };
  const auto finish = [&](TestCluster& cluster, const std::string& model) {
    const auto trainer = cluster.StartTrainer();
    Ended ended{.outcome = Finish(*trainer), .rows = {}, .best = 0};
    CAPTURE(trainer->log());
    REQUIRE(ended.outcome.exit_code == 0);
    ended.rows = cluster.StopServersForDigests();
    ended.best = ModelDirectory(folder.Path(model)).BestStep().value().value();
    return ended;
  };
  TestCluster whole(options("whole"));
  const Ended expected = finish(whole, "whole");
  const auto check = [&](const Ended& ended) {
    CHECK(ended.best == expected.best);
    CHECK(ended.outcome.test_auc == expected.outcome.test_auc);
    CHECK(ended.outcome.network_digest == expected.outcome.network_digest);
    CHECK(ended.rows == expected.rows);
  };

  TestCluster cluster(options("parts"));
  const auto trainer = cluster.StartTrainer();
  REQUIRE(
      trainer->WaitForLog(absl::StrCat("validated: step=", expected.best + 300, " "), kDeadline));
  trainer->Signal(SIGTERM);
  REQUIRE(Finish(*trainer).exit_code == 0);
  const auto step = [&] {
    return ModelDirectory(folder.Path("parts")).Latest().value().checkpoint.manifest.step;
  };
  CHECK(step() < ModelDirectory(folder.Path("whole")).Latest().value().checkpoint.manifest.step);
  cluster.StopServersForDigests();
  for (size_t server = 0; server < 2; ++server) cluster.RestartServer(server);
  check(finish(cluster, "parts"));
  // Nothing is left to train: the best one again. The servers begin with the newest.
  const uint64_t last = step();
  for (size_t server = 0; server < 2; ++server) cluster.RestartServer(server);
  check(finish(cluster, "parts"));
  CHECK(step() == last);
  // The servers begin with the best one, and have other rows when it is loaded again.
  for (size_t server = 0; server < 2; ++server) cluster.RestartServer(server);
  std::filesystem::remove_all(absl::StrCat(folder.Path("parts"), "/step-", last));
  check(finish(cluster, "parts"));
  CHECK(step() == last);
}

}  // namespace
}  // namespace simurgh::testing
