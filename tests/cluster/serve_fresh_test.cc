// `simurgh serve` beside a training that saves deltas.

#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "tests/cluster/model_server.h"
#include "tests/cluster/trained_model.h"
#include "tests/support/model_path.h"
#include "tests/support/waiting.h"
#include "tests/unit/model/model_files.h"

namespace simurgh::testing {
namespace {

using Catch::Contains;
using std::chrono_literals::operator""s;

constexpr char kX[] = R"({"instances": [{"item": "x"}]})";

// Trains without an end on lines of an item and a label, and saves often.
struct Training {
  explicit Training(const TemporaryFolder& place) : folder(place) {
    folder.Write("items.yaml", R"(cluster: {name: items}
embedding_ps: {instances: [{address: "127.0.0.1:7601"}]}
embedding_worker: {instances: [{address: "127.0.0.1:7611"}]}
nn_worker: {instances: [{}]}
tables: [{names: [item], dim: 16, optimizer: {kind: adagrad, learning_rate: 0.1}}]
features: [{name: item}]
data:
  train: [items.csv]
  columns: [{name: item, kind: id}, {name: label, kind: label}]
model: {towers: [{name: top, input: embeddings, layers: [{linear: 16}, relu, {linear: 1}]}]}
training: {batch_size: 50, epochs: 1000000, dense_optimizer: {kind: adam, learning_rate: 0.01}}
checkpoint: {keep: 1000}
)");
  }

  // files: of the data, a YAML list.
  void Start(const std::string& every, int full_every, const std::string& files = "[items.csv]") {
    process = std::make_unique<DaemonProcess>(
        "nn-worker",
        std::vector<std::string>{"--config", folder.Path("items.yaml"), "--standalone", "--set",
                                 absl::StrCat("checkpoint.every=", every), "--set",
                                 absl::StrCat("checkpoint.full_every=", full_every), "--set",
                                 "data.train=" + files, "--set", "checkpoint.directory=" + model},
        folder.Path("log"));
  }
  // Ends at a step, which is saved.
  void Stop() const {
    process->Signal(SIGTERM);
    const auto code = process->Wait(60s);
    INFO(process->log());
    REQUIRE(code == 0);
  }

