// Checkpoints of real daemons while training goes on, and `simurgh checkpoint`.

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <regex>
#include <string>
#include <vector>

#include <fcntl.h>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "model/model_directory.h"
#include "model/model_report.h"
#include "tests/support/http_get.h"
#include "tests/support/skip.h"
#include "tests/support/small_file_system.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_cluster.h"

namespace simurgh::testing {
namespace {

using Catch::Contains;

constexpr std::chrono::seconds kDeadline{60};

Checkpoint Open(const std::string& model, uint64_t step) {
  return ModelDirectory(model).Open(step).value();
}

std::string ProbeOf(const Checkpoint& checkpoint) {
  return checkpoint.ReadText("probe.csv", 1 << 20).value();
}

// A cluster whose first nn-worker listens. Trains for long unless told otherwise.
struct Asked {
  explicit Asked(const std::vector<std::string>& overrides) : cluster(Options(overrides)) {}

  TestClusterOptions Options(const std::vector<std::string>& overrides) const {
    TestClusterOptions options{
        .config = "config/adult.yaml",
        .overrides = {"checkpoint.directory=" + model, "training.progress_interval=50ms"}};
    options.overrides.insert(options.overrides.end(), overrides.begin(), overrides.end());
    return options;
  }
  std::string Address() const {
    return absl::StrCat("nn_worker.instances=[{address: 'unix://", folder.path(),
                        "/nn.sock', metrics: '127.0.0.1:0'}]");
  }
  std::unique_ptr<DaemonProcess> Start(std::vector<std::string> overrides = {}) {
    overrides.push_back(Address());
    return cluster.StartTrainer(overrides);
  }
  // `simurgh checkpoint` with the configuration of the training.
  std::unique_ptr<DaemonProcess> Ask(std::vector<std::string> overrides = {},
                                     const std::vector<std::string>& options = {}) {
    overrides.insert(overrides.begin(), Address());
    std::vector<std::string> words = cluster.Arguments(overrides);
    words[0] = "checkpoint";  // In place of --config.
    words.insert(words.end(), options.begin(), options.end());
    return std::make_unique<DaemonProcess>(
        "simurgh", words, absl::StrCat(folder.path(), "/simurgh-", commands++, ".log"));
  }

