// Training that stops at any step and continues, with the same or with other numbers of processes.

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include <catch2/catch.hpp>

#include "base/random.h"
#include "model/model_directory.h"
#include "tests/support/test_cluster.h"
#include "tests/unit/data/data_files.h"

namespace simurgh::testing {
namespace {

using Daemons = std::vector<std::unique_ptr<DaemonProcess>>;
using Digests = std::map<std::string, uint64_t>;

constexpr uint64_t kRows = 500;
constexpr uint32_t kEpochs = 2;

// A small data set with bad rows, in a plain and a gzip file. Each row has an id of its own.
class Data {
 public:
  Data() {
    Random random(1);
    std::string files[2];
    for (uint64_t row = 0; row < kRows; ++row) {
      const bool bad = random.Below(10) == 0;
      absl::StrAppend(&files[row * 3 / kRows / 2], random.Below(2), ",", bad ? "?" : "",
                      random.Below(50), ",row", row, ",shop", random.Below(40), "\n");
    }
    const std::string first = folder_.Write("first.csv", files[0]);
    const std::string second = folder_.Write("second.csv.gz", Gzip(files[1]));
    config_ = folder_.Write("small.yaml", absl::StrCat(R"(
cluster: {name: small, seed: 1}
embedding_ps: {partitions: 2, instances: [{address: "127.0.0.1:1"}]}
embedding_worker: {instances: [{address: "127.0.0.1:2"}]}
nn_worker: {threads: 1, instances: [{address: "127.0.0.1:3"}]}
tables:
  - {name: row, dim: 4}
  - {name: shop, dim: 4}
features: [{name: row}, {name: shop}]
data:
  train: [')",
                                                       first, "', '", second, R"(']
  on_bad_row: skip
  max_bad_share: 1
  csv: {columns: [{name: label, kind: label}, {name: age, kind: dense, fit: true},
                  {name: row, kind: id}, {name: shop, kind: id}]}
model: {towers: [{name: top, input: [dense, embeddings],
                  layers: [{linear: 8}, batch_norm, relu, {linear: 1}]}]}
training:
  batch_size: 12
  keep_negatives: 0.7
  drop_last: false
  epochs: )",
                                                       kEpochs, "\n"));
  }

  const std::string& config() const { return config_; }
  // A new folder for a model.
  std::string NewModel() { return folder_.Path(absl::StrCat("model-", models_++)); }
  // A new folder with one checkpoint of another model.
  std::string ModelWith(uint64_t step, const std::string& of) {
    const std::string model = NewModel();
    const std::string name = absl::StrCat("/step-", step);
    std::filesystem::create_directory(model);
    std::filesystem::copy(of + name, model + name, std::filesystem::copy_options::recursive);
    return model;
  }

