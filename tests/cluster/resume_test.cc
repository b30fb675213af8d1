// Training that is stopped and continued ends like training that was not.

#include <csignal>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "model/model_directory.h"
#include "tests/cluster/tower_data.h"
#include "tests/support/model_path.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_cluster.h"

namespace simurgh::testing {
namespace {

constexpr std::chrono::seconds kDeadline{60};

using Digests = std::map<std::string, uint64_t>;

struct Ended {
  std::vector<std::string> networks;  // By rank.
  std::string test_auc;
  Digests rows;
};

// Waits for all ranks. Requires that they succeed.
Ended FinishAll(TestCluster& cluster, std::vector<std::unique_ptr<DaemonProcess>>& trainers) {
  Ended ended;
  for (const auto& trainer : trainers) {
    const TrainerOutcome outcome = Finish(*trainer);
    CAPTURE(trainer->log());
    REQUIRE(outcome.exit_code == 0);
    ended.networks.push_back(outcome.network_digest);
    ended.test_auc = outcome.test_auc;
  }
  ended.rows = cluster.StopServersForDigests();
  return ended;
}

void Restart(TestCluster& cluster) {
  for (size_t server = 0; server < 2; ++server) cluster.RestartServer(server);
}

// Stops the rank once it has trained for a while, and expects that all ranks stop.
void StopOne(std::vector<std::unique_ptr<DaemonProcess>>& trainers, size_t rank, int signal) {
  REQUIRE(trainers[rank]->WaitForLog("progress: ", kDeadline));
  trainers[rank]->Signal(signal);
  for (const auto& trainer : trainers) {
    const TrainerOutcome outcome = Finish(*trainer);
    CAPTURE(trainer->log());
    REQUIRE(outcome.exit_code == 0);
    CHECK_THAT(trainer->log(), Catch::Contains("training was stopped: steps="));
    CHECK(outcome.last_line.empty());
  }
}

uint64_t StepOf(const std::string& model) {
  return ModelDirectory(model).Latest().value().checkpoint.manifest.step;
}

TEST_CASE("Synchronous training continues to the bit") {
  struct Case {
    std::string config;
    size_t ranks;
    std::vector<std::string> overrides;
  };
  const Case input = GENERATE(
      Case{"config/adult.yaml",
           1,
           {"training.batch_size=16", "training.epochs=2", "data.shuffle=1000"}},
      Case{"config/adult.yaml",
           2,
           {"training.batch_size=16", "training.epochs=3", "training.evaluate_every_epochs=1",
            "data.validation=[data/adult/adult.test.csv.zst]", "training.early_stopping.patience=5",
            "training.dense_optimizer.schedule.warmup_steps=1500"}},
      Case{"config/two-tower.yaml", 2, {"training.batch_size=16", "training.epochs=2"}});
  CAPTURE(input.config, input.ranks);
  std::vector<std::string> overrides = input.overrides;
  overrides.insert(overrides.end(), {"training.mode=sync", "training.progress_interval=50ms"});
  const TemporaryFolder folder;
  if (input.config == "config/two-tower.yaml") {
    const std::vector<std::string> data = TowerData(folder);
    overrides.insert(overrides.end(), data.begin(), data.end());
  } else {
    overrides.emplace_back(
        "model.towers.2.layers=[{linear: 64}, relu, {dropout: 0.3}, {linear: 1}]");
  }
  const auto options = [&](const std::string& model) {
    std::vector<std::string> all = overrides;
    all.push_back("checkpoint.directory=" + ModelPath(folder, model));
    return TestClusterOptions{
        .config = input.config, .ranks = input.ranks, .overrides = all, .digests = true};
  };
  TestCluster whole(options("whole"));
  auto trainers = whole.StartTrainers(input.ranks);
  const Ended expected = FinishAll(whole, trainers);

  TestCluster cluster(options("parts"));
  const std::string model = ModelPath(folder, "parts");
  uint64_t step = 0;
  for (const int signal : {SIGTERM, SIGINT}) {
    trainers = cluster.StartTrainers(input.ranks);
    StopOne(trainers, input.ranks - 1, signal);
    CHECK(StepOf(model) > step);
    step = StepOf(model);
    cluster.StopServersForDigests();
    Restart(cluster);
  }
  CHECK(step < StepOf(ModelPath(folder, "whole")));
  trainers = cluster.StartTrainers(input.ranks);
  const Ended ended = FinishAll(cluster, trainers);
  CHECK(StepOf(model) == StepOf(ModelPath(folder, "whole")));
  CHECK(ended.networks == expected.networks);
  CHECK(ended.test_auc == expected.test_auc);
  CHECK(ended.rows == expected.rows);
}

TEST_CASE("With --fail-if-stopped, ranks end with 0 only at the end of training") {
  const TemporaryFolder folder;
  TestCluster cluster({.config = "config/adult.yaml",
                       .ranks = 2,
                       .overrides = {"training.progress_interval=50ms",
                                     "checkpoint.directory=" + ModelPath(folder, "model")}});
  const auto start = [&](size_t ranks) {
    std::vector<std::unique_ptr<DaemonProcess>> trainers;
    for (size_t rank = 0; rank < ranks; ++rank) {
      trainers.push_back(cluster.StartTrainer({}, rank, {"--fail-if-stopped"}));
    }
    return trainers;
  };
  auto trainers = start(1);
  REQUIRE(trainers[0]->WaitForLog("waiting for a peer: peer='nn-worker 1'", kDeadline));
  trainers[0]->Signal(SIGTERM);
  CHECK(trainers[0]->Wait(kDeadline) == 4);
  trainers = start(2);
  REQUIRE(trainers[1]->WaitForLog("progress: ", kDeadline));
  trainers[1]->Signal(SIGTERM);
  for (const auto& trainer : trainers) {
    CAPTURE(trainer->log());
    CHECK(trainer->Wait(kDeadline) == 4);
    CHECK_THAT(trainer->log(), Catch::Contains("training was stopped: steps="));
  }
  trainers = start(2);
  for (const auto& trainer : trainers) {
    CAPTURE(trainer->log());
    CHECK(trainer->Wait(kDeadline) == 0);
  }
  CHECK_THAT(trainers[0]->log(), Catch::Contains("continuing: model="));
}

TEST_CASE("Training that reads old rows continues like training that saved at that step") {
  const size_t ranks = GENERATE(1, 2);
  CAPTURE(ranks);
  const TemporaryFolder folder;
  const auto options = [&](const std::string& model) {
    return TestClusterOptions{
        .config = "config/adult.yaml",
        .ranks = ranks,
        .overrides = {"training.staleness=4", "training.reproducible=true", "training.epochs=1",
                      "training.batch_size=64", "training.loader_queue_batches=3",
                      "checkpoint.at_steps=[70, 71, 100]",
                      "checkpoint.directory=" + ModelPath(folder, model)},
        .digests = true};
  };
  const auto folders = [&](const std::string& model) {
    return ModelDirectory(ModelPath(folder, model)).Steps().value();
  };
  TestCluster whole(options("whole"));
  auto trainers = whole.StartTrainers(ranks);
  const Ended expected = FinishAll(whole, trainers);
  const uint64_t end = StepOf(ModelPath(folder, "whole"));
  CHECK(folders("whole") == std::vector<uint64_t>{100, end});

  TestCluster cluster(options("parts"));
  for (const std::string& end_of_part : {"71", "90"}) {
    trainers = cluster.StartTrainers(ranks, {"training.max_steps=" + end_of_part});
    FinishAll(cluster, trainers);
    Restart(cluster);
    // Only a checkpoint at a step where the whole run saved can equal it.
    if (end_of_part == "90") {
      CHECK(folders("parts") == std::vector<uint64_t>{71, 90});
      const std::string model = ModelPath(folder, "parts");
      REQUIRE(FileSystem::For(model).Remove(model + "/step-90").ok());
    }
  }
  trainers = cluster.StartTrainers(ranks);
  const Ended ended = FinishAll(cluster, trainers);
  CHECK(folders("parts") == std::vector<uint64_t>{100, end});
  CHECK(ended.networks == expected.networks);
  CHECK(ended.test_auc == expected.test_auc);
  CHECK(ended.rows == expected.rows);
}

TEST_CASE("Training on batches of loaders continues to the bit") {
  const TemporaryFolder folder;
  const auto options = [&](const std::string& model) {
    return TestClusterOptions{.config = "config/adult.yaml",
                              .loaders = 2,
                              .overrides = {"training.batch_size=16", "training.epochs=2",
                                            "training.mode=sync", "training.progress_interval=50ms",
                                            "checkpoint.directory=" + ModelPath(folder, model)},
                              .digests = true};
  };
  const auto start = [](TestCluster& cluster) {
    std::vector<std::unique_ptr<DaemonProcess>> loaders;
    loaders.push_back(cluster.StartLoader(0));
    loaders.push_back(cluster.StartLoader(1));
    return loaders;
  };
  TestCluster whole(options("whole"));
  auto loaders = start(whole);
  auto trainers = whole.StartTrainers(1);
  const Ended expected = FinishAll(whole, trainers);

  TestCluster cluster(options("parts"));
  loaders = start(cluster);
  trainers = cluster.StartTrainers(1);
  StopOne(trainers, 0, SIGTERM);
  for (const auto& loader : loaders) CHECK(loader->Wait(kDeadline) == 0);
  CHECK(StepOf(ModelPath(folder, "parts")) < StepOf(ModelPath(folder, "whole")));
  cluster.StopServersForDigests();
  Restart(cluster);
  loaders = start(cluster);
  // The path of a checkpoint, too.
  trainers.clear();
  trainers.push_back(cluster.StartTrainer(
      {}, 0,
      {"--resume", ModelDirectory(ModelPath(folder, "parts")).Latest().value().checkpoint.folder}));
  const Ended ended = FinishAll(cluster, trainers);
  CHECK(ended.networks == expected.networks);
  CHECK(ended.test_auc == expected.test_auc);
  CHECK(ended.rows == expected.rows);
}

TEST_CASE("A model that is trained is evaluated again, and trained on with more epochs") {
  const TemporaryFolder folder;
  const std::string model = folder.path() + "/model";
  TestCluster cluster({.config = "config/adult.yaml",
                       .overrides = {"checkpoint.directory=" + model, "training.mode=sync"},
                       .digests = true});
  const auto train = [&](const std::vector<std::string>& overrides) {
    const auto trainer = cluster.StartTrainer(overrides);
    const TrainerOutcome outcome = Finish(*trainer);
    CAPTURE(trainer->log());
    REQUIRE(outcome.exit_code == 0);
    return outcome;
  };
  const TrainerOutcome first = train({});
  const uint64_t steps = StepOf(model);
  const Digests rows = cluster.StopServersForDigests();
  Restart(cluster);
  const TrainerOutcome again = train({});
  CHECK(again.test_auc == first.test_auc);
  CHECK(again.network_digest == first.network_digest);
  CHECK(StepOf(model) == steps);
  CHECK(cluster.StopServersForDigests() == rows);
  Restart(cluster);
  train({"training.epochs=6"});
  CHECK(StepOf(model) == 2 * steps);
}

TEST_CASE("Training does not continue with another model, or over rows of another training") {
  const TemporaryFolder folder;
  const std::string model = folder.path() + "/model";
  TestCluster cluster({.config = "config/adult.yaml",
                       .overrides = {"checkpoint.directory=" + model, "training.max_steps=20"}});
  REQUIRE(Finish(*cluster.StartTrainer()).exit_code == 0);
  const auto refusal = [&](const std::vector<std::string>& overrides,
                           const std::vector<std::string>& more = {}) {
    const auto trainer = cluster.StartTrainer(overrides, 0, more);
    CHECK(Finish(*trainer).exit_code != 0);
    return trainer->log();
  };
  CHECK_THAT(refusal({"checkpoint.directory=" + ModelPath(folder, "other")}, {"--resume", model}),
             Catch::Contains("rows of another training; restart it"));
  CHECK_THAT(refusal({}, {"--resume", "never"}),
             Catch::Contains("has a model of step 20") && Catch::Contains("--resume auto"));
  CHECK_THAT(refusal({"tables.0.dim=4"}), Catch::Contains("tables.0.dim = 8 (the model), 4"));
  CHECK_THAT(refusal({"tables.0.optimizer.kind=sgd"}),
             Catch::Contains("tables.0.optimizer.kind = adagrad (the model), sgd (the config"));
  CHECK_THAT(refusal({"data.columns.0.mean=39"}),
             Catch::Contains("data.columns.0.mean = 38.581647 (the model), 39 (the config") &&
                 Catch::Contains("use the model's configuration, or another checkpoint.directory"));
  CHECK_THAT(refusal({"training.batch_size=64"}),
             Catch::Contains("training.batch_size = ") && Catch::Contains(", 64 (the config"));
  CHECK_THAT(refusal({}, {"--resume", ModelPath(folder, "none")}), Catch::Contains("/none"));
  CHECK(StepOf(model) == 20);
  // A newest checkpoint that is damaged costs a warning, if there is an older one.
  REQUIRE(Finish(*cluster.StartTrainer({"training.max_steps=30"})).exit_code == 0);
  FileSystem& files = FileSystem::For(model);
  const std::string manifest = model + "/step-30/manifest.json";
  const std::string cut = files.ReadFile(manifest, Manifest::kMaxBytes).value().substr(0, 100);
  REQUIRE(files.WriteFile(manifest, cut).ok());
  const auto trainer = cluster.StartTrainer({"training.max_steps=40"});
  CHECK(Finish(*trainer).exit_code == 0);
  CHECK_THAT(trainer->log(),
             Catch::Contains(" warn ") &&
                 Catch::Contains(model + "/step-30/manifest.json: the text is not JSON") &&
                 Catch::Contains("continuing: model=" + model + " step=20 "));
}

}  // namespace
}  // namespace simurgh::testing