  const TemporaryFolder folder;
  const std::string model = folder.path() + "/model";
  TestCluster cluster;
  int commands = 0;
};

const std::vector<std::string> kLong{"training.epochs=1000000"};

// Needs servers that keep the rows of the moment of the first call.
TEST_CASE("A checkpoint while training is the model of a training that ends there") {
  struct Case {
    size_t ranks;
    std::vector<std::string> overrides;
    bool standalone = false;  // The one that saves while training.
  };
  const Case input =
      GENERATE(Case{1, {"training.mode=sync"}, true}, Case{1, {"training.mode=sync"}},
               Case{1, {"training.staleness=4", "training.reproducible=true"}},
               Case{2, {"training.mode=sync"}});
  CAPTURE(input.ranks, input.overrides);
  const TemporaryFolder folder;
  const auto train = [&](const std::string& model, const std::vector<std::string>& more) {
    std::vector<std::string> overrides = input.overrides;
    overrides.insert(overrides.end(), more.begin(), more.end());
    overrides.push_back("checkpoint.directory=" + folder.path() + "/" + model);
    overrides.insert(overrides.end(), {"training.batch_size=64", "checkpoint.keep=10"});
    TestCluster cluster(
        {.config = "config/adult.yaml", .ranks = input.ranks, .overrides = overrides});
    const auto trainers = cluster.StartTrainers(input.ranks);
    for (const auto& trainer : trainers) {
      const TrainerOutcome outcome = Finish(*trainer);
      CAPTURE(trainer->log());
      REQUIRE(outcome.exit_code == 0);
    }
  };
  // The second one waits for the first one.
  train("whole", {"checkpoint.at_steps=[100, 101]", "training.max_steps=400"});
  for (const uint64_t step : {100, 101}) {
    CAPTURE(step);
    const std::string part = absl::StrCat("part-", step);
    // Cached rows are not used across a checkpoint.
    train(part, {step == 100 ? "checkpoint.at_steps=[]" : "checkpoint.at_steps=[100]",
                 absl::StrCat("training.max_steps=", step)});
    const Checkpoint whole = Open(folder.path() + "/whole", step);
    const Checkpoint ended = Open(folder.path() + "/" + part, step);
    CHECK(DescribeDifferences(whole, ended).value() == "");
    CHECK(ProbeOf(whole) == ProbeOf(ended));
    CHECK(ModelDirectory(folder.path() + "/whole")
              .Open(step)
              ->Verify([](auto&&...) {})
              .value()
              .empty());
  }
}

TEST_CASE("simurgh checkpoint saves while training goes on") {
  std::vector<std::string> overrides = kLong;
  overrides.emplace_back(GENERATE("training.mode=hybrid", "training.mode=async"));
  Asked asked(overrides);
  const auto trainer = asked.Start();
  REQUIRE(trainer->WaitForLog("progress: ", kDeadline));
  for (int i = 0; i < 2; ++i) {
    const auto command = asked.Ask();
    CHECK(command->Wait(kDeadline) == 0);
    CAPTURE(command->log(), trainer->log());
    const std::string output = command->output();
    REQUIRE(output.starts_with(asked.model + "/step-"));
    REQUIRE(output.back() == '\n');
    const auto found = ModelDirectory::Find(output.substr(0, output.size() - 1));
    REQUIRE(found.ok());
    CHECK_THAT(command->log(), Contains("simurgh: saved: rows="));
    const std::string metrics = HttpGet(trainer->metrics_address(), "/metrics");
    const Manifest& manifest = found->checkpoint.manifest;
    CHECK_THAT(metrics, Contains(absl::StrCat("simurgh_nn_checkpoint_step ", manifest.step, "\n")));
    CHECK_THAT(metrics, Contains(absl::StrCat("simurgh_nn_checkpoint_wait_seconds_count ", i + 1)));
    CHECK_THAT(metrics, Contains("simurgh_nn_checkpoint_generation 1\n"));
    CHECK_THAT(metrics, Contains("simurgh_nn_checkpoint_failures_total 0\n"));
  }
  trainer->Signal(SIGTERM);
  CHECK(Finish(*trainer).exit_code == 0);
  CHECK_THAT(trainer->log(), !Contains("[error]"));
}

TEST_CASE("A checkpoint whose predecessor is gone has all rows") {
  Asked asked({"training.epochs=1000000", "checkpoint.full_every=100"});
  const auto trainer = asked.Start();
  REQUIRE(trainer->WaitForLog("progress: ", kDeadline));
  const auto save = [&] {
    const auto command = asked.Ask();
    CHECK(command->Wait(kDeadline) == 0);
    CAPTURE(command->log(), trainer->log());
    REQUIRE(command->output().starts_with(asked.model + "/step-"));
    return command->output().substr(0, command->output().size() - 1);
  };
  std::filesystem::remove_all(save());
  const auto saved = ModelDirectory::Find(save());
  REQUIRE(saved.ok());
  CHECK_FALSE(saved->checkpoint.manifest.parent.has_value());
  CHECK(saved->checkpoint.Chain().ok());
  CHECK_THAT(trainer->log(), Contains("; saving all rows"));
  CHECK(ModelDirectory::Find(save())->checkpoint.manifest.parent.has_value());
  trainer->Signal(SIGTERM);
  CHECK(Finish(*trainer).exit_code == 0);
}

TEST_CASE("An older start ends once a newer one has taken over") {
  Asked asked({"training.epochs=1000000"});
  const auto trainer = asked.Start();
  REQUIRE(trainer->WaitForLog("progress: ", kDeadline));
  REQUIRE(ModelDirectory(asked.model).NewGeneration().ok());
  CHECK(asked.Ask()->Wait(kDeadline) == 3);
  CHECK(Finish(*trainer).exit_code == 3);
  CHECK_THAT(trainer->log(), Contains("generation 2 has begun; generation 1 must end"));
}

TEST_CASE("simurgh checkpoint says why it cannot save") {
  Asked asked(kLong);
  const auto refusal = [&](int code, std::vector<std::string> overrides = {}) {
    const auto command = asked.Ask(std::move(overrides));
    const int ended = command->Wait(kDeadline).value_or(-1);
    CAPTURE(command->log());
    CHECK(ended == code);
    CHECK(command->output().empty());
    return command->log();
  };
  CHECK_THAT(refusal(3), Contains("no training listens there") && Contains("without --standalone"));
  CHECK_THAT(refusal(2, {"nn_worker.instances=[{}]"}),
             Contains("nn_worker.instances.0.address: it is missing"));
  const auto trainer = asked.Start();
  REQUIRE(trainer->WaitForLog("progress: ", kDeadline));
  CHECK_THAT(refusal(2, {"cluster.seed=99"}), Contains("cluster.seed"));
  const auto command = asked.Ask({}, {"--directory", asked.folder.Path("other")});
  CHECK(command->Wait(kDeadline) == 3);
  CHECK_THAT(command->log(), Contains("--directory: training continues"));
}

// While a file is in place of the model's folder, nothing can be saved.
class Blocked {
 public:
  explicit Blocked(std::string model) : model_(std::move(model)) {
    std::ofstream(model_ + ".away") << "no folder";
    Exchange();
  }
  void End() { Exchange(); }

