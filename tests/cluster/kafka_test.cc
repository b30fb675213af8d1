// Training on topics of Kafka, with real daemons and librdkafka's mock broker.

#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "simurgh/model/tensor_file.h"
#include "tests/support/http_get.h"
#include "tests/support/kafka_broker.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_cluster.h"

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

std::string WriteConfig(const TemporaryFolder& folder, const KafkaBroker& broker) {
  return folder.Write("kafka.yaml", absl::StrCat(R"(
data:
  format: json
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
        std::this_thread::sleep_for(2ms);
      }
    });
  }
  void Stop() {
    stops_ = true;
    if (thread_.joinable()) thread_.join();
  }
  void Produce(int count) {
    for (int i = 0; i < count; ++i) {
      broker_.Produce("clicks", produced_ % kPartitions, {RecordOf(produced_)});
      ++produced_;
    }
  }
  int produced() const { return produced_; }

 private:
  KafkaBroker& broker_;
  std::atomic<int> produced_ = 0;
  std::atomic<bool> stops_ = false;
  std::thread thread_;
};

// Requires that the model has one row for each record, which one step has moved.
void CheckTrainedOnce(const TemporaryFolder& folder, int records) {
  const std::string file = folder.Path("record.safetensors");
  DaemonProcess command("simurgh",
                        {"export", "embeddings", "--model", folder.Path("model"), "--output",
                         folder.Path("{table}.safetensors")},
                        folder.Path("export.log"));
  const auto code = command.Wait(60s);
  CAPTURE(command.log());
  REQUIRE(code == 0);
  auto reader = TensorFileReader::Open(file);
  REQUIRE(reader.ok());
  const auto rows = static_cast<size_t>(reader->tensors().front().shape[0]);
  CHECK(rows == static_cast<size_t>(records));
  std::vector<float> weights(rows);
  REQUIRE(reader->Read("weights", 0, rows, std::as_writable_bytes(std::span(weights))).ok());
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
  const auto count = [&] {
    const std::string log = trainer.log();
    const size_t last = log.rfind("progress: step=");
    return last == std::string::npos ? 0 : std::atoi(log.c_str() + last + 15);
  };
  const int begin = count();
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  while (count() < begin + steps) {
    INFO(trainer.log());
    REQUIRE(std::chrono::steady_clock::now() < deadline);
    std::this_thread::sleep_for(5ms);
  }
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
  const std::vector<std::string> ends{"training.epochs=1", "data.kafka.stop_at_end=true"};
  const auto trainer = cluster.StartTrainer(ends);
  std::vector<std::unique_ptr<DaemonProcess>> feeders;
  for (size_t i = 0; i < 3; ++i) feeders.push_back(cluster.StartLoader(i, ends));
  const TrainerOutcome outcome = Finish(*trainer);
  CAPTURE(trainer->log(), feeders[0]->log(), feeders[1]->log(), feeders[2]->log());
  CHECK(outcome.exit_code == 0);
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
  CHECK_THAT(HttpGet(one->metrics_address(), "/readyz"), Contains("503") && Contains("kafka at "));
  broker.SetDown(false);
  producer.Start();
  WaitForSteps(*trainers[0], 10);
  producer.Stop();
  trainers[0]->Signal(SIGTERM);
  CAPTURE(trainers[0]->log(), one->log(), other->log());
  for (const auto& trainer : trainers) CHECK(trainer->Wait(30s) == 0);
  // The rest, by ranks that start again.
  const std::vector<std::string> ends{"training.epochs=1", "data.kafka.stop_at_end=true"};
  CHECK(one->Wait(30s).has_value());
  CHECK(other->Wait(30s).has_value());
  trainers = cluster.StartTrainers(2, ends);
  const auto again = cluster.StartLoader(0, ends);
  const auto last = cluster.StartLoader(1, ends);
  for (const auto& trainer : trainers) {
    CAPTURE(trainer->log(), again->log());
    CHECK(trainer->Wait(30s) == 0);
  }
  CheckTrainedOnce(folder, producer.produced());
}

}  // namespace
}  // namespace simurgh::testing