 private:
  const TemporaryFolder folder_;
  std::string config_;
  int models_ = 0;
};

struct Shape {
  size_t servers = 2;
  size_t ranks = 2;
  size_t loaders = 0;
};

struct Ended {
  std::vector<std::string> networks;  // By rank.
  Digests rows;
};

// Starts all processes, waits for their end and stops the servers. stop_rank: gets SIGTERM once it
// trains. more: arguments of trainers.
Ended Train(const Data& data, const std::string& model, const Shape& shape,
            std::vector<std::string> overrides, int stop_rank = -1,
            const std::vector<std::string>& more = {}) {
  overrides.push_back("checkpoint.directory=" + model);
  TestCluster cluster({.config = data.config(),
                       .servers = shape.servers,
                       .ranks = shape.ranks,
                       .loaders = shape.loaders,
                       .overrides = overrides,
                       .digests = true});
  Daemons trainers;
  for (size_t i = 0; i < shape.ranks; ++i) trainers.push_back(cluster.StartTrainer({}, i, more));
  Daemons loaders;
  for (size_t i = 0; i < shape.loaders; ++i) loaders.push_back(cluster.StartLoader(i));
  if (stop_rank >= 0) {
    const bool trains = trainers[stop_rank]->WaitForLog("progress: ", std::chrono::seconds(60));
    CAPTURE(trainers[stop_rank]->log());
    REQUIRE(trains);
    trainers[stop_rank]->Signal(SIGTERM);
  }
  Ended ended;
  for (const auto& trainer : trainers) {
    const TrainerOutcome outcome = Finish(*trainer);
    CAPTURE(trainer->log());
    REQUIRE(outcome.exit_code == 0);
    ended.networks.push_back(outcome.network_digest);
  }
  for (const auto& loader : loaders) {
    CAPTURE(loader->log());
    CHECK(loader->Wait(std::chrono::seconds(60)) == 0);
  }
  ended.rows = cluster.StopServersForDigests();
  return ended;
}

Checkpoint Newest(const std::string& model) {
  const auto found = ModelDirectory(model).Latest();
  REQUIRE(found.ok());
  return found->checkpoint;
}

std::string AtSteps(const std::vector<uint64_t>& steps) {
  return absl::StrCat("checkpoint.at_steps=[", absl::StrJoin(steps, ","), "]");
}

// How often each row's id was trained on: number of ids by their count. Keyed by the count.
std::map<uint16_t, uint64_t> UsesOf(const std::string& model) {
  const Checkpoint checkpoint = Newest(model);
  std::map<uint16_t, uint64_t> uses;
  for (const ModelFile& of_server : checkpoint.manifest.files) {
    if (!of_server.path.starts_with("rows/row/")) continue;
    auto file = checkpoint.OpenTensors(of_server.path);
    REQUIRE(file.ok());
    for (const TensorSpec& tensor : file->tensors()) {
      if (tensor.name != "uses") continue;
      std::vector<uint16_t> counts(tensor.rows());
      REQUIRE(file->Read("uses", 0, counts.size(), std::as_writable_bytes(std::span(counts))).ok());
      for (const uint16_t count : counts) ++uses[count];
    }
  }
  return uses;
}

TEST_CASE("Training that stops at any of 20 steps ends like training that does not") {
  struct Case {
    std::vector<std::string> overrides;
    Shape shape;
  };
  const std::vector<std::string> sync{"training.mode=sync"};
  const std::vector<std::string> hybrid{"training.mode=hybrid", "training.staleness=4",
                                        "training.reproducible=true"};
  // Rows are evicted. With several ranks the victims depend on whose pull comes first.
  const std::vector<std::string> full{hybrid[0], hybrid[1], hybrid[2], "tables.1.capacity_rows=24"};
  // One batch between pull and push, so that it repeats.
  const std::vector<std::string> async{"training.mode=async", "training.loader_queue_batches=1",
                                       "embedding_worker.forward_buffer_batches=3"};
  const Case input =
      GENERATE_COPY(Case{sync, {.ranks = 2}}, Case{hybrid, {.ranks = 2}},
                    Case{hybrid, {.ranks = 2, .loaders = 2}}, Case{full, {.ranks = 1}},
                    Case{async, {.servers = 3, .ranks = 1}});
  CAPTURE(input.overrides, input.shape.loaders);
  Data data;
  constexpr uint64_t kStops = 20;
  constexpr uint64_t kEvery = 5;
  // A checkpoint at each step would hide reading ahead.
  for (uint64_t first = 1; first <= kEvery; ++first) {
    std::vector<uint64_t> steps;
    for (uint64_t step = first; step <= kStops; step += kEvery) steps.push_back(step);
    std::vector<std::string> overrides = input.overrides;
    overrides.push_back(AtSteps(steps));
    overrides.emplace_back("checkpoint.keep=10");
    const std::string whole = data.NewModel();
    const Ended expected = Train(data, whole, input.shape, overrides);
    REQUIRE(Newest(whole).manifest.step > kStops);
    for (const uint64_t step : steps) {
      CAPTURE(step);
      const std::string model = data.ModelWith(step, whole);
      const Ended ended = Train(data, model, input.shape, overrides);
      CHECK(ended.networks == expected.networks);
      CHECK(ended.rows == expected.rows);
      CHECK(Newest(model).manifest.samples == Newest(whole).manifest.samples);
      CHECK(Newest(model).manifest.position == Newest(whole).manifest.position);
    }
  }
}

TEST_CASE("Each row counts once an epoch, whatever processes continue") {
  const std::vector<std::string> overrides =
      GENERATE(std::vector<std::string>{"training.mode=sync"},
               std::vector<std::string>{"training.mode=hybrid", "training.staleness=4"},
               std::vector<std::string>{"training.mode=async", "training.staleness=2"});
  CAPTURE(overrides);
  Data data;
  const std::string whole = data.NewModel();
  Train(data, whole, {.servers = 1, .ranks = 1}, overrides);
  const auto expected = UsesOf(whole);
  REQUIRE(expected.size() == 1);
  REQUIRE(expected.begin()->first == kEpochs);
  CHECK(expected.at(kEpochs) * kEpochs == Newest(whole).manifest.samples);

  const std::string model = data.NewModel();
  const std::vector<Shape> shapes{{.servers = 3, .ranks = 2},
                                  {.servers = 2, .ranks = 1},
                                  {.servers = 3, .ranks = 2},
                                  {.servers = 1, .ranks = 2, .loaders = 3},
                                  {.servers = 2, .ranks = 1, .loaders = 2},
                                  {.servers = 2, .ranks = 3}};
  Ended before;
  for (size_t i = 0; i < shapes.size(); ++i) {
    CAPTURE(i);
    if (i > 0) {
      // The rows alone: no step is left. Several ranks would end without loading them.
      const Shape restored{.servers = shapes[i].servers, .ranks = 1};
      std::vector<std::string> restore = overrides;
      restore.push_back(absl::StrCat("training.max_steps=", Newest(model).manifest.step));
      CHECK(Train(data, model, restored, restore).rows == before.rows);
    }
    std::vector<std::string> part = overrides;
    if (i + 1 < shapes.size()) part.push_back(absl::StrCat("training.max_steps=", 4 + 7 * i));
    before = Train(data, model, shapes[i], part);
  }
  CHECK(UsesOf(model) == expected);
  CHECK(Newest(model).manifest.samples == Newest(whole).manifest.samples);
}

// What `simurgh model diff` prints.
std::string Difference(const std::string& a, const std::string& b) {
  const TemporaryFolder folder;
  DaemonProcess diff("simurgh", {"model", "diff", a, b}, folder.Path("log"));
  CHECK(diff.Wait(kTrainerDeadline) == 0);
  return diff.output() + diff.log();
}

TEST_CASE("A model that other numbers of servers and ranks have saved does not differ") {
  Data data;
  const std::vector<std::string> overrides{"training.mode=sync", "training.max_steps=9"};
  const std::string model = data.NewModel();
  Train(data, model, {.servers = 3, .ranks = 2}, overrides);
  std::string from = model;
  for (const Shape& shape : {Shape{.servers = 2, .ranks = 1}, Shape{.servers = 3, .ranks = 2}}) {
    // No step is left, and the folder has no checkpoint yet.
    const std::string to = data.NewModel();
    Train(data, to, shape, overrides, /*stop_rank=*/-1, {"--resume", from});
    CHECK(Newest(to).manifest.step == 9);
    CHECK_THAT(Difference(model, to), Catch::Equals(""));
    from = to;
  }
  Train(data, from, {.servers = 2, .ranks = 1}, {overrides[0], "training.max_steps=10"});
  CHECK_THAT(Difference(model, from), Catch::Contains("rows differ"));
}

TEST_CASE("A checkpoint while ranks that do not wait for each other train has each row once") {
  const std::string mode = GENERATE("training.mode=hybrid", "training.mode=async");
  const Shape shape = GENERATE(Shape{.ranks = 2}, Shape{.ranks = 2, .loaders = 2});
  CAPTURE(mode, shape.loaders);
  Data data;
  std::vector<std::string> overrides{mode, "training.staleness=4", "checkpoint.keep=10"};
  const std::string alone = data.NewModel();
  Train(data, alone, {.servers = 1, .ranks = 1}, overrides);
  const auto expected = UsesOf(alone);
  REQUIRE(expected.size() == 1);
  const std::vector<uint64_t> steps{3, 4, 17};
  overrides.push_back(AtSteps(steps));
  const std::string whole = data.NewModel();
  Train(data, whole, shape, overrides);
  CHECK(UsesOf(whole) == expected);
  for (const uint64_t step : steps) {
    CAPTURE(step);
    const std::string model = data.ModelWith(step, whole);
    Train(data, model, {.servers = 3, .ranks = 1}, overrides);
    CHECK(UsesOf(model) == expected);
  }
}

TEST_CASE("A stop by a signal loses and repeats no row, in training that does not repeat") {
  const std::string mode = GENERATE("training.mode=hybrid", "training.mode=async");
  CAPTURE(mode);
  Data data;
  const std::string whole = data.NewModel();
  const std::vector<std::string> overrides{
      mode, "training.staleness=4", "training.progress_interval=10ms", "training.batch_size=2"};
  Train(data, whole, {.servers = 1, .ranks = 1}, overrides);
  const std::string model = data.NewModel();
  uint64_t step = 0;
  for (const Shape& shape : {Shape{.ranks = 2}, Shape{.ranks = 1, .loaders = 2}}) {
    Train(data, model, shape, overrides, /*stop_rank=*/0);
    CHECK(Newest(model).manifest.step > step);
    step = Newest(model).manifest.step;
  }
  Train(data, model, {.servers = 1, .ranks = 1}, overrides);
  const auto text = [](const std::map<uint16_t, uint64_t>& uses) {
    return absl::StrJoin(uses, " ", absl::PairFormatter(":"));
  };
  CHECK(text(UsesOf(model)) == text(UsesOf(whole)));
}

TEST_CASE("Training does not continue with changed data, and takes new files at the end") {
  Data data;
  const std::string model = data.NewModel();
  const std::vector<std::string> overrides{"training.mode=sync"};
  const auto override = [&](const std::string& files) {
    return std::vector<std::string>{"training.mode=sync", "data.train=[" + files + "]"};
  };
  const TemporaryFolder folder;
  const auto write = [&](const std::string& name, int rows) {
    std::string text;
    for (int row = 0; row < rows; ++row) {
      absl::StrAppend(&text, row % 2, ",", row % 7, ",", name, row, ",a\n");
    }
    return folder.Write(name, text);
  };
  const std::string a = write("a.csv", 100);
  const std::string b = write("b.csv", 100);
  const std::string c = write("c.csv", 100);
  std::vector<std::string> part = override(absl::StrJoin({a, b}, ","));
  // A window is in one file: a file of which a window has rows has been read.
  part.insert(part.end(), {"training.epochs=1", "training.keep_negatives=1", "data.shuffle=50"});
  std::vector<std::string> first = part;
  first.emplace_back("training.max_steps=7");  // In a.csv.
  Train(data, model, {.servers = 1, .ranks = 1}, first);
  const auto refusal = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = part;
    all.insert(all.end(), more.begin(), more.end());
    all.push_back("checkpoint.directory=" + model);
    TestCluster cluster({.config = data.config(), .servers = 1, .overrides = all});
    const auto trainer = cluster.StartTrainer();
    CHECK(Finish(*trainer).exit_code == 2);
    return trainer->log();
  };
  CHECK_THAT(refusal({"data.train=[" + b + "," + a + "]"}),
             Catch::Contains("data.train.0 is 'b.csv', the model has read 'a.csv' there"));
  write("a.csv", 99);
  CHECK_THAT(refusal({}), Catch::Contains("data.train.0 ('a.csv') has changed: it has "));
  write("a.csv", 100);
  // A file that has not been read may change, and others may follow.
  write("b.csv", 90);
  std::vector<std::string> longer = part;
  longer.push_back("data.train=[" + absl::StrJoin({a, b, c}, ",") + "]");
  // The loaders use the statistics of the files that were there at first.
  Train(data, model, {.servers = 1, .ranks = 1, .loaders = 2}, longer);
  CHECK(UsesOf(model) == std::map<uint16_t, uint64_t>{{1, 290}});
  // Rows at the end of a complete epoch are read in that epoch.
  longer.emplace_back("data.on_change=warn");
  write("c.csv", 120);
  longer.emplace_back("training.epochs=2");
  Train(data, model, {.servers = 1, .ranks = 1}, longer);
  CHECK(Newest(model).manifest.samples == 310 + 310);
  // The last file got rows at its end, so that the others have their numbers.
  CHECK(UsesOf(model) == std::map<uint16_t, uint64_t>{{2, 310}});
}

}  // namespace
}  // namespace simurgh::testing
