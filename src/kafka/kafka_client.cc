#include "kafka/kafka_client.h"

#include <array>
#include <fstream>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "simurgh/base/log.h"

namespace simurgh {
namespace {

constexpr char kRefreshInterval[] = "topic.metadata.refresh.interval.ms";
constexpr size_t kMaxNamedTopics = 20;

// What users may change. librdkafka would read ahead 64 MiB, and 50 MiB of each broker.
const std::map<std::string, std::string> kDefaults{
    {"client.id", "simurgh-feed"},           {kRefreshInterval, "30000"},
    {"queued.max.messages.kbytes", "32768"}, {"fetch.max.bytes", "16777216"},
    {"socket.keepalive.enable", "true"},     {"reconnect.backoff.max.ms", "2000"}};

// What exact positions depend on: offsets are kept with the model, not with the brokers.
const std::map<std::string, std::string> kOwned{{"enable.auto.commit", "false"},
                                                {"enable.auto.offset.store", "false"},
                                                {"enable.partition.eof", "true"},
                                                {"auto.offset.reset", "error"},
                                                {"allow.auto.create.topics", "false"}};

// They would have no effect, or change what is read.
const std::set<std::string> kUnused{
    "bootstrap.servers", "metadata.broker.list",    "group.id",
    "group.instance.id", "auto.commit.interval.ms", "offset.store.method"};

StatusOr<std::map<std::string, std::string>> ReadProperties(const KafkaConfig& config) {
  std::map<std::string, std::string> properties = config.properties;
  if (config.properties_file.empty()) return properties;
  std::ifstream file(config.properties_file);
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const std::string text(absl::StripAsciiWhitespace(line));
    if (text.empty() || text[0] == '#') continue;
    const size_t sign = text.find('=');
    if (sign == std::string::npos || sign == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(config.properties_file, ":", number, ": not NAME=VALUE; correct the line"));
    }
    const auto strip = [](const std::string& part) {
      return std::string(absl::StripAsciiWhitespace(part));
    };
    properties[strip(text.substr(0, sign))] = strip(text.substr(sign + 1));
  }
  if (file.eof()) return properties;
  return absl::InvalidArgumentError(
      absl::StrCat(config.properties_file, ": cannot be read; check data.kafka.properties_file"));
}

void Log(const rd_kafka_t* /*kafka*/, int level, const char* /*facility*/, const char* text) {
  constexpr int kWarning = 4;  // Of syslog; smaller is worse. Errors come by another callback.
  if (level <= kWarning) spdlog::debug("kafka: {}", text);
}

}  // namespace

StatusOr<std::unique_ptr<KafkaClient>> KafkaClient::Create(const KafkaConfig& config) {
  std::unique_ptr<KafkaClient> client(new KafkaClient());
  rd_kafka_conf_t* const conf = rd_kafka_conf_new();
  Status configured = client->Configure(config, conf);
  std::array<char, 512> error{};
  if (configured.ok()) {
    client->kafka_ = rd_kafka_new(RD_KAFKA_CONSUMER, conf, error.data(), error.size());
    if (client->kafka_ == nullptr) {
      configured = absl::InvalidArgumentError(
          absl::StrCat("data.kafka: ", error.data(), "; correct data.kafka.properties"));
    }
  }
  if (!configured.ok()) {
    rd_kafka_conf_destroy(conf);
    return configured;
  }
  client->queue_ = rd_kafka_queue_new(client->kafka_);
  return client;
}

Status KafkaClient::Configure(const KafkaConfig& config, rd_kafka_conf_t* conf) {
  SIMURGH_ASSIGN_OR_RETURN(auto properties, ReadProperties(config));
  std::erase_if(properties, [](const auto& property) {
    const bool is_owned = kOwned.contains(property.first) || kUnused.contains(property.first);
    if (is_owned) {
      spdlog::warn("data.kafka.properties: {} is set by the program and left out; remove it",
                   property.first);
    }
    return is_owned;
  });
  properties.insert(kDefaults.begin(), kDefaults.end());
  properties.insert(kOwned.begin(), kOwned.end());
  brokers_ = absl::StrJoin(config.brokers, ",");
  properties["bootstrap.servers"] = brokers_;
  for (const auto& [name, value] : properties) {
    std::array<char, 512> error{};
    if (rd_kafka_conf_set(conf, name.c_str(), value.c_str(), error.data(), error.size()) ==
        RD_KAFKA_CONF_OK) {
      continue;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("data.kafka.properties: ", name, ": ", error.data(),
                     "; see CONFIGURATION.md of librdkafka for its properties"));
  }
  int64_t interval = 0;
  if (absl::SimpleAtoi(properties[kRefreshInterval], &interval) && interval > 0) {
    refresh_interval_ = std::chrono::milliseconds(interval);
  }
  rd_kafka_conf_set_opaque(conf, this);
  rd_kafka_conf_set_log_cb(conf, Log);
  rd_kafka_conf_set_error_cb(conf, [](rd_kafka_t*, int, const char* reason, void* self) {
    static_cast<KafkaClient*>(self)->problem_ = reason;
  });
  return absl::OkStatus();
}

