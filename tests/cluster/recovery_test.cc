// Training that loses a process, or is started twice.

#include <algorithm>
#include <compare>
#include <csignal>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "model/model_directory.h"
#include "tests/cluster/tower_data.h"
#include "tests/cluster/train_command.h"
#include "tests/support/daemon_process.h"
#include "tests/support/model_path.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_cluster.h"
#include "tests/support/waiting.h"

namespace simurgh::testing {
namespace {

using Catch::Contains;

constexpr std::chrono::seconds kDeadline{60};

// "test_auc=... test_logloss=..."
std::string AucOf(const std::string& output) {
  return output.substr(0, output.find(" samples_per_sec"));
}

// What two models differ in; empty if in nothing.
std::string Difference(const std::string& a, const std::string& b) {
  const TemporaryFolder folder;
  DaemonProcess diff("simurgh", {"model", "diff", a, b}, folder.Path("log"));
  const auto code = diff.Wait(kDeadline);
  CHECK_THAT(diff.log(), Catch::Equals(""));
  return code == 0 ? diff.output()
                   : absl::StrCat("exit code ", code.value_or(-1), "\n", diff.output());
}

// Without rows of which only the number of uses differs: a pull counts twice if its answer was
// lost.
std::string DifferenceButUses(const std::string& a, const std::string& b) {
  static const std::regex kOnlyUses(R"(table \S+: \d+ rows differ only in uses, such as id \d+\n)");
  return std::regex_replace(Difference(a, b), kOnlyUses, "");
}

std::vector<std::string> Saving(const std::string& model, const std::string& mode) {
  std::vector<std::string> overrides{
      "checkpoint.directory=" + model, "checkpoint.every_steps=300",
      "training.max_steps=1500",       "training.epochs=100",
      "training.batch_size=32",        "training.progress_interval=50ms"};
  if (mode == "sync") {
    overrides.emplace_back("training.mode=sync");
  } else if (mode == "async") {
    // One batch between pull and push, so that it repeats.
    overrides.insert(overrides.end(), {"training.mode=async", "training.loader_queue_batches=1",
                                       "embedding_worker.forward_buffer_batches=3"});
  } else {
    overrides.insert(overrides.end(), {"training.staleness=4", "training.reproducible=true"});
  }
  return overrides;
}

struct Shape {
  std::string mode;
  size_t ranks;
  size_t loaders;

  auto operator<=>(const Shape&) const = default;
};

// A training without a loss, with its model.
struct Undisturbed {
  explicit Undisturbed(const Shape& shape) {
    TrainCommand command(Saving(ModelPath(folder, "model"), shape.mode), shape.ranks,
                         shape.loaders);
    CHECK(command->Wait(kTrainerDeadline) == 0);
    CAPTURE(command->log());
    output = command->output();
    CHECK_THAT(output, Contains("test_auc="));
  }

