#include "kafka/kafka_stream.h"

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "tests/support/kafka_broker.h"
#include "tests/support/temporary_folder.h"

namespace simurgh {
namespace {

using Catch::Contains;
using std::chrono_literals::operator""s;
using testing::KafkaBroker;

std::vector<std::string> Values(int first, int count) {
  std::vector<std::string> values;
  for (int i = first; i < first + count; ++i) values.push_back(absl::StrCat("v", i));
  return values;
}

KafkaConfig ConfigOf(const KafkaBroker& broker) {
  return {.brokers = {broker.address()},
          .topics = {"clicks"},
          .stop_at_end = true,
          .properties = {{"fetch.wait.max.ms", "10"},
                         {"reconnect.backoff.max.ms", "200"},
                         {"topic.metadata.refresh.interval.ms", "100"}}};
}

std::unique_ptr<RecordStream> Open(const KafkaConfig& config, MetricRegistry& registry,
                                   KafkaStreamOptions options = {}) {
  auto stream = OpenKafkaStream(config, std::move(options), registry);
  INFO(stream.status().ToString());
  REQUIRE(stream.ok());
  return *std::move(stream);
}

struct Read {
  std::map<std::string, std::vector<std::string>> values;  // By partition.
  Status status;
};

// Reads until the stream ends, fails, or has delivered `count` records.
Read ReadAll(RecordStream& stream, size_t count = SIZE_MAX) {
  Read read;
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  for (size_t records = 0; records < count && !stream.has_ended();) {
    REQUIRE(std::chrono::steady_clock::now() < deadline);
    const auto record = stream.Next();
    read.status = record.status();
    if (!record.ok()) break;
    if (!record->has_value()) continue;
    ++records;
    read.values[std::string((*record)->partition)].push_back(
        (*record)->value ? std::string(*(*record)->value) : "none");
  }
  return read;
}

TEST_CASE("Two readers share the partitions and read each record once, in order") {
  KafkaBroker broker;
  broker.Create("clicks", 3);
  for (int partition = 0; partition < 3; ++partition) {
    broker.Produce("clicks", partition, Values(partition * 100, 100));
  }
  broker.ProduceTombstone("clicks", 2);
  std::map<std::string, std::vector<std::string>> all;
  for (uint32_t share = 0; share < 2; ++share) {
    MetricRegistry registry;
    const auto stream = Open(ConfigOf(broker), registry, {.share = share, .shares = 2});
    const Read read = ReadAll(*stream);
    CHECK(read.status.ok());
    for (const auto& [partition, values] : read.values)
      CHECK(all.emplace(partition, values).second);
  }
  CHECK(all.size() == 3);
  CHECK(all["clicks/0"] == Values(0, 100));
  CHECK(all["clicks/1"] == Values(100, 100));
  std::vector<std::string> last = Values(200, 100);
  last.emplace_back("none");
  CHECK(all["clicks/2"] == last);
}

TEST_CASE("Reading continues at the offsets that were read") {
  KafkaBroker broker;
  broker.Create("clicks", 2);
  broker.Produce("clicks", 0, Values(0, 50));
  broker.Produce("clicks", 1, Values(50, 50));
  MetricRegistry registry;
  const auto stream =
      Open(ConfigOf(broker), registry, {.begin = {{"clicks/0", 20}, {"clicks/1", 50}}});
  const Read read = ReadAll(*stream);
  CHECK(read.values.at("clicks/0") == Values(20, 30));
  CHECK_FALSE(read.values.contains("clicks/1"));
  CHECK(stream->offsets().at("clicks/1") == 50);
}

TEST_CASE("A new model may begin with the records that follow") {
  KafkaBroker broker;
  broker.Create("clicks", 1);
  broker.Produce("clicks", 0, Values(0, 10));
  KafkaConfig config = ConfigOf(broker);
  config.start = KafkaConfig::Start::kLatest;
  config.stop_at_end = false;
  MetricRegistry registry;
  const auto stream = Open(config, registry);
  while (stream->offsets().empty()) CHECK_FALSE(stream->Next()->has_value());
  CHECK(stream->offsets() == StreamOffsets{{"clicks/0", 10}});
  broker.Produce("clicks", 0, Values(10, 5));
  CHECK(ReadAll(*stream, 5).values.at("clicks/0") == Values(10, 5));
}

TEST_CASE("Partitions that are added are dealt like the others, and read from their beginning") {
  // The mock has no request for more partitions: a second cluster with them takes over.
  KafkaBroker before;
  KafkaBroker after;
  before.Create("clicks", 2);
  after.Create("clicks", 4);
  for (int partition = 0; partition < 4; ++partition) {
    after.Produce("clicks", partition, Values(partition * 100, 10));
    if (partition < 2) before.Produce("clicks", partition, Values(partition * 100, 10));
  }
  after.SetDown(true);
  KafkaConfig config = ConfigOf(before);
  config.brokers.push_back(after.address());
  config.start = KafkaConfig::Start::kLatest;
  config.stop_at_end = false;
  MetricRegistry registry;
  const auto stream = Open(config, registry, {.share = 1, .shares = 2});
  while (stream->offsets().empty()) REQUIRE(stream->Next().ok());
  CHECK(stream->offsets() == StreamOffsets{{"clicks/1", 10}});
  before.SetDown(true);
  after.SetDown(false);
  CHECK(ReadAll(*stream, 10).values ==
        std::map<std::string, std::vector<std::string>>{{"clicks/3", Values(300, 10)}});
  CHECK(stream->offsets().size() == 2);

  // Also if they were added while no reader ran.
  MetricRegistry other;
  const auto again = Open(config, other, {.share = 0, .shares = 2, .begin = {{"clicks/1", 10}}});
  CHECK(ReadAll(*again, 20).values.at("clicks/2") == Values(200, 10));
}

TEST_CASE("A lost broker is waited for, and named") {
  KafkaBroker broker;
  broker.Create("clicks", 1);
  broker.Produce("clicks", 0, Values(0, 10));
  KafkaConfig config = ConfigOf(broker);
  config.stop_at_end = false;
  Status state;
  MetricRegistry registry;
  const auto stream = Open(config, registry, {.on_state = [&](const Status& now) { state = now; }});
  CHECK(ReadAll(*stream, 10).values.at("clicks/0") == Values(0, 10));
  broker.SetDown(true);
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while (state.ok() && std::chrono::steady_clock::now() < deadline) {
    const auto record = stream->Next();
    REQUIRE(record.ok());
    CHECK_FALSE(record->has_value());
  }
  CHECK_THAT(std::string(state.message()), Contains("kafka at " + broker.address()));
  broker.SetDown(false);
  broker.Produce("clicks", 0, Values(10, 10));
  CHECK(ReadAll(*stream, 10).values.at("clicks/0") == Values(10, 10));
  CHECK(state.ok());
}

TEST_CASE("Records that retention has deleted are an error with a way out") {
  constexpr int kRecords = 800;  // The broker keeps 5 MiB of a partition.
  KafkaBroker broker;
  broker.Create("clicks", 1);
  broker.Produce("clicks", 0, std::vector<std::string>(kRecords, std::string(10'000, 'x')));
  KafkaConfig config = ConfigOf(broker);
  MetricRegistry registry;
  const auto stream = Open(config, registry, {.begin = {{"clicks/0", 5}}});
  const Status failed = ReadAll(*stream).status;
  CHECK(absl::IsOutOfRange(failed));
  CHECK_THAT(std::string(failed.message()), Contains("clicks/0: training continues at offset 5") &&
                                                Contains("retention") &&
                                                Contains("data.kafka.on_lost_records: skip"));
  config.skip_lost = true;
  MetricRegistry other;
  const auto skipping = Open(config, other, {.begin = {{"clicks/0", 5}}});
  const Read read = ReadAll(*skipping);
  CHECK(read.status.ok());
  const size_t left = read.values.at("clicks/0").size();
  CHECK(left < 600);
  CHECK_THAT(other.Serialize(), Contains(absl::StrCat("simurgh_loader_kafka_lost_records_total ",
                                                      kRecords - left - 5)));
  // Positions of another topic of that name.
  MetricRegistry third;
  const auto beyond = Open(config, third, {.begin = {{"clicks/0", 5'000}}});
  CHECK_THAT(std::string(ReadAll(*beyond).status.message()), Contains("created anew"));
}

TEST_CASE("A topic that does not exist is named, with those that do") {
  KafkaBroker broker;
  broker.Create("clicks", 1);
  broker.Create("views", 1);
  broker.Hide("clicks");
  MetricRegistry registry;
  const Status failed = ReadAll(*Open(ConfigOf(broker), registry)).status;
  CHECK(absl::IsNotFound(failed));
  CHECK_THAT(std::string(failed.message()),
             Contains("there is no topic 'clicks'") && Contains("views"));
}

TEST_CASE("Connections that are cut cost no record and repeat none") {
  KafkaBroker broker;
  broker.Create("clicks", 1);
  broker.Produce("clicks", 0, Values(0, 500));
  broker.CutFetches(3);
  MetricRegistry registry;
  CHECK(ReadAll(*Open(ConfigOf(broker), registry)).values.at("clicks/0") == Values(0, 500));
}

TEST_CASE("A file of properties adds to the configuration's, and a bad line is named") {
  const TemporaryFolder folder;
  KafkaBroker broker;
  broker.Create("clicks", 1);
  broker.Produce("clicks", 0, Values(0, 3));
  KafkaConfig config = ConfigOf(broker);
  MetricRegistry registry;
  config.properties_file = folder.Write("good", "# secret\n\n client.id = reader \n");
  CHECK(ReadAll(*Open(config, registry)).values.at("clicks/0") == Values(0, 3));
  // The file's properties reach librdkafka, which refuses this one.
  config.properties_file = folder.Write("refused", "client.identity=reader\n");
  CHECK_THAT(std::string(OpenKafkaStream(config, {}, registry).status().message()),
             Contains("client.identity"));
  config.properties_file = folder.Write("bad", "client.id=reader\nno sign\n");
  CHECK_THAT(std::string(OpenKafkaStream(config, {}, registry).status().message()),
             Contains("bad:2: not NAME=VALUE"));
  config.properties_file = folder.Path("none");
  CHECK_THAT(std::string(OpenKafkaStream(config, {}, registry).status().message()),
             Contains("cannot be read"));
}

TEST_CASE("Properties that librdkafka refuses are named, and ours cannot be set") {
  KafkaBroker broker;
  broker.Create("clicks", 1);
  broker.Produce("clicks", 0, Values(0, 10));
  KafkaConfig config = ConfigOf(broker);
  MetricRegistry registry;
  config.properties = {{"security.protcol", "ssl"}};
  const Status refused = OpenKafkaStream(config, {}, registry).status();
  CHECK(absl::IsInvalidArgument(refused));
  CHECK_THAT(std::string(refused.message()),
             Contains("data.kafka.properties") && Contains("security.protcol"));
  config.properties = {{"enable.auto.commit", "true"}, {"client.id", "own"}};
  CHECK(ReadAll(*Open(config, registry)).values.at("clicks/0") == Values(0, 10));
}

}  // namespace
}  // namespace simurgh
