// Training on topics of Kafka, with real daemons and librdkafka's mock broker.

#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "model/tensor_file.h"
#include "tests/support/http_get.h"
#include "tests/support/kafka_broker.h"
#include "tests/support/python.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_cluster.h"
#include "tests/support/waiting.h"

namespace simurgh::testing {
namespace {

using Catch::Contains;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

constexpr int kPartitions = 4;
constexpr int kBatch = 10;

// The row of a record gets a gradient each time. Adam makes the first step just this long.
constexpr double kRate = 0.125;

// A record has its own id, so its row tells how often it was trained on.
std::string RecordOf(int number) {
  return absl::StrCat(R"({"label": )", number % 2, R"(, "record": )", number, "}");
}

std::string WriteConfig(const TemporaryFolder& folder, const KafkaBroker& broker,
                        const std::string& format = "json") {
  return folder.Write("kafka.yaml", absl::StrCat(R"(
data:
  format: )",
                                                 format, R"(
  kafka: {brokers: ")",
                                                 broker.address(), R"(", topics: [clicks]}
  columns: [{name: label, kind: label}, {name: record, kind: id}]
  on_bad_row: skip
model: {towers: [{name: top, input: [embeddings], layers: [{linear: 1}]}]}
tables:
  - {name: record, dim: 1, initializer: {kind: zero}, optimizer: {kind: adam, learning_rate: )",
                                                 kRate, R"(}}
training: {epochs: 0, batch_size: )",
                                                 kBatch, R"(, drop_last: false, mode: sync}
checkpoint: {directory: )",
                                                 folder.Path("model"), R"(, every_steps: 7}
)"));
}

// Produces records, in turn to all partitions, until it is stopped.
class Producer {
 public:
  explicit Producer(KafkaBroker& broker) : broker_(broker) {}
  ~Producer() { Stop(); }

  void Start() {
    stops_ = false;
    thread_ = std::thread([this] {
      while (!stops_) {
        Produce(1);
        Pause(2ms);
      }
    });
  }
  void Stop() {
    stops_ = true;
    if (thread_.joinable()) thread_.join();
  }
  void Produce(int count) {
    for (int i = 0; i < count; ++i) ProduceTo(produced_ % kPartitions);
  }
  void ProduceTo(int partition) {
    broker_.Produce("clicks", partition, {RecordOf(produced_)});
    ++produced_;
  }
  int produced() const { return produced_; }

 private:
  KafkaBroker& broker_;
  std::atomic<int> produced_ = 0;
  std::atomic<bool> stops_ = false;
  std::thread thread_;
};

// The rows that a model has of a table.
TensorFileReader RowsOf(const TemporaryFolder& folder, const std::string& table) {
  DaemonProcess command("simurgh",
                        {"export", "embeddings", "--model", folder.Path("model"), "--output",
                         folder.Path("{table}.safetensors")},
                        folder.Path("export.log"));
  const auto code = command.Wait(60s);
  CAPTURE(command.log());
  REQUIRE(code == 0);
  auto reader = TensorFileReader::Open(folder.Path(table + ".safetensors"));
  REQUIRE(reader.ok());
  return *std::move(reader);
}

// Requires that the model has one row for each record, which one step has moved.
void CheckTrainedOnce(const TemporaryFolder& folder, int records) {
  TensorFileReader reader = RowsOf(folder, "record");
  const auto rows = static_cast<size_t>(reader.tensors().front().shape[0]);
  CHECK(rows == static_cast<size_t>(records));
  std::vector<float> weights(rows);
  REQUIRE(reader.Read("weights", 0, rows, std::as_writable_bytes(std::span(weights))).ok());
  int others = 0;
  for (const float weight : weights) others += std::abs(std::abs(weight) - kRate) > 1e-3 ? 1 : 0;
  CHECK(others == 0);
}

TestClusterOptions OptionsOf(const std::string& config, size_t loaders, size_t ranks = 1) {
  return {.config = config,
          .servers = 1,
          .ranks = ranks,
          .loaders = loaders,
          .overrides = {
              "training.progress_interval=10ms", "training.retry_deadline=20s",
              "embedding_ps.run_timeout=1s",
              "data.kafka.properties={reconnect.backoff.max.ms: 200, fetch.wait.max.ms: 10}"}};
}

// Waits until the trainer has taken `steps` further steps.
void WaitForSteps(DaemonProcess& trainer, int steps) {
  INFO(trainer.log());
  REQUIRE(WaitForProgress(trainer, ProgressOf(trainer) + static_cast<uint64_t>(steps)));
}

// Waits until the model of a step is saved.
void WaitForModel(DaemonProcess& trainer, int step) {
  INFO(trainer.log());
  REQUIRE(trainer.WaitForLog(absl::StrCat("/model/step-", step, " "), 30s));
}

using Feeders = std::vector<std::unique_ptr<DaemonProcess>>;

Feeders StartFeeders(TestCluster& cluster, size_t count,
                     const std::vector<std::string>& overrides = {}) {
  Feeders feeders;
  for (size_t i = 0; i < count; ++i) feeders.push_back(cluster.StartLoader(i, overrides));
  return feeders;
}

// Trains on the records that are left. Returns the feeders.
Feeders TrainOnRest(TestCluster& cluster, size_t loaders, size_t ranks = 1) {
  const std::vector<std::string> ends{"training.epochs=1", "data.kafka.stop_at_end=true"};
  const auto trainers = cluster.StartTrainers(ranks, ends);
  Feeders feeders = StartFeeders(cluster, loaders, ends);
  for (const auto& trainer : trainers) {
    const auto code = trainer->Wait(30s);
    CAPTURE(trainer->log(), feeders[0]->log());
    CHECK(code == 0);
  }
  return feeders;
}

TEST_CASE("Each record is trained on once, whatever is killed and however many feeders there are") {
  KafkaBroker broker;
  broker.Create("clicks", kPartitions);
  Producer producer(broker);
  const TemporaryFolder folder;
  const std::string config = WriteConfig(folder, broker);
  producer.Produce(100);
  {
    TestCluster cluster(OptionsOf(config, 2));
    auto trainer = cluster.StartTrainer();
    auto one = cluster.StartLoader(0);
    auto other = cluster.StartLoader(1);
    producer.Start();
    WaitForSteps(*trainer, 20);
    other->Signal(SIGKILL);
    other->Wait(10s);
    other = cluster.StartLoader(1);
    WaitForSteps(*trainer, 20);
    trainer->Signal(SIGKILL);  // Feeders end with the code for another start.
    trainer->Wait(10s);
    trainer = cluster.StartTrainer();
    CHECK(one->Wait(30s) == 4);
    CHECK(other->Wait(30s) == 4);
    one = cluster.StartLoader(0);
    other = cluster.StartLoader(1);
    WaitForSteps(*trainer, 20);
    trainer->Signal(SIGTERM);
    CAPTURE(trainer->log(), one->log(), other->log());
    CHECK(trainer->Wait(30s) == 0);
    CHECK_THAT(trainer->output(), Contains("window_auc="));
  }
  producer.Stop();
  producer.Produce(57);
  broker.Produce("clicks", 1, {"poison", R"({"label": 2, "record": 1})", "{}"});
  broker.ProduceTombstone("clicks", 2);
  TestCluster cluster(OptionsOf(config, 3));
  const Feeders feeders = TrainOnRest(cluster, 3);
  CHECK(feeders[1]->Wait(30s) == 0);
  CHECK_THAT(feeders[1]->log(),
             Contains("row skipped: clicks/1 at offset ") && Contains("bad_rows=3"));
  CheckTrainedOnce(folder, producer.produced());
}

TEST_CASE("Two ranks train on each record once, and a lost broker is waited for") {
  KafkaBroker broker;
  broker.Create("clicks", kPartitions);
  Producer producer(broker);
  const TemporaryFolder folder;
  TestCluster cluster(OptionsOf(WriteConfig(folder, broker), 2, /*ranks=*/2));
  auto trainers = cluster.StartTrainers(2);
  const auto one = cluster.StartLoader(0);
  const auto other = cluster.StartLoader(1);
  producer.Start();
  WaitForSteps(*trainers[0], 10);
  producer.Stop();
  broker.SetDown(true);
  REQUIRE(one->WaitForLog("keeps trying", 30s));
  // The line may be of the start.
  const auto readyz = [&] { return HttpGet(one->metrics_address(), "/readyz"); };
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  while (!Contains("kafka at ").match(readyz())) {
    REQUIRE(std::chrono::steady_clock::now() < deadline);
  }
  CHECK_THAT(readyz(), Contains("503"));
  broker.SetDown(false);
  producer.Start();
  WaitForSteps(*trainers[0], 10);
  producer.Stop();
  trainers[0]->Signal(SIGTERM);
  CAPTURE(trainers[0]->log(), one->log(), other->log());
  for (const auto& trainer : trainers) CHECK(trainer->Wait(30s) == 0);
  CHECK(one->Wait(30s).has_value());
  CHECK(other->Wait(30s).has_value());
  TrainOnRest(cluster, 2, /*ranks=*/2);
  CheckTrainedOnce(folder, producer.produced());
}

TEST_CASE("A feeder that is lost within a step of two ranks makes them start again") {
  KafkaBroker broker;
  broker.Create("clicks", kPartitions);
  Producer producer(broker);
  const TemporaryFolder folder;
  TestCluster cluster(OptionsOf(WriteConfig(folder, broker), 1, /*ranks=*/2));
  producer.Start();
  // The first rank takes few batches ahead, so the feeder gets ahead of it.
  const auto first = cluster.StartTrainer({"training.loader_queue_batches=2"});
  const auto second = cluster.StartTrainer({"training.loader_queue_batches=64"}, 1);
  auto feeder = cluster.StartLoader(0);
  WaitForModel(*first, 7);
  cluster.worker(0).Signal(SIGSTOP);
  const auto taken = [](const DaemonProcess& trainer) {
    const std::string metrics = HttpGet(trainer.metrics_address(), "/metrics");
    const std::string name = "\nsimurgh_nn_fed_batches_total ";
    const size_t found = metrics.find(name);
    return found == std::string::npos ? 0 : std::atoi(metrics.c_str() + found + name.size());
  };
  REQUIRE(Eventually([&] { return taken(*second) >= taken(*first) + 2; }));
  feeder->Signal(SIGKILL);
  feeder->Wait(10s);
  producer.Stop();
  feeder = cluster.StartLoader(0);
  CHECK(feeder->Wait(30s) == 4);
  CHECK_THAT(feeder->log(), Contains("was lost between the batches of a step"));
  cluster.worker(0).Signal(SIGCONT);
  CAPTURE(first->log(), second->log());
  CHECK(first->Wait(30s) == 4);
  CHECK(second->Wait(30s) == 4);
  TrainOnRest(cluster, 1, /*ranks=*/2);
  CheckTrainedOnce(folder, producer.produced());
}

TEST_CASE("A quiet topic's last steps are saved in time, and no record from the start on is lost") {
  KafkaBroker broker;
  broker.Create("clicks", kPartitions);
  Producer producer(broker);
  const TemporaryFolder folder;
  TestClusterOptions options = OptionsOf(WriteConfig(folder, broker), 2);
  options.overrides.insert(options.overrides.end(),
                           {"data.kafka.start=latest", "checkpoint.every=50ms"});
  constexpr int kBefore = 8;
  producer.Produce(kBefore);
  TestCluster cluster(options);
  {
    const auto trainer = cluster.StartTrainer();
    const Feeders feeders = StartFeeders(cluster, 2);
    for (const auto& feeder : feeders) REQUIRE(feeder->WaitForLog("reading kafka: ", 30s));
    for (int i = 0; i < 2 * kBatch; ++i) producer.ProduceTo(2 * (i % 2));
    WaitForModel(*trainer, 2);
    trainer->Signal(SIGKILL);
    for (const auto& feeder : feeders) feeder->Signal(SIGKILL);
  }
  // The second feeder's partitions have had no record before.
  producer.Produce(12);
  TrainOnRest(cluster, 2);
  CheckTrainedOnce(folder, producer.produced() - kBefore);
}

TEST_CASE("Rows of Arrow records are trained on once, wherever in a record training stops") {
  const char* const bin = std::getenv("SIMURGH_BIN_DIR");
  if (!std::filesystem::exists(std::string(bin) + "/libsimurgh_arrow.so")) {
    SIMURGH_SKIP("libsimurgh_arrow.so is not built; scripts/bootstrap.sh --arrow gets Arrow C++");
  }
  constexpr int kRows = 7;
  KafkaBroker broker;
  broker.Create("clicks", kPartitions);
  const TemporaryFolder folder;
  REQUIRE(std::system(absl::StrCat(Python("pyarrow"), " tests/cluster/arrow_records.py ",
                                   folder.path(), " 40 ", kRows)
                          .c_str()) == 0);
  int produced = 0;
  const auto produce = [&](int until) {
    for (; produced < until; ++produced) {
      std::ifstream file(folder.Path(absl::StrCat(produced)), std::ios::binary);
      broker.Produce("clicks", produced % kPartitions,
                     {std::string(std::istreambuf_iterator<char>(file), {})});
    }
  };
  TestClusterOptions options = OptionsOf(WriteConfig(folder, broker, "arrow"), 2);
  options.overrides.emplace_back("checkpoint.every=50ms");
  {
    TestCluster cluster(options);
    const auto trainer = cluster.StartTrainer();
    Feeders feeders = StartFeeders(cluster, 2);
    produce(24);  // Eight batches and four rows for each feeder.
    WaitForModel(*trainer, 16);
    feeders[1]->Signal(SIGKILL);
    feeders[1]->Wait(10s);
    feeders[1] = cluster.StartLoader(1);
    produce(36);  // Twelve batches and six rows.
    WaitForModel(*trainer, 24);
    trainer->Signal(SIGKILL);
    for (const auto& feeder : feeders) feeder->Signal(SIGKILL);
  }
  produce(40);
  options.loaders = 3;
  TestCluster cluster(options);
  TrainOnRest(cluster, 3);
  CheckTrainedOnce(folder, 40 * kRows);
}

TEST_CASE("Arrow records without the module are an error that says how to get it") {
  KafkaBroker broker;
  broker.Create("clicks", kPartitions);
  const TemporaryFolder folder;
  TestCluster cluster(OptionsOf(WriteConfig(folder, broker, "arrow"), 1));
  const auto trainer = cluster.StartTrainer();
  ::setenv("SIMURGH_ARROW_MODULE", "/no/module.so", 1);
  const auto feeder = cluster.StartLoader(0);
  ::unsetenv("SIMURGH_ARROW_MODULE");
  CHECK(trainer->Wait(30s).value_or(0) != 0);
  CHECK_THAT(trainer->log(),
             Contains("need libsimurgh_arrow.so") && Contains("scripts/bootstrap.sh --arrow"));
}

TEST_CASE("The example file trains until it is stopped, and continues") {
  KafkaBroker broker;
  broker.Create("clicks", kPartitions);
  const TemporaryFolder folder;
  int produced = 0;
  const auto produce = [&](int count) {
    for (int end = produced + count; produced < end; ++produced) {
      broker.Produce("clicks", produced % kPartitions,
                     {absl::StrCat(R"({"clicked": )", produced % 2, R"(, "user": ")", produced,
                                   R"(", "item": "i)", produced % 5, R"("})")});
    }
  };
  int starts = 0;
  const auto start = [&](const std::vector<std::string>& more = {}) {
    std::vector<std::string> words{"train", "config/kafka.yaml"};
    const auto at = [&](const char* name) {
      return absl::StrCat("=[{address: 'unix://", folder.Path(name), "'}]");
    };
    std::vector<std::string> overrides{"data.kafka.brokers='" + broker.address() + "'",
                                       "checkpoint.directory=" + folder.Path("model"),
                                       "checkpoint.every=50ms",
                                       "embedding_ps.instances" + at("ps"),
                                       "embedding_worker.instances" + at("worker"),
                                       "nn_worker.instances" + at("nn")};
    overrides.insert(overrides.end(), more.begin(), more.end());
    for (const std::string& one : overrides) words.insert(words.end(), {"--set", one});
    return std::make_unique<DaemonProcess>("simurgh", words,
                                           folder.Path(absl::StrCat("log", starts++)));
  };
  const auto stop = [](DaemonProcess& command) {
    command.Signal(SIGTERM);
    CHECK(command.Wait(30s) == 0);
    CHECK_THAT(command.output(), Contains("window_auc=") && Contains("window_loss="));
  };
  produce(300);  // Two batches; the rest waits.
  auto command = start();
  WaitForModel(*command, 2);
  stop(*command);
  produce(84);
  command = start();
  WaitForModel(*command, 3);
  stop(*command);
  CHECK(RowsOf(folder, "user").tensors().front().shape[0] == 384);
  produce(128);
  command = start({"training.epochs=1", "data.kafka.stop_at_end=true"});
  CHECK(command->Wait(30s) == 0);
  CAPTURE(command->log());
  CHECK_THAT(command->log(), Contains("trained: steps=4 samples=128 "));
}

}  // namespace
}  // namespace simurgh::testing