  const TemporaryFolder folder;
  std::string output;
};

// One training serves all cases of a shape.
const Undisturbed& UndisturbedOf(const Shape& shape) {
  static std::map<Shape, Undisturbed> trainings;
  return trainings.try_emplace(shape, shape).first->second;
}

TEST_CASE("A training that loses a process ends like one that does not") {
  struct Case {
    Shape shape;
    std::vector<std::pair<std::string, int>> killed;  // Programs and indices.
    std::string line;
  };
  const std::string trainers = "starting nn-workers and loaders again";
  const Case input = GENERATE_COPY(values<Case>(
      {{{"sync", 2, 2},
        {{"nn-worker", 0}},
        "nn-worker-0 was killed by signal 9 (Killed); " + trainers},
       {{"sync", 2, 2},
        {{"nn-worker", 1}},
        "nn-worker-1 was killed by signal 9 (Killed); " + trainers},
       {{"sync", 2, 2}, {{"embedding-ps", 1}}, "ended with code 4; " + trainers},
       {{"hybrid", 1, 0}, {{"embedding-ps", 0}}, "nn-worker-0 ended with code 4; " + trainers},
       {{"async", 1, 0}, {{"embedding-ps", 1}}, "nn-worker-0 ended with code 4; " + trainers},
       {{"hybrid", 1, 0}, {{"embedding-worker", 0}}, "embedding-worker-0 was killed by signal 9"},
       {{"hybrid", 1, 2}, {{"simurgh-feed", 1}}, "simurgh-feed-1 was killed by signal 9"},
       {{"hybrid", 1, 2},
        {{"nn-worker", 0}, {"embedding-ps", 1}, {"simurgh-feed", 0}},
        "nn-worker-0 was killed by signal 9 (Killed); " + trainers}}));
  CAPTURE(input.shape.mode, input.killed[0].first, input.killed[0].second);
  const Undisturbed& expected = UndisturbedOf(input.shape);
  const TemporaryFolder folder;
  const std::string model = ModelPath(folder, "model");
  TrainCommand command(Saving(model, input.shape.mode), input.shape.ranks, input.shape.loaders);
  REQUIRE(command->WaitForLog("saved the model: folder=" + model + "/step-300 ", kDeadline));
  // Together: one that is left would end by itself.
  std::vector<pid_t> killed;
  for (const auto& [program, index] : input.killed) killed.push_back(command.PidOf(program, index));
  for (const pid_t pid : killed) kill(pid, SIGKILL);
  CHECK(command->Wait(kTrainerDeadline) == 0);
  CAPTURE(command->log());
  CHECK_THAT(command->log(), Contains(input.line));
  CHECK(AucOf(command->output()) == AucOf(expected.output));
  CHECK_THAT(DifferenceButUses(ModelPath(expected.folder, "model"), model), Catch::Equals(""));
  CHECK(command.Processes().empty());
}

TEST_CASE("Two towers that lose a process end like those that do not") {
  const TemporaryFolder folder;
  const std::vector<std::string> data = TowerData(folder);
  const auto train = [&](const std::string& model) {
    std::vector<std::string> overrides = Saving(model, "sync");
    overrides.insert(overrides.end(), data.begin(), data.end());
    return std::make_unique<TrainCommand>(overrides, 2, 0, "logs", std::vector<std::string>{},
                                          "config/two-tower.yaml");
  };
  const auto whole = train(ModelPath(folder, "whole"));
  CHECK((*whole)->Wait(kTrainerDeadline) == 0);
  for (const auto& [program, index] : {std::pair("nn-worker", 1), std::pair("embedding-ps", 0)}) {
    CAPTURE(program);
    const std::string model = ModelPath(folder, program);
    const auto command = train(model);
    REQUIRE((*command)->WaitForLog("saved the model: folder=" + model + "/step-300 ", kDeadline));
    kill(command->PidOf(program, index), SIGKILL);
    CHECK((*command)->Wait(kTrainerDeadline) == 0);
    CAPTURE((*command)->log());
    CHECK_THAT((*command)->log(), Contains("starting nn-workers and loaders again"));
    CHECK_THAT(DifferenceButUses(ModelPath(folder, "whole"), model), Catch::Equals(""));
  }
}

TEST_CASE("A training that continues a delta ends like one with full checkpoints") {
  const Shape shape{"sync", 1, 0};
  const Undisturbed& expected = UndisturbedOf(shape);
  const TemporaryFolder folder;
  const std::string model = ModelPath(folder, "model");
  std::vector<std::string> overrides = Saving(model, shape.mode);
  overrides.insert(overrides.end(),
                   {"checkpoint.every_steps=0", "checkpoint.full_every=4", "checkpoint.keep=100",
                    "checkpoint.at_steps=[599, 600, 1000, 1498, 1499]"});
  TrainCommand command(overrides);
  REQUIRE(command->WaitForLog("saved the model: folder=" + model + "/step-600 ", kDeadline));
  kill(command.PidOf("embedding-ps", 0), SIGKILL);
  CHECK(command->Wait(kTrainerDeadline) == 0);
  CAPTURE(command->log());
  CHECK_THAT(command->log(), Contains("starting nn-workers and loaders again"));
  CHECK(AucOf(command->output()) == AucOf(expected.output));
  CHECK_THAT(Difference(ModelPath(expected.folder, "model"), model), Catch::Equals(""));
  ModelDirectory directory(model);
  CHECK(directory.Open(600)->manifest.parent->step == 599);
  const Manifest last = directory.Open(1500)->manifest;
  REQUIRE(last.parent.has_value());
  CHECK(last.parent->step == 1499);
  CHECK_THAT(Difference(model, model + "/step-1499"), Contains("rows differ"));
  DaemonProcess merge("simurgh", {"model", "merge", model, folder.Path("merged")},
                      folder.Path("log"));
  CHECK(merge.Wait(kDeadline) == 0);
  CHECK_THAT(merge.output(), Catch::Equals(folder.Path("merged/step-1500") + "\n"));
  CHECK_THAT(Difference(folder.Path("merged"), model), Catch::Equals(""));
}

TEST_CASE("A training that is lost before its first checkpoint begins anew") {
  const Shape shape{"sync", 1, 0};
  const Undisturbed& expected = UndisturbedOf(shape);
  const TemporaryFolder folder;
  TrainCommand command(Saving(ModelPath(folder, "model"), shape.mode));
  command.WaitForTraining();
  kill(command.PidOf("nn-worker", 0), SIGKILL);
  CHECK(command->Wait(kTrainerDeadline) == 0);
  CAPTURE(command->log());
  CHECK_THAT(command->log(), Contains("starting nn-workers and loaders again"));
  CHECK(AucOf(command->output()) == AucOf(expected.output));
  CHECK_THAT(Difference(ModelPath(expected.folder, "model"), ModelPath(folder, "model")),
             Catch::Equals(""));
}

TEST_CASE("Training continues from the checkpoint before one whose rows are damaged") {
  const Shape shape{"sync", 2, 2};
  const Undisturbed& expected = UndisturbedOf(shape);
  const TemporaryFolder folder;
  const std::string model = ModelPath(folder, "model");
  std::vector<std::string> overrides = Saving(model, shape.mode);
  overrides.emplace_back("training.max_steps=600");
  REQUIRE(TrainCommand(overrides, shape.ranks, shape.loaders)->Wait(kTrainerDeadline) == 0);
  const std::string rows = model + "/step-600/rows/education/1.safetensors";
  FileSystem& files = FileSystem::For(model);
  std::string bytes = files.ReadFile(rows, 1 << 30).value();
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  REQUIRE(files.WriteFile(rows, bytes).ok());

  overrides.back() = "training.max_steps=1500";
  TrainCommand command(overrides, shape.ranks, shape.loaders);
  CHECK(command->Wait(kTrainerDeadline) == 0);
  CAPTURE(command->log());
  CHECK_THAT(command->log(), Contains("starting nn-workers and loaders again") &&
                                 Contains("continuing: model=" + model + " step=300 "));
  CHECK_THAT(
      command.LogOf("nn-worker-0"),
      Contains(rows + ": tensor ") && Contains("renamed it to " + model + "/step-600.damaged"));
  CHECK(AucOf(command->output()) == AucOf(expected.output));
  CHECK_THAT(Difference(ModelPath(expected.folder, "model"), model), Catch::Equals(""));
}

// Whether the first start of training is saving.
bool Saves(const std::string& model) {
  const auto names = FileSystem::For(model).List(model);
  return names.ok() && std::ranges::any_of(*names, [](const std::string& name) {
           return name.ends_with(".tmp-1/");
         });
}

TEST_CASE("A process that is lost during the last save costs a new start and leaves no file") {
  const auto [program, index] =
      GENERATE(table<std::string, int>({{"embedding-ps", 1}, {"nn-worker", 0}}));
  CAPTURE(program);
  const Shape shape{"sync", 1, 0};
  const Undisturbed& expected = UndisturbedOf(shape);
  const TemporaryFolder folder;
  const std::string model = ModelPath(folder, "model");
  std::vector<std::string> overrides = Saving(model, shape.mode);
  overrides.insert(overrides.end(),
                   {"checkpoint.every_steps=1000000", "checkpoint.bandwidth=5000"});
  TrainCommand command(overrides);
  REQUIRE(Eventually([&] { return Saves(model) || !command->running(); }));
  kill(command.PidOf(program, index), SIGKILL);
  CHECK(command->Wait(kDeadline) == 0);
  CAPTURE(command->log());
  CHECK_THAT(command->log(), Contains(program == "nn-worker"
                                          ? "nn-worker-0 was killed by signal 9"
                                          : "nn-worker-0 ended with code 4; starting nn-workers"));
  CHECK(AucOf(command->output()) == AucOf(expected.output));
  std::vector<std::string> names = FileSystem::For(model).List(model).value();
  std::erase(names, "history.jsonl");  // A bucket does not list it.
  CHECK(names == std::vector<std::string>{"generation-2", "latest", "run", "step-1500/"});
}

TEST_CASE("A daemon that is lost while a stopped training saves costs at most the model") {
  const std::string lost = GENERATE("embedding-worker", "embedding-ps");
  CAPTURE(lost);
  const TemporaryFolder folder;
  const std::string model = ModelPath(folder, "model");
  std::vector<std::string> overrides = Saving(model, "hybrid");
  overrides.insert(overrides.end(), {"checkpoint.every_steps=0", "training.max_steps=100000000",
                                     "training.epochs=1000000", "checkpoint.bandwidth=5000"});
  TrainCommand command(overrides);
  command.WaitForTraining();
  command->Signal(SIGTERM);
  REQUIRE(Eventually([&] { return Saves(model) || !command->running(); }));
  kill(command.PidOf(lost, 0), SIGKILL);
  const int code = command->Wait(kDeadline).value_or(-1);
  CAPTURE(command->log());
  CHECK_THAT(command->log(),
             Contains(lost + "-0 was killed by signal 9 (Killed); starting it again"));
  if (lost == "embedding-worker") {
    CHECK(code == 0);
    CHECK(ModelDirectory(model).Latest().ok());
  } else {
    CHECK(code == 3);
    CHECK_THAT(command->log(), Contains("nn-worker-0 ended with code 4") &&
                                   Contains("training has ended, and its model is not saved") &&
                                   Contains("this server was restarted and has lost the rows"));
  }
  CHECK(command.Processes().empty());
}

TEST_CASE("With on_server_loss: partial only the lost server goes back") {
  const TemporaryFolder folder;
  const std::string model = ModelPath(folder, "model");
  std::vector<std::string> overrides = Saving(model, "sync");
  overrides.insert(overrides.end(), {"training.mode=hybrid", "training.staleness=4",
                                     "checkpoint.on_server_loss=partial"});
  TrainCommand command(overrides, /*ranks=*/2);
  REQUIRE(command->WaitForLog("saved the model: folder=" + model + "/step-300 ", kDeadline));
  kill(command.PidOf("embedding-ps", 1), SIGKILL);
  CHECK(command->Wait(kTrainerDeadline) == 0);
  CAPTURE(command->log(), command.LogOf("embedding-ps-1"));
  CHECK_THAT(command->log(),
             Contains("embedding-ps-1 was killed by signal 9 (Killed); starting it again") &&
                 !Contains("starting nn-workers and loaders again"));
  const std::string log = command.LogOf("embedding-ps-1");
  const std::string line = "loaded lost rows from the last checkpoint";
  const size_t first = log.find(line);
  REQUIRE(first != log.npos);
  CHECK(log.find(line, first + 1) == log.npos);
  CHECK(log.find("checkpoint=" + model + "/step-", first) != log.npos);
  CHECK(ModelDirectory(model).Latest()->checkpoint.manifest.step == 1500);
  CHECK(ModelDirectory(model).Latest()->checkpoint.manifest.generation == 1);
}

TEST_CASE("A daemon that is lost again and again ends the command") {
  const TemporaryFolder folder;
  TrainCommand command({"checkpoint.directory=" + ModelPath(folder, "model"),
                        "training.max_steps=100000000", "training.epochs=1000000",
                        "training.progress_interval=50ms", "training.retry_deadline=3s"});
  command.WaitForTraining();
  pid_t killed = 0;
  for (int i = 0; i < 4; ++i) {
    pid_t pid = killed;
    while (pid == killed) pid = command.PidOf("embedding-worker", 0);
    kill(killed = pid, SIGKILL);
  }
  CHECK(command->Wait(kDeadline) == 3);
  CHECK_THAT(command->log(),
             Contains("starting it again\n") && Contains("starting it again in 1 s\n") &&
                 Contains("starting it again in 2 s\n") &&
                 Contains("embedding-worker-0 was lost 4 times without a new checkpoint") &&
                 Contains("embedding-worker-0.log ends with:\n"));
  CHECK(command.Processes().empty());
}

TEST_CASE("A daemon that does not stop is killed") {
  TrainCommand command({"rpc.call_timeout=500ms", "training.max_steps=100000000",
                        "training.epochs=1000000", "training.progress_interval=50ms"});
  command.WaitForTraining();
  kill(command.PidOf("embedding-worker", 0), SIGSTOP);
  command->Signal(SIGTERM);
  CHECK(command->Wait(kDeadline) == 0);
  CHECK_THAT(command->log(),
             Contains("embedding-worker-0 has not ended 10500 ms after SIGTERM; killing it"));
  CHECK(command.Processes().empty());
}

TEST_CASE("A trainer that comes back after a newer start has taken over changes nothing") {
  const TemporaryFolder folder;
  const std::string model = ModelPath(folder, "model");
  // The undisturbed rows of the training.
  TestCluster alone({.overrides = Saving(folder.Path("alone"), "hybrid"), .digests = true});
  const TrainerOutcome expected = Finish(*alone.StartTrainer());
  REQUIRE(expected.exit_code == 0);
  const auto rows = alone.StopServersForDigests();

  TestCluster cluster({.overrides = Saving(model, "hybrid"), .digests = true});
  const auto paused = cluster.StartTrainer();
  REQUIRE(paused->WaitForLog("saved the model: folder=" + model + "/step-300 ", kDeadline));
  paused->Signal(SIGSTOP);
  const auto next = cluster.StartTrainer();
  REQUIRE(next->WaitForLog("training starts: ", kDeadline));
  paused->Signal(SIGCONT);
  CHECK(paused->Wait(kDeadline) == 3);
  CHECK_THAT(paused->log(), Contains("has taken over; stop this one") ||
                                Contains("must end and write no checkpoint"));
  const TrainerOutcome outcome = Finish(*next);
  CAPTURE(next->log());
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.network_digest == expected.network_digest);
  CHECK(outcome.test_auc == expected.test_auc);
  CHECK(ModelDirectory(model).Latest().value().checkpoint.manifest.generation == 2);
  CHECK_THAT(Difference(folder.Path("alone"), model), Catch::Equals(""));
  CHECK(cluster.StopServersForDigests() == rows);
}

TEST_CASE(
    "A server that stays away ends the nn-worker and its loaders with the code to start again") {
  const TemporaryFolder folder;
  const std::string model = ModelPath(folder, "model");
  std::vector<std::string> overrides = Saving(model, "sync");
  overrides.insert(overrides.end(), {"training.retry_deadline=2s", "rpc.call_timeout=1s"});
  TestCluster cluster({.loaders = 1, .overrides = overrides});
  auto loader = cluster.StartLoader(0);
  auto trainer = cluster.StartTrainer();
  REQUIRE(trainer->WaitForLog("saved the model: folder=" + model + "/step-300 ", kDeadline));
  cluster.server(1).Signal(SIGKILL);
  CHECK(trainer->Wait(kDeadline) == 4);
  CHECK_THAT(trainer->log(), Contains("embedding-ps 1"));
  CHECK(loader->Wait(kDeadline) == 4);

  REQUIRE(cluster.server(1).Wait(kDeadline).has_value());
  cluster.RestartServer(1);
  loader = cluster.StartLoader(0);
  trainer = cluster.StartTrainer();
  // A loader that lives on notices that its nn-worker is another one.
  REQUIRE(trainer->WaitForLog("training starts: ", kDeadline));
  trainer->Signal(SIGKILL);
  REQUIRE(trainer->Wait(kDeadline).has_value());
  trainer = cluster.StartTrainer();
  CHECK(loader->Wait(kDeadline) == 4);
  loader = cluster.StartLoader(0);
  const TrainerOutcome outcome = Finish(*trainer);
  CAPTURE(trainer->log());
  CHECK(outcome.exit_code == 0);
  CHECK(loader->Wait(kDeadline) == 0);
}

TEST_CASE("Ranks under separate supervisors recover together") {
  const size_t killed = GENERATE(0, 1);
  CAPTURE(killed);
  const TemporaryFolder folder;
  const std::string model = ModelPath(folder, "model");
  TestCluster cluster({.ranks = 2, .overrides = Saving(model, "sync")});
  auto trainers = cluster.StartTrainers(2);
  REQUIRE(trainers[0]->WaitForLog("saved the model: folder=" + model + "/step-300 ", kDeadline));
  trainers[killed]->Signal(SIGKILL);
  REQUIRE(trainers[killed]->Wait(kDeadline) == 128 + SIGKILL);
  // Its supervisor is the faster one.
  trainers[killed] = cluster.StartTrainer({}, killed);
  const size_t other = 1 - killed;
  CHECK(trainers[other]->Wait(kDeadline) == 4);
  trainers[other] = cluster.StartTrainer({}, other);
  // A rank that met another one before that had noticed the loss starts again, too.
  REQUIRE(Eventually([&] {
    bool trains = false;
    for (size_t rank = 0; rank < 2; ++rank) {
      const auto code = trainers[rank]->Wait(std::chrono::seconds(0));
      if (code == 4) trainers[rank] = cluster.StartTrainer({}, rank);
      trains = trains || !code || code == 4;
    }
    return !trains;
  }));
  CAPTURE(trainers[killed]->log(), trainers[other]->log());
  for (const auto& trainer : trainers) CHECK(trainer->Wait(std::chrono::seconds(0)) == 0);
  CHECK(ModelDirectory(model).Latest().value().checkpoint.manifest.generation >= 2);
}

}  // namespace
}  // namespace simurgh::testing