 private:
  // At once, so that no save finds neither.
  void Exchange() {
    REQUIRE(::renameat2(AT_FDCWD, model_.c_str(), AT_FDCWD, (model_ + ".away").c_str(),
                        RENAME_EXCHANGE) == 0);
  }

  const std::string model_;
};

TEST_CASE("A failed save of the end is repeated by simurgh checkpoint") {
  Asked asked({"training.batch_size=16", "training.epochs=1", "embedding_ps.run_timeout=3s"});
  const auto trainer = asked.Start();
  REQUIRE(trainer->WaitForLog("progress: ", kDeadline));
  Blocked blocked(asked.model);
  REQUIRE(trainer->WaitForLog("the servers keep the rows", kDeadline));
  CHECK_THAT(trainer->log(), Contains("Or stop this program") && Contains("evaluated: "));
  SECTION("which fails again as long as the cause is there") {
    const auto failing = asked.Ask();
    CHECK(failing->Wait(kDeadline) == 3);
    CHECK_THAT(failing->log(), Contains("is not saved: "));
    CHECK(trainer->running());
    blocked.End();
    const auto command = asked.Ask();
    CHECK(command->Wait(kDeadline) == 0);
    const TrainerOutcome outcome = Finish(*trainer);
    CHECK(outcome.exit_code == 0);
    CHECK_THAT(outcome.last_line, Contains("test_auc="));
    const Checkpoint saved = ModelDirectory(asked.model).Latest().value().checkpoint;
    CHECK(command->output() == saved.folder + "\n");
    CHECK(saved.manifest.metrics.contains("test_auc"));
  }
  SECTION("to another folder") {
    const std::string other = asked.folder.Path("other");
    const auto command = asked.Ask({}, {"--directory", other});
    CHECK(command->Wait(kDeadline) == 0);
    CAPTURE(command->log(), trainer->log());
    CHECK(Finish(*trainer).exit_code == 0);
    CHECK_THAT(trainer->log(), Contains("`simurgh checkpoint CONFIG --directory FOLDER`"));
    blocked.End();
    const Checkpoint saved = ModelDirectory(other).Latest().value().checkpoint;
    CHECK(command->output() == saved.folder + "\n");
    CHECK(
        ModelDirectory(other).Open(saved.manifest.step)->Verify([](auto&&...) {}).value().empty());
    // The training continues there.
    TestCluster cluster({.config = "config/adult.yaml",
                         .overrides = {"checkpoint.directory=" + other, "training.batch_size=16",
                                       "training.epochs=2"}});
    const auto next = cluster.StartTrainer();
    const TrainerOutcome outcome = Finish(*next);
    CAPTURE(next->log());
    CHECK(outcome.exit_code == 0);
    CHECK_THAT(next->log(),
               Contains(absl::StrCat("continuing: model=", other, " step=", saved.manifest.step)));
  }
  SECTION("whose rows no other run changes meanwhile") {
    const auto other = asked.cluster.StartTrainer({"checkpoint={}", "training.retry_deadline=4s"});
    CHECK(Finish(*other).exit_code != 0);
    CHECK_THAT(other->log(), Contains("trains here"));
    CHECK(trainer->running());
  }
  SECTION("unless a newer start takes over") {
    blocked.End();
    const auto next = asked.cluster.StartTrainer();
    CHECK(Finish(*trainer).exit_code == 3);
    CHECK_THAT(trainer->log(), Contains("generation 2, has taken over; stop this one"));
    CHECK(Finish(*next).exit_code == 0);
  }
  SECTION("unless a signal stops the trainer") {
    trainer->Signal(SIGTERM);
    CHECK(Finish(*trainer).exit_code == 3);
    CHECK_THAT(trainer->log(), Contains("training has ended, and its model is not saved"));
  }
}

// How a child ends.
enum Ending {
  kAsItShould,
  kNoMounts,
  kNotWaiting,
  kNotContinued,
  kBadMessage,
  kNotSaved,
  kNotEnded
};

// Saves to a disk of 1 MiB with 64 KiB free, while training and at its end, then to another one.
Ending SaveToFullDisk() {
  constexpr size_t kFree = 64 << 10;
  const TemporaryFolder disk;
  if (!MountSmallFileSystem(disk.path(), 1)) return kNoMounts;
  std::ofstream(disk.Path("filler")) << std::string((1 << 20) - kFree, 'x');
  const std::string model = disk.Path("model");
  Asked asked({"checkpoint.directory=" + model, "training.batch_size=64", "training.epochs=1",
               "checkpoint.at_steps=[400]"});
  const auto trainer = asked.Start();
  if (!trainer->WaitForLog("the servers keep the rows", kDeadline)) return kNotWaiting;
  std::string log = trainer->log();
  static const std::regex early(
      "the model of step 400 is not saved: [^\n]*: the disk is full: the checkpoint of step 400 "
      "needs [0-9]+ bytes, and [0-9]+ are free; [^\n]*; training continues\n");
  std::smatch continued;
  if (!std::regex_search(log, continued, early)) return kNotContinued;
  log = continued.suffix();
  static const std::regex line(
      ": the disk is full: the checkpoint of step [0-9]+ needs ([0-9]+) "
      "bytes, and ([0-9]+) are free; ");
  std::smatch numbers;
  if (!std::regex_search(log, numbers, line) || log.find(model + numbers.str()) == log.npos) {
    return kBadMessage;
  }
  const std::string other = asked.folder.Path("other");
  if (asked.Ask({}, {"--directory", other})->Wait(kDeadline) != 0) return kNotSaved;
  if (Finish(*trainer).exit_code != 0) return kNotEnded;
  // All files but the manifest, of all processes.
  const Checkpoint saved = ModelDirectory(other).Latest().value().checkpoint;
  uint64_t bytes = 0;
  for (const ModelFile& file : saved.manifest.files) bytes += file.bytes;
  const bool fits = std::stoull(numbers[1]) == bytes && std::stoull(numbers[2]) < kFree;
  return fits ? kAsItShould : kBadMessage;
}

TEST_CASE("A full disk at the end costs nothing: the error names the need, another disk saves") {
  const int ending = RunInChild(SaveToFullDisk);
  if (ending == kNoMounts) SIMURGH_SKIP("this process may not mount a file system");
  CHECK(ending == kAsItShould);
}

TEST_CASE("A failed save of the end is final for a trainer that does not listen") {
  Asked asked({"training.batch_size=16", "training.epochs=1"});
  const auto trainer = asked.cluster.StartTrainer();
  REQUIRE(trainer->WaitForLog("progress: ", kDeadline));
  const Blocked blocked(asked.model);
  CHECK(Finish(*trainer).exit_code == 3);
  CHECK_THAT(trainer->log(), Contains("training has ended, and its model is not saved"));
}

TEST_CASE("With on_error: stop, a save that fails ends training") {
  Asked asked({"checkpoint.on_error=stop", "checkpoint.every_steps=50", "training.epochs=1000000"});
  const auto trainer = asked.Start();
  REQUIRE(trainer->WaitForLog("saved the model: ", kDeadline));
  const Blocked blocked(asked.model);
  const TrainerOutcome outcome = Finish(*trainer);
  CHECK(outcome.exit_code == 3);
  CHECK_THAT(trainer->log(), Contains("the model of step ") && Contains("is not saved: "));
}

}  // namespace
}  // namespace simurgh::testing
