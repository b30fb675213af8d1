// Reports of nn-workers about a run: staleness, labels and lost results; real daemons.

#include <chrono>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "tests/support/http_get.h"
#include "tests/support/test_cluster.h"

namespace simurgh::testing {
namespace {

using std::chrono_literals::operator""s;

constexpr size_t kRanks = 2;

// So the pull of step t > 2 sees all pushes but those of the three steps before it.
const std::vector<std::string> kOrdered{"training.reproducible=true", "training.staleness=4"};

// Runs a trainer in one process. Returns its exit code, its log and its stdout.
struct StandaloneRun {
  int code = -1;
  std::string log;
  std::string output;
};

// more: further arguments. output_is_lost: stdout is a full disk.
StandaloneRun RunOneProcess(const std::vector<std::string>& overrides,
                            const std::vector<std::string>& more = {},
                            bool output_is_lost = false) {
  const TemporaryFolder folder;
  const std::string log = folder.path() + "/log";
  if (output_is_lost) std::filesystem::create_symlink("/dev/full", log + ".out");
  std::vector<std::string> arguments{"--config", "config/adult-persia.yaml", "--standalone"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  for (const std::string& one : overrides) {
    arguments.emplace_back("--set");
    arguments.push_back(one);
  }
  DaemonProcess trainer("nn-worker", arguments, log);
  StandaloneRun run;
  run.code = trainer.Wait(kTrainerDeadline).value_or(-1);
  run.log = trainer.log();
  if (!output_is_lost) run.output = trainer.output();
  return run;
}

// Rows of the Adult data with this label.
std::string RowsOf(const std::string& label) {
  std::string rows;
  for (int row = 0; row < 300; ++row) {
    absl::StrAppend(&rows, 20 + row % 50,
                    ",Private,77516,Bachelors,13,Never-married,Sales,Husband,White,Male,0,0,40,"
                    "United-States,",
                    label, "\n");
  }
  return rows;
}

const std::vector<std::string> kTenSteps{"training.max_steps=10", "nn_worker.instances=[{}]"};

// Ten steps with a file of equal labels as data.KEY.
StandaloneRun RunOnOneClass(const std::string& key, const std::string& label) {
  const TemporaryFolder folder;
  std::vector<std::string> overrides = kTenSteps;
  overrides.push_back(
      absl::StrCat("data.", key, "=[\"", folder.Write("one_class.csv", RowsOf(label)), "\"]"));
  return RunOneProcess(overrides);
}

TEST_CASE("The AUC of a test set with one class is undefined, and the log says why") {
  const StandaloneRun run = RunOnOneClass("test", "<=50K");
  CAPTURE(run.log, run.output);
  CHECK(run.code == 0);
  CHECK_THAT(run.output, Catch::Matches("test_auc=undefined test_logloss=[0-9]+\\.[0-9]{4} "
                                        "samples_per_sec=[0-9]+\n"));
  CHECK_THAT(run.log,
             Catch::Contains("data.test has one class only, so the AUC is undefined; check the "
                             "label column and its texts: label=income samples=300 positives=0"));
  CHECK_THAT(run.log, !Catch::Contains("nan"));
}

TEST_CASE("Labels of one class are named in the log and in the result") {
  const StandaloneRun run = RunOnOneClass("train", ">50K.");
  CAPTURE(run.log, run.output);
  CHECK(run.code == 0);
  const std::string warning =
      "all 300 training labels of column 'income' that this rank read are 0; check the column, and "
      "`positive` "
      "if its labels are texts\n";
  CHECK_THAT(run.log, Catch::Contains(warning));
  CHECK_THAT(run.output, Catch::StartsWith("warning: " + warning) &&
                             Catch::Contains("\ntest_auc=0.") &&
                             Catch::Contains(" train_labels=one_class samples_per_sec="));
}

TEST_CASE("A training file that changes between two epochs ends the run") {
  const TemporaryFolder folder;
  const std::string file = folder.Write("train.csv", RowsOf("<=50K") + RowsOf(">50K"));
  DaemonProcess trainer(
      "nn-worker",
      {"--config", "config/adult-persia.yaml", "--standalone", "--set", "nn_worker.instances=[{}]",
       "--set", "data.train=[\"" + file + "\"]", "--set", "training.epochs=1000000", "--set",
       "training.progress_interval=20ms"},
      folder.path() + "/log");
  REQUIRE(trainer.WaitForLog("progress: ", 60s));
  std::filesystem::rename(folder.Write("shorter.csv", RowsOf("<=50K")), file);
  CHECK(trainer.Wait(kTrainerDeadline) == 3);
  CHECK_THAT(trainer.log(), Catch::Contains(file + " has changed during the run: size from ") &&
                                Catch::Contains("data.on_change: warn"));
}

TEST_CASE("A result that is lost is an error") {
  const StandaloneRun run = RunOneProcess(kTenSteps, {}, true);
  CAPTURE(run.log);
  CHECK(run.code == 3);
  CHECK_THAT(run.log, Catch::Contains("nn-worker: error: cannot write to stdout, its output is "
                                      "incomplete: No space left on device"));
}

// 0 where there is none (yet).
double ValueOf(const std::string& metrics, const std::string& series) {
  const size_t at = metrics.find("\n" + series + " ");
  return at == std::string::npos ? 0 : std::stod(metrics.substr(at + series.size() + 2));
}

TEST_CASE("Staleness is in the metrics of a run, and in its log") {
  TestCluster cluster({.ranks = kRanks, .overrides = kOrdered});
  std::vector<std::unique_ptr<DaemonProcess>> trainers;
  for (size_t rank = 0; rank < kRanks; ++rank) {
    trainers.push_back(
        cluster.StartTrainer({"training.epochs=100000", "training.progress_interval=50ms"}, rank));
  }
  for (const auto& trainer : trainers) {
    CAPTURE(trainer->log());
    REQUIRE(trainer->WaitForLog("staleness=3.0 ranks_staleness=6.0", 60s));
    const std::string metrics = HttpGet(trainer->metrics_address(), "/metrics");
    CAPTURE(metrics);
    const auto up_to = [&](const std::string& histogram, const std::string& bound) {
      return ValueOf(metrics,
                     absl::StrCat("simurgh_nn_", histogram, "_bucket{le=\"", bound, "\"}"));
    };
    // 0, 1, 2 at the first three steps, then 3.
    CHECK(up_to("staleness_steps", "1") == 2);
    CHECK(up_to("staleness_steps", "2") == 3);
    CHECK(up_to("staleness_steps", "4") > 3);
    CHECK(up_to("staleness_steps", "4") == up_to("staleness_steps", "+Inf"));
  }
}

}  // namespace
}  // namespace simurgh::testing