  const TemporaryFolder& folder;
  const std::string model = ModelPath(folder, "model");
  std::unique_ptr<DaemonProcess> process;
};

TEST_CASE("A label that is flipped in the data changes the answer, until a roll-back") {
  const TemporaryFolder folder;
  Training training(folder);
  std::string lines;
  std::string flipped;
  for (int i = 0; i < 1'000; ++i) lines += "x,1\ny,0\n";
  for (int i = 0; i < 1'000'000; ++i) flipped += "x,0\ny,1\n";
  folder.Write("items.csv", lines);
  folder.Write("flipped.csv", flipped);
  ModelServer server(training.model);
  HttpAnswer answer;
  const auto predicts = [&](const std::function<bool(double)>& holds) {
    Await("the answer for x", [&] {
      INFO(server.process().log() << training.process->log());
      REQUIRE(training.process->running());
      answer = server.Predict(kX);
      return answer.code == 200 && holds(PredictionsOf(answer.body).at(0));
    });
    return VersionOf(answer.body);
  };
  const auto is_high = [](double p) { return p > 0.9; };
  const auto is_low = [](double p) { return p < 0.1; };
  const auto is_delta = [&](uint64_t step) {
    return ModelDirectory(training.model).Open(step).value().manifest.parent.has_value();
  };

  training.Start("1s", 1'000);
  const uint64_t old_step = predicts(is_high);
  const std::string old_body = answer.body;
  training.Stop();
  training.Start("1s", 1'000, "[items.csv, flipped.csv]");
  const uint64_t new_step =
      predicts([&](double p) { return is_low(p) && is_delta(VersionOf(answer.body)); });
  CHECK(new_step > old_step);

  // Back to the old labels, while training goes on.
  FileSystem& files = FileSystem::For(training.model);
  REQUIRE(files.WriteFile(training.model + "/pin", absl::StrCat(old_step, "\n")).ok());
  CHECK(predicts(is_high) == old_step);
  CHECK(answer.body == old_body);
  REQUIRE(files.Remove(training.model + "/pin").ok());
  CHECK(predicts(is_low) >= new_step);
  training.Stop();
  CHECK(server.Stop() == 0);
}

TEST_CASE("A trainer that is killed leaves answers of whole checkpoints") {
  const TemporaryFolder folder;
  Training training(folder);
  std::string lines;
  for (int i = 0; i < 20'000; ++i) {
    absl::StrAppend(&lines, i % 7 == 0 ? "x" : absl::StrCat("item", i), ",", i * i % 11 % 2, "\n");
  }
  folder.Write("items.csv", lines);
  const auto newest = [&] {
    return FileSystem::For(training.model).ReadFile(training.model + "/latest", 100).value_or("");
  };
  const unsigned seed = std::random_device()();
  CAPTURE(seed);
  std::mt19937 random(seed);
  ModelServer server(training.model);

  struct Seen {
    std::map<uint64_t, std::set<double>> predictions;  // By version.
    std::string wrong;
    std::atomic<uint64_t> newest = 0;  // The largest number after a wrong answer.
  };
  std::vector<Seen> all(2);
  std::vector<std::jthread> clients;
  const auto ask = [&](const std::stop_token& stop, Seen& seen) {
    while (!stop.stop_requested() && seen.wrong.empty()) {
      const HttpAnswer answer = server.Predict(kX);
      if (answer.code == 200) {
        const uint64_t version = VersionOf(answer.body);
        seen.predictions[version].insert(PredictionsOf(answer.body).at(0));
        seen.newest = version;
      } else {
        seen.wrong = absl::StrCat(answer.code, " ", answer.body);
        seen.newest = UINT64_MAX;
      }
    }
  };
  for (int kill = 0; kill < 10; ++kill) {
    const std::string before = newest();
    const uint64_t answered = all[0].newest;
    training.Start("100ms", 4);
    Await("a checkpoint", [&] {
      INFO(training.process->log());
      REQUIRE(training.process->running());
      return newest() != before;
    });
    if (kill == 0) {
      server.AwaitReady();
      for (Seen& seen : all) clients.emplace_back(ask, std::ref(seen));
    }
    Await("an answer of a newer one",
          [&] { return all[0].newest > answered || all[0].newest == UINT64_MAX; });
    Pause(std::chrono::microseconds(std::uniform_int_distribution<>(0, 400'000)(random)));
    training.process->Signal(SIGKILL);
    training.process->Wait(60s);
  }
  clients.clear();

  std::map<uint64_t, std::set<double>> predictions;
  for (const Seen& seen : all) {
    CHECK(seen.wrong == "");
    for (const auto& [version, found] : seen.predictions) {
      predictions[version].insert(found.begin(), found.end());
    }
  }
  CHECK(predictions.size() >= 10);
  // Each version's answers are those of its checkpoint.
  const std::string x = folder.Write("x.csv", "x\n");
  std::set<double> distinct;
  for (const auto& [version, found] : predictions) {
    CAPTURE(version);
    const CommandResult result = Simurgh(absl::StrCat(
        "predict --model ", training.model, " --step ", version, " --output - --input ", x));
    INFO(result.error);
    REQUIRE(result.exit_code == 0);
    const double wanted = std::stod(Lines(result.out).at(1));
    distinct.insert(wanted);
    for (const double p : found) CHECK(std::abs(p - wanted) <= 1e-6);
  }
  CHECK(distinct.size() >= predictions.size() / 2);  // So that mixed ones would be seen.
  // Nothing was refused: what has not been completed is not looked at.
  CHECK_THAT(server.process().log(), !Contains("is not used: "));
  CHECK(server.Stop() == 0);
}

}  // namespace
}  // namespace simurgh::testing