KafkaClient::~KafkaClient() {
  for (const auto& [name, topic] : topics_) rd_kafka_topic_destroy(topic);
  if (queue_ != nullptr) rd_kafka_queue_destroy(queue_);
  if (kafka_ != nullptr) rd_kafka_destroy(kafka_);
}

rd_kafka_topic_t* KafkaClient::TopicOf(const std::string& topic) {
  rd_kafka_topic_t*& handle = topics_[topic];
  if (handle == nullptr) handle = rd_kafka_topic_new(kafka_, topic.c_str(), nullptr);
  return handle;
}

Status KafkaClient::StatusOf(rd_kafka_resp_err_t error, const std::string& what) const {
  if (error == RD_KAFKA_RESP_ERR_NO_ERROR) return absl::OkStatus();
  const std::string text =
      absl::StrCat("kafka at ", brokers_, ": ", what, ": ", rd_kafka_err2str(error));
  if (error == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED ||
      error == RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED) {
    return absl::PermissionDeniedError(
        absl::StrCat(text, "; allow this user of data.kafka.properties to describe and read it"));
  }
  return absl::UnavailableError(text);
}

StatusOr<int32_t> KafkaClient::PartitionsOf(const std::string& topic,
                                            std::chrono::milliseconds patience) {
  const rd_kafka_metadata_t* metadata = nullptr;
  const auto milliseconds = static_cast<int>(patience.count());
  const auto error =
      rd_kafka_metadata(kafka_, /*all_topics=*/0, TopicOf(topic), &metadata, milliseconds);
  SIMURGH_RETURN_IF_ERROR(StatusOf(error, topic));
  rd_kafka_resp_err_t of_topic = RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
  int32_t partitions = 0;
  for (int i = 0; i < metadata->topic_cnt; ++i) {
    of_topic = metadata->topics[i].err;
    partitions = metadata->topics[i].partition_cnt;
  }
  rd_kafka_metadata_destroy(metadata);
  const bool is_unknown = of_topic == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART ||
                          of_topic == RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION;
  if (!is_unknown) {
    SIMURGH_RETURN_IF_ERROR(StatusOf(of_topic, topic));
    return partitions;
  }
  std::vector<std::string> others;
  if (rd_kafka_metadata(kafka_, /*all_topics=*/1, nullptr, &metadata, milliseconds) ==
      RD_KAFKA_RESP_ERR_NO_ERROR) {
    for (int i = 0; i < metadata->topic_cnt && others.size() < kMaxNamedTopics; ++i) {
      if (metadata->topics[i].err == RD_KAFKA_RESP_ERR_NO_ERROR) {
        others.emplace_back(metadata->topics[i].topic);
      }
    }
    rd_kafka_metadata_destroy(metadata);
  }
  return absl::NotFoundError(
      absl::StrCat("kafka at ", brokers_, ": there is no topic '", topic,
                   "'; correct data.kafka.topics or create it. Topics that this user may see: ",
                   others.empty() ? "none" : absl::StrJoin(others, ", ")));
}

StatusOr<KafkaClient::Watermarks> KafkaClient::WatermarksOf(const std::string& topic,
                                                            int32_t partition,
                                                            std::chrono::milliseconds patience) {
  Watermarks marks;
  const auto error =
      rd_kafka_query_watermark_offsets(kafka_, topic.c_str(), partition, &marks.first, &marks.end,
                                       static_cast<int>(patience.count()));
  SIMURGH_RETURN_IF_ERROR(StatusOf(error, absl::StrCat(topic, "/", partition)));
  return marks;
}

KafkaClient::Watermarks KafkaClient::LastWatermarksOf(const std::string& topic, int32_t partition) {
  Watermarks marks;
  const auto error =
      rd_kafka_get_watermark_offsets(kafka_, topic.c_str(), partition, &marks.first, &marks.end);
  return error == RD_KAFKA_RESP_ERR_NO_ERROR && marks.end >= 0 ? marks : Watermarks();
}

Status KafkaClient::Start(const std::string& topic, int32_t partition, int64_t offset) {
  if (rd_kafka_consume_start_queue(TopicOf(topic), partition, offset, queue_) == 0) {
    return absl::OkStatus();
  }
  return StatusOf(rd_kafka_last_error(), absl::StrCat(topic, "/", partition));
}

void KafkaClient::Stop(const std::string& topic, int32_t partition) {
  rd_kafka_consume_stop(TopicOf(topic), partition);
}

size_t KafkaClient::Read(std::chrono::milliseconds patience, rd_kafka_message_t** messages,
                         size_t count) {
  const ssize_t read =
      rd_kafka_consume_batch_queue(queue_, static_cast<int>(patience.count()), messages, count);
  return read > 0 ? static_cast<size_t>(read) : 0;
}

std::string KafkaClient::TakeProblem() {
  rd_kafka_poll(kafka_, 0);
  return std::exchange(problem_, {});
}

}  // namespace simurgh
