// `simurgh train` with real daemons.

#include "tests/cluster/train_command.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <vector>

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/daemon_process.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_cluster.h"
#include "tests/support/waiting.h"
#include "tests/unit/model/command.h"

namespace simurgh::testing {
namespace {

using Catch::Contains;
using Catch::EndsWith;
using Catch::Matches;
using Catch::StartsWith;

constexpr std::chrono::seconds kDeadline{120};

// Trains until a signal.
const std::vector<std::string> kLong{"training.max_steps=100000000", "training.epochs=1000000",
                                     "training.progress_interval=100ms"};

TEST_CASE("simurgh train prints the result, keeps the model and leaves nothing running") {
  const auto [ranks, loaders] = GENERATE(table<size_t, size_t>({{1, 0}, {2, 0}, {1, 2}}));
  CAPTURE(ranks, loaders);
  const TemporaryFolder folder;
  const std::string model = folder.Path("model");
  TrainCommand command({"checkpoint.directory=" + model}, ranks, loaders);
  CHECK(command->Wait(kDeadline) == 0);
  CAPTURE(command->log());
  CHECK_THAT(command->output(),
             Matches("test_auc=0\\.[0-9]{4} test_logloss=[0-9.]+ samples_per_sec=[0-9]+\n"));
  CHECK_THAT(command->log(), Contains("evaluated: step=20 "));
  CHECK(command.Processes().empty());
  CHECK_THAT(command.LogOf("embedding-ps-1"), Contains("exiting: code=0"));
  CHECK_FALSE(std::filesystem::exists(command.logs() + "/token"));
  DaemonProcess predict("simurgh",
                        {"predict", "--model", model, "--evaluate", "--input",
                         "config/data/adult/adult.test.csv.zst"},
                        folder.Path("predict.log"));
  CHECK(predict.Wait(kDeadline) == 0);
  CAPTURE(predict.log());
  std::string evaluated = predict.output();
  REQUIRE_THAT(evaluated, StartsWith("test_auc=0.") && Catch::EndsWith("\n"));
  evaluated.pop_back();
  CHECK_THAT(command->output(), StartsWith(evaluated + " "));
}

TEST_CASE("The results of a training and of a test are JSON objects") {
  const TemporaryFolder folder;
  const std::string model = folder.Path("model");
  TrainCommand command({"checkpoint.directory=" + model}, 1, 0, "logs", {"--json"});
  CHECK(command->Wait(kDeadline) == 0);
  const auto trained = nlohmann::json::parse(command->output());
  CHECK(trained["test_auc"] > 0.5);
  CHECK(trained["samples_per_sec"] > 0);
  std::vector<std::string> words{"predict",    "--model", model,
                                 "--evaluate", "--input", "config/data/adult/adult.test.csv.zst"};
  for (const bool json : {false, true}) {
    if (json) words.emplace_back("--json");
    DaemonProcess predict("simurgh", words, folder.Path(absl::StrCat("predict-", json)));
    CHECK(predict.Wait(kDeadline) == 0);
    if (!json) continue;
    const auto tested = nlohmann::json::parse(predict.output());
    CHECK(tested["test_auc"] == trained["test_auc"]);
    CHECK(tested["test_logloss"] == trained["test_logloss"]);
    CHECK(tested["rows"] == 16'281);
    CHECK(tested["bad_rows"] == 0);
  }
  DaemonProcess tasks(
      "simurgh", {"train", "config/adult-tasks.yaml", "--json", "--set", "training.max_steps=3"},
      folder.Path("tasks"));
  CHECK(tasks.Wait(kDeadline) == 0);
  const auto labels = nlohmann::json::parse(tasks.output())["labels"];
  REQUIRE(labels.size() == 2);
  for (const auto& label : labels) CHECK(label["test_auc"].is_number());
}

TEST_CASE("The folder of a run is for one command, its token for its user only") {
  TrainCommand command(kLong);
  command.WaitForTraining();
  const TemporaryFolder folder;
  DaemonProcess second("simurgh", {"train", "config/adult.yaml", "--logs", command.logs()},
                       folder.Path("log"));
  CHECK(second.Wait(kDeadline) == 2);
  CHECK_THAT(second.log(), Contains(command.logs() + ": another simurgh train uses it"));
  CHECK(std::filesystem::status(command.logs() + "/token").permissions() ==
        std::filesystem::perms(0600));
}

TEST_CASE("A daemon that is killed ends the command") {
  const auto [program, index, ranks, loaders] =
      GENERATE(table<std::string, int, size_t, size_t>({{"embedding-ps", 1, 1, 0},
                                                        {"embedding-worker", 0, 1, 0},
                                                        {"nn-worker", 1, 2, 0},
                                                        {"simurgh-feed", 1, 1, 2}}));
  CAPTURE(program);
  TrainCommand command(kLong, ranks, loaders);
  command.WaitForTraining();
  kill(command.PidOf(program, index), SIGKILL);
  CHECK(command->Wait(kDeadline) == 3);
  const std::string name = absl::StrCat(program, "-", index);
  CHECK_THAT(command->log(),
             Contains(absl::StrCat("simurgh: ", name, " was killed by signal 9 (Killed)")) &&
                 Contains(command.logs() + "/" + name + ".log ends with:\n"));
  const std::string log = command.LogOf(name);
  const size_t last_line = log.rfind('\n', log.size() - 2) + 1;
  CHECK_THAT(command->log(), Contains(log.substr(last_line)));
  CHECK(command->output().empty());
  CHECK(command.Processes().empty());
}

TEST_CASE("A server that is killed after the end of training fails nothing") {
  TrainCommand command({});
  const pid_t trainer = command.PidOf("nn-worker", 0);
  command->Signal(SIGSTOP);  // It sees both ends at once.
  const auto has_ended = [&] {
    return Contains(") Z ").match(ReadFile(absl::StrCat("/proc/", trainer, "/stat")));
  };
  REQUIRE(Eventually(has_ended));
  kill(command.PidOf("embedding-ps", 1), SIGKILL);
  command->Signal(SIGCONT);
  CHECK(command->Wait(kDeadline) == 0);
  CHECK_THAT(command->output(), Contains("test_auc="));
}

TEST_CASE("A signal stops the trainer, then the other daemons") {
  const int signal = GENERATE(SIGTERM, SIGINT, SIGHUP);
  TrainCommand command(kLong);
  command.WaitForTraining();
  command->Signal(signal);
  CHECK(command->Wait(kDeadline) == 0);
  CHECK(command->output().empty());
  CHECK_THAT(command.LogOf("nn-worker-0"), Contains("training was stopped before its end"));
  CHECK_THAT(command.LogOf("nn-worker-0"), !Contains("error"));
  CHECK_THAT(command.LogOf("embedding-ps-0"), Contains("exiting: code=0"));
  CHECK(command.Processes().empty());
}

TEST_CASE("A stop that cannot save the model is no success") {
  const TemporaryFolder folder;
  const std::string model = folder.path() + "/model";
  std::vector<std::string> overrides = kLong;
  overrides.push_back("checkpoint.directory=" + model);
  TrainCommand command(overrides);
  command.WaitForTraining();
  std::filesystem::rename(model, model + ".away");
  std::ofstream(model) << "no folder";
  command->Signal(SIGTERM);
  CHECK(command->Wait(kDeadline) == 3);
  CHECK_THAT(command->log(), Contains("nn-worker-0 ended with code 3") &&
                                 Contains("training has ended, and its model is not saved"));
  CHECK(command.Processes().empty());
}

TEST_CASE("A second signal kills the daemons") {
  TrainCommand command(kLong);
  command.WaitForTraining();
  kill(command.PidOf("nn-worker", 0), SIGSTOP);  // It cannot end by itself.
  command->Signal(SIGTERM);
  REQUIRE(command->WaitForLog("simurgh: stopping", kDeadline));
  command->Signal(SIGTERM);
  CHECK(command->Wait(kDeadline) == 130);
  CHECK(command.Processes().empty());
}

TEST_CASE("After SIGKILL of the command no daemon is left") {
  TrainCommand command(kLong);
  command.WaitForTraining();
  std::vector<int> daemons;  // File descriptors, which become readable at the end.
  for (const auto& [pid, line] : command.Processes()) {
    if (Contains(" --index ").match(line))
      daemons.push_back(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  }
  CHECK(daemons.size() == 4);
  command->Signal(SIGKILL);
  CHECK(command->Wait(kDeadline) == 128 + SIGKILL);
  for (const int daemon : daemons) {
    pollfd end{.fd = daemon, .events = POLLIN, .revents = 0};
    CHECK(poll(&end, 1, /*timeout=*/60'000) == 1);
    close(daemon);
  }
}

TEST_CASE("simurgh checkpoint saves a training of simurgh train, which continues a model") {
  const TemporaryFolder folder;
  const std::string model = folder.path() + "/model";
  std::vector<std::string> overrides = kLong;
  overrides.insert(overrides.end(), {"checkpoint.directory=" + model, "checkpoint.keep=9"});
  TrainCommand command(overrides);
  command.WaitForTraining();
  // Without the options of `simurgh train`: it needs no token file.
  std::vector<std::string> words{"checkpoint", command.words()[1]};
  for (size_t i = 2; i + 1 < command.words().size(); ++i) {
    if (command.words()[i] == "--set") {
      words.insert(words.end(), {"--set", command.words()[i + 1]});
    }
  }
  const bool json = GENERATE(false, true);
  if (json) words.emplace_back("--json");
  DaemonProcess checkpoint("simurgh", words, folder.Path("checkpoint.log"));
  CHECK(checkpoint.Wait(kDeadline) == 0);
  CAPTURE(checkpoint.log(), command.LogOf("nn-worker-0"));
  std::string saved = checkpoint.output();
  if (json) {
    const auto parsed = nlohmann::json::parse(saved);
    CHECK(parsed["rows"] > 0);
    CHECK(parsed["bytes"] > 0);
    saved = parsed["folder"].get<std::string>() + "\n";
  }
  REQUIRE_THAT(saved, StartsWith(model + "/step-"));
  saved.pop_back();
  command->Signal(SIGTERM);
  CHECK(command->Wait(kDeadline) == 0);
  CHECK(!std::filesystem::is_symlink(model + "/token"));

  TrainCommand next({"checkpoint.directory=" + folder.path() + "/next", "training.max_steps=1"}, 1,
                    0, "logs", {"--resume", saved});
  CHECK(next->Wait(kDeadline) == 0);
  CHECK_THAT(next.LogOf("nn-worker-0"), Contains("continuing: model=" + model));
}

TEST_CASE("A bad configuration exits with 2 before a daemon starts") {
  const auto [override, message] = GENERATE(table<std::string, std::string>({
      {"training.epochs=-1", "training.epochs: -1 is out of range"},
      {"embedding_ps.memory_budget=1", "memory_budget"},  // Checked by embedding-ps only.
      {"model.towers.2.layers=[{linear: 65536}, {linear: 65536}, {linear: 1}]",
       "weights"},  // Checked by nn-worker only.
  }));
  CAPTURE(override);
  TrainCommand command({override});
  CHECK(command->Wait(kDeadline) == 2);
  const std::string log = command->log();
  CAPTURE(log);
  CHECK_THAT(log, Contains(message));
  CHECK(std::count(log.begin(), log.end(), '\n') == 1);
  CHECK(command.Processes().empty());
  CHECK_FALSE(std::filesystem::exists(command.logs()));
}

TEST_CASE("A program that cannot check the configuration is named") {
  const TemporaryFolder folder;
  std::filesystem::copy(std::string(std::getenv("SIMURGH_BIN_DIR")) + "/simurgh",
                        folder.Path("simurgh"));
  const std::string program = folder.Write("embedding-ps", "#!/bin/sh\nkill -9 $$\n");
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  const CommandResult result = RunCommand(folder.Path("simurgh") + " train config/adult.yaml");
  CHECK(result.exit_code == 3);
  CHECK(result.error == "simurgh: embedding-ps --check-config was killed by signal 9 (Killed)\n");
}

TEST_CASE("Without --logs, the logs of a failed run are kept") {
  const TemporaryFolder folder;
  setenv("TMPDIR", folder.path().c_str(), /*replace=*/1);
  const bool fails = GENERATE(false, true);
  const std::vector<std::string> overrides{"checkpoint.directory=/proc/model"};
  TrainCommand command(fails ? overrides : std::vector<std::string>(), 1, 0, /*logs=*/"");
  unsetenv("TMPDIR");
  CHECK((command->Wait(kDeadline) != 0) == fails);
  CAPTURE(command->log());
  const bool kept =
      std::any_of(std::filesystem::directory_iterator(folder.path()), {}, [](const auto& entry) {
        return entry.path().filename().string().starts_with("simurgh-train-");
      });
  CHECK(kept == fails);
  if (fails) {
    CHECK_THAT(command->log(), Contains("simurgh: nn-worker-0 ended with code ") &&
                                   Contains("its log " + folder.path() + "/simurgh-train-"));
  }
}

// The lines of a terminal after an output.
std::vector<std::string> ScreenOf(const std::string& output) {
  std::vector<std::string> lines(1);
  size_t column = 0;
  for (size_t i = 0; i < output.size(); ++i) {
    std::string& line = lines.back();
    if (output.compare(i, 3, "\x1b[K") == 0) {
      line.resize(std::min(column, line.size()));
      i += 2;
    } else if (output[i] == '\r') {
      column = 0;
    } else if (output[i] == '\n') {
      lines.emplace_back();
      column = 0;
    } else {
      line.resize(std::max(line.size(), column + 1), ' ');
      line[column++] = output[i];
    }
  }
  return lines;
}

TEST_CASE("On a terminal, the last line is that of progress, until the result") {
  const TemporaryFolder folder;
  // A second or more, and the terminal gets a line each 100 ms.
  const std::vector<std::string> overrides{"training.max_steps=1000", "training.epochs=4",
                                           "training.progress_interval=10ms"};
  TrainCommand command(overrides);  // Also for its words, with free addresses.
  REQUIRE(command->Wait(kDeadline) == 0);
  // What is no terminal gets whole lines, of progress one every 10 s.
  CHECK_THAT(command->log(), Contains("main: progress: step=") && Contains(" of_steps=") &&
                                 !Contains("\r") && !Contains("\x1b"));
  std::string line = std::string(std::getenv("SIMURGH_BIN_DIR")) + "/simurgh";
  for (const std::string& word : command.words()) absl::StrAppend(&line, " \"", word, "\"");
  const std::string typescript = folder.Path("typescript");
  setenv("COMMAND", line.c_str(), /*replace=*/1);
  REQUIRE(std::system(("script -qec \"$COMMAND\" " + typescript + " > /dev/null").c_str()) == 0);
  const std::string output = ReadFile(typescript);
  CAPTURE(output);
  // Other lines of the log do not tear it: each begins in an erased line.
  const std::regex progress(
      "\r(step=[0-9]+/1000 samples_per_s=[0-9]+ loss=[0-9.]+ auc=[0-9.]+ eta=[0-9m]+s)\x1b\\[K");
  CHECK(std::distance(std::sregex_iterator(output.begin(), output.end(), progress), {}) > 1);
  CHECK_THAT(output, !Contains("progress: "));
  std::vector<std::string> screen = ScreenOf(output);
  std::erase_if(screen, [](const std::string& text) {
    return text.empty() || text.starts_with("Script ");  // Added by script(1).
  });
  REQUIRE(!screen.empty());
  CHECK_THAT(screen.back(),
             Matches("test_auc=0\\.[0-9]{4} test_logloss=[0-9.]+ samples_per_sec=[0-9]+"));
  screen.pop_back();
  for (const std::string& text : screen) CHECK_THAT(text, Matches("20[0-9]{2}-[^\x1b]*"));
}

TEST_CASE("Bad arguments of simurgh train exit with 2") {
  const auto [arguments, message] = GENERATE(table<std::vector<std::string>, std::string>({
      {{"train"}, "simurgh: train: CONFIG is missing"},
      {{"train", "nowhere.yaml"}, "simurgh: nowhere.yaml: No such file"},
      {{"train", "/dev/null"}, "simurgh: /dev/null is not a regular file"},
      {{"train", "config/adult.yaml", "--log"}, "simurgh: unrecognised option '--log'"},
      {{"train", "config/adult.yaml", "--refit"}, "simurgh: --refit requires"},
      {{"train", "config/adult.yaml", "more"}, "simurgh: unexpected argument 'more'"},
      {{"train", "config/adult.yaml", "--logs", "/proc/logs"}, "simurgh: --logs /proc/logs"},
  }));
  const TemporaryFolder folder;
  DaemonProcess command("simurgh", arguments, folder.Path("log"));
  CHECK(command.Wait(kDeadline) == 2);
  CHECK_THAT(command.log(), Catch::StartsWith(message));
  CHECK(command.output().empty());
}

}  // namespace
}  // namespace simurgh::testing
