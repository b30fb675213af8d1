#include "kafka/kafka_stream.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <librdkafka/rdkafka.h>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/log.h"

namespace simurgh {
namespace {

const CounterFamily kKafkaLostRecordsTotal(
    "simurgh_loader_kafka_lost_records_total",
    "Offsets that were skipped, since the brokers had deleted them.");
const GaugeFamily kKafkaLagRecords("simurgh_loader_kafka_lag_records",
                                   "Offsets from the next record to read to the partition's end.",
                                   {"topic", "partition"});

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPatience{50};  // Longest wait for a first record.
constexpr std::chrono::milliseconds kCallPatience{2'000};
constexpr std::chrono::milliseconds kProbePatience{200};
constexpr std::chrono::milliseconds kPause{200};  // Between attempts to reach the brokers.
constexpr std::chrono::seconds kProbeInterval{1};
constexpr std::chrono::seconds kLogInterval{10};
// Brokers may not know a topic yet that has just been created.
constexpr std::chrono::seconds kTopicPatience{3};
// Messages taken at once; they are not in librdkafka's bound of bytes.
constexpr size_t kTaken = 64;
// Series of lags. Further partitions share one.
constexpr size_t kLagSeries = 256;
constexpr char kRefreshInterval[] = "topic.metadata.refresh.interval.ms";
constexpr size_t kMaxNamedTopics = 20;

// Defaults that users may change. librdkafka's own read ahead 64 MiB, and 50 MiB of each broker.
const std::map<std::string, std::string> kDefaults{
    {"client.id", "simurgh-feed"},           {kRefreshInterval, "30000"},
    {"queued.max.messages.kbytes", "32768"}, {"fetch.max.bytes", "16777216"},
    {"socket.keepalive.enable", "true"},     {"reconnect.backoff.max.ms", "2000"}};

// Fixed, because exact positions need them: the model keeps the offsets, not the brokers.
const std::map<std::string, std::string> kOwned{{"enable.auto.commit", "false"},
                                                {"enable.auto.offset.store", "false"},
                                                {"enable.partition.eof", "true"},
                                                {"auto.offset.reset", "error"},
                                                {"allow.auto.create.topics", "false"}};

// Properties that would have no effect, or change what is read.
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
  constexpr int kWarning = 4;  // A syslog level; smaller is worse. Errors come by another callback.
  if (level <= kWarning) spdlog::debug("kafka: {}", text);
}

// A handle of librdkafka for reading, and its topics.
//
// Threads: one owner.
class KafkaClient {
 public:
  struct Watermarks {
    int64_t first = 0;  // Offset of the first record that the partition has.
    int64_t end = 0;    // Offset of the next record that the partition will get.
  };

  // Errors: INVALID_ARGUMENT for a property that librdkafka refuses, and for a file of properties
  // that cannot be read.
  static StatusOr<std::unique_ptr<KafkaClient>> Create(const KafkaConfig& config) {
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
  ~KafkaClient() {
    for (const auto& [name, topic] : topics_) rd_kafka_topic_destroy(topic);
    if (queue_ != nullptr) rd_kafka_queue_destroy(queue_);
    if (kafka_ != nullptr) rd_kafka_destroy(kafka_);
  }

  // Number of partitions of a topic. Errors: NOT_FOUND without such a topic, with what topics there
  // are; PERMISSION_DENIED; UNAVAILABLE.
  StatusOr<int32_t> PartitionsOf(const std::string& topic, std::chrono::milliseconds patience) {
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
  // Errors: UNAVAILABLE.
  StatusOr<Watermarks> WatermarksOf(const std::string& topic, int32_t partition,
                                    std::chrono::milliseconds patience) {
    Watermarks marks;
    const auto error =
        rd_kafka_query_watermark_offsets(kafka_, topic.c_str(), partition, &marks.first, &marks.end,
                                         static_cast<int>(patience.count()));
    SIMURGH_RETURN_IF_ERROR(StatusOf(error, absl::StrCat(topic, "/", partition)));
    return marks;
  }
  // Watermarks as of the last response with records of the partition; {} before the first one.
  Watermarks LastWatermarksOf(const std::string& topic, int32_t partition) {
    Watermarks marks;
    const auto error =
        rd_kafka_get_watermark_offsets(kafka_, topic.c_str(), partition, &marks.first, &marks.end);
    return error == RD_KAFKA_RESP_ERR_NO_ERROR && marks.end >= 0 ? marks : Watermarks();
  }

  // Reads the partition from the offset on.
  Status Start(const std::string& topic, int32_t partition, int64_t offset) {
    if (rd_kafka_consume_start_queue(TopicOf(topic), partition, offset, queue_) == 0) {
      return absl::OkStatus();
    }
    return StatusOf(rd_kafka_last_error(), absl::StrCat(topic, "/", partition));
  }
  void Stop(const std::string& topic, int32_t partition) {
    rd_kafka_consume_stop(TopicOf(topic), partition);
  }

  // Returns up to `count` messages or errors of partitions; the caller destroys them. Waits for the
  // first.
  size_t Read(std::chrono::milliseconds patience, rd_kafka_message_t** messages, size_t count) {
    const ssize_t read =
        rd_kafka_consume_batch_queue(queue_, static_cast<int>(patience.count()), messages, count);
    return read > 0 ? static_cast<size_t>(read) : 0;
  }
  // Returns the last problem with the brokers since the last call; empty if there was none.
  std::string TakeProblem() {
    rd_kafka_poll(kafka_, 0);
    return std::exchange(problem_, {});
  }
  std::chrono::milliseconds refresh_interval() const { return refresh_interval_; }
  const std::string& brokers() const { return brokers_; }

 private:
  KafkaClient() = default;

  Status Configure(const KafkaConfig& config, rd_kafka_conf_t* conf) {
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
  rd_kafka_topic_t* TopicOf(const std::string& topic) {
    rd_kafka_topic_t*& handle = topics_[topic];
    if (handle == nullptr) handle = rd_kafka_topic_new(kafka_, topic.c_str(), nullptr);
    return handle;
  }
  Status StatusOf(rd_kafka_resp_err_t error, const std::string& what) const {
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

  std::string brokers_;
  std::chrono::milliseconds refresh_interval_{30'000};
  rd_kafka_t* kafka_ = nullptr;
  rd_kafka_queue_t* queue_ = nullptr;
  std::map<std::string, rd_kafka_topic_t*> topics_;
  std::string problem_;
};

class KafkaStream final : public RecordStream {
 public:
  KafkaStream(const KafkaConfig& config, KafkaStreamOptions options,
              std::unique_ptr<KafkaClient> client, MetricRegistry& registry)
      : config_(config),
        options_(std::move(options)),
        registry_(registry),
        lost_(registry.Get(kKafkaLostRecordsTotal)),
        client_(std::move(client)),
        offsets_(options_.begin) {}

  ~KafkaStream() override {
    DropMessages();
    for (const auto& [name, one] : partitions_) client_->Stop(one.topic, one.number);
  }

  StatusOr<std::optional<Record>> Next() override {
    while (true) {
      if (stopped_) return absl::CancelledError("reading was stopped");
      if (next_ == taken_.size()) {
        const bool is_first = !found_;  // The caller gets to know where partitions begin.
        SIMURGH_RETURN_IF_ERROR(LookAround());
        if (is_first || has_ended() || !Take()) return std::nullopt;
        continue;
      }
      const rd_kafka_message_t& message = *taken_[next_++];
      if (message.rkt == nullptr) continue;  // A problem that TakeProblem() tells, too.
      const auto found =
          partitions_.find(absl::StrCat(rd_kafka_topic_name(message.rkt), "/", message.partition));
      if (found == partitions_.end()) continue;
      if (message.err != RD_KAFKA_RESP_ERR_NO_ERROR) {
        SIMURGH_RETURN_IF_ERROR(OnError(found->first, found->second, message));
        continue;
      }
      if (auto record = RecordOf(found->first, found->second, message)) return record;
    }
  }

  bool has_ended() const override {
    return config_.stop_at_end && found_ && std::ranges::all_of(partitions_, [](const auto& one) {
             return one.second.next >= one.second.end;
           });
  }
  const StreamOffsets& offsets() const override { return offsets_; }
  void Stop() override { stopped_ = true; }

 private:
  struct Partition {
    std::string topic;
    int32_t number = 0;
    uint64_t next = 0;          // Offset of the next record.
    uint64_t end = UINT64_MAX;  // Offset to stop at; set with stop_at_end.
    bool at_end = false;        // No record is left to read.
    bool is_read = false;       // False: the brokers did not answer.
    Gauge* lag = nullptr;
  };

  void DropMessages() {
    for (rd_kafka_message_t* const message : taken_) rd_kafka_message_destroy(message);
    taken_.clear();
    next_ = 0;
  }

  // Takes messages. Returns false if there are none.
  bool Take() {
    DropMessages();
    std::array<rd_kafka_message_t*, kTaken> messages;
    const size_t count = client_->Read(kPatience, messages.data(), messages.size());
    taken_.assign(messages.begin(), messages.begin() + static_cast<ptrdiff_t>(count));
    if (count > 0 && taken_[0]->err == RD_KAFKA_RESP_ERR_NO_ERROR) SetState(absl::OkStatus());
    return count > 0;
  }

  std::optional<Record> RecordOf(const std::string& name, Partition& partition,
                                 const rd_kafka_message_t& message) {
    const auto offset = static_cast<uint64_t>(message.offset);
    if (offset >= partition.end) {
      partition.next = std::max(partition.next, partition.end);
      return std::nullopt;
    }
    partition.next = std::max(partition.next, offset + 1);
    SetAtEnd(partition, false);
    Record record{.value = std::nullopt, .partition = name, .offset = offset};
    if (message.payload != nullptr) {
      record.value.emplace(static_cast<const char*>(message.payload), message.len);
    }
    return record;
  }

  Status OnError(const std::string& name, Partition& partition, const rd_kafka_message_t& message) {
    switch (message.err) {
      case RD_KAFKA_RESP_ERR__PARTITION_EOF:
        // The end can lie behind records that are never delivered, such as those of transactions.
        partition.next = std::max(partition.next, static_cast<uint64_t>(message.offset));
        Advance(offsets_, {{name, partition.next}});
        SetAtEnd(partition, true);
        SetState(absl::OkStatus());
        return absl::OkStatus();
      case RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET:
      case RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE:
        client_->Stop(partition.topic, partition.number);
        partition.is_read = false;
        return BeginOrWait(name, partition);
      case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
        return absl::PermissionDeniedError(absl::StrCat(
            "kafka at ", client_->brokers(), ": ", name, ": ", rd_kafka_message_errstr(&message),
            "; allow this user of data.kafka.properties to read it"));
      default:
        SetState(absl::UnavailableError(absl::StrCat("kafka at ", client_->brokers(), ": ", name,
                                                     ": ", rd_kafka_message_errstr(&message))));
        return absl::OkStatus();
    }
  }

  // Finds partitions, at first and at intervals, and reports lags and lost brokers.
  Status LookAround() {
    const auto now = Clock::now();
    if (const std::string problem = client_->TakeProblem(); !problem.empty()) {
      SetState(
          absl::UnavailableError(absl::StrCat("kafka at ", client_->brokers(), ": ", problem)));
    }
    if (!found_) {
      SIMURGH_RETURN_IF_ERROR(Find(kCallPatience));
      if (!found_) std::this_thread::sleep_for(kPause);
      return absl::OkStatus();
    }
    if (!state_.ok() && now - probed_ > kProbeInterval) {
      probed_ = now;
      for (auto& [name, partition] : partitions_) {
        if (!partition.is_read) SIMURGH_RETURN_IF_ERROR(BeginOrWait(name, partition));
      }
      if (client_->PartitionsOf(config_.topics[0], kProbePatience).ok() &&
          client_->TakeProblem().empty()) {
        SetState(absl::OkStatus());
      }
    }
    // With stop_at_end, training reads only the partitions that were there at first.
    if (!config_.stop_at_end && now - refreshed_ > client_->refresh_interval()) {
      SIMURGH_RETURN_IF_ERROR(Find(kProbePatience));
    }
    if (now - lags_set_ > kProbeInterval) SetLags(now);
    return absl::OkStatus();
  }

  // Begins to read the partitions that are new. found_: all topics have answered.
  Status Find(std::chrono::milliseconds patience) {
    refreshed_ = Clock::now();
    const bool is_first = !found_;
    for (const std::string& topic : config_.topics) {
      const StatusOr<int32_t> count = client_->PartitionsOf(topic, patience);
      if (!count.ok()) {
        const bool waits = absl::IsUnavailable(count.status()) ||
                           (absl::IsNotFound(count.status()) &&
                            (!is_first || Clock::now() - created_ < kTopicPatience));
        if (!waits) return count.status();
        SetState(count.status());
        return absl::OkStatus();
      }
      for (int32_t number = 0; number < *count; ++number) {
        if (static_cast<uint32_t>(number) % options_.shares != options_.share) continue;
        const std::string name = absl::StrCat(topic, "/", number);
        if (partitions_.contains(name)) continue;
        Partition partition{.topic = topic, .number = number};
        SIMURGH_RETURN_IF_ERROR(BeginOrWait(name, partition));
        if (!partition.is_read) return absl::OkStatus();
        partition.lag = &LagOf(name, partition);
        partitions_.emplace(name, std::move(partition));
      }
    }
    if (is_first || partitions_.size() != shown_) {
      shown_ = partitions_.size();
      spdlog::info("reading kafka: brokers={} topics={} partitions={}", client_->brokers(),
                   config_.topics.size(), shown_);
    }
    if (is_first) SetState(absl::OkStatus());
    found_ = true;
    return absl::OkStatus();
  }

  // Calls Begin(). If the brokers do not answer, a later call repeats it.
  Status BeginOrWait(const std::string& name, Partition& partition) {
    const Status begun = Begin(name, partition);
    partition.is_read = begun.ok();
    if (!absl::IsUnavailable(begun)) return begun;
    SetState(begun);
    return absl::OkStatus();
  }

  // Reads the partition from its position on.
  Status Begin(const std::string& name, Partition& partition) {
    SIMURGH_ASSIGN_OR_RETURN(
        const KafkaClient::Watermarks marks,
        client_->WatermarksOf(partition.topic, partition.number, kCallPatience));
    const auto first = static_cast<uint64_t>(marks.first);
    const auto end = static_cast<uint64_t>(marks.end);
    if (config_.stop_at_end && partition.end == UINT64_MAX) partition.end = end;
    if (const auto known = offsets_.find(name); known != offsets_.end()) {
      partition.next = std::max(partition.next, known->second.offset);
    } else {
      // Partitions that were added to a topic are read from their beginning.
      const auto others = options_.begin.lower_bound(partition.topic + "/");
      const bool is_new = found_ || (others != options_.begin.end() &&
                                     others->first.starts_with(partition.topic + "/"));
      const bool latest = config_.start == KafkaConfig::Start::kLatest && !is_new;
      partition.next = latest ? end : first;
    }
    if (partition.next < first || partition.next > end) {
      SIMURGH_RETURN_IF_ERROR(OnLost(name, partition, first, end));
    }
    Advance(offsets_, {{name, partition.next}});
    SetAtEnd(partition, partition.next >= end);
    return client_->Start(partition.topic, partition.number, static_cast<int64_t>(partition.next));
  }

  Status OnLost(const std::string& name, Partition& partition, uint64_t first, uint64_t end) {
    const bool is_deleted = partition.next < first;
    const std::string what =
        absl::StrCat("kafka at ", client_->brokers(), ": ", name, ": training continues at offset ",
                     partition.next, ", but the partition has offsets ", first, " to ", end,
                     is_deleted ? ": its retention has deleted the records between"
                                : ": its end was lost, or the topic was created anew");
    if (!is_deleted || !config_.skip_lost) {
      return absl::OutOfRangeError(absl::StrCat(
          what, is_deleted ? "; raise the topic's retention, or set data.kafka.on_lost_records: "
                             "skip to go on without them"
                           : "; name another topic, or train a new model"));
    }
    spdlog::warn("{}; skipped {} offsets", what, first - partition.next);
    lost_.Add(first - partition.next);
    partition.next = first;
    return absl::OkStatus();
  }

  void SetAtEnd(Partition& partition, bool at_end) {
    if (partition.at_end == at_end) return;
    partition.at_end = at_end;
    ends_ += at_end ? 1 : -1;
  }

  Gauge& LagOf(const std::string& name, const Partition& partition) {
    const bool has_own = lag_series_.size() < kLagSeries;
    const std::string topic = has_own ? partition.topic : "others";
    const std::string number = has_own ? absl::StrCat(partition.number) : "others";
    if (has_own) lag_series_.insert(name);
    return registry_.Get(kKafkaLagRecords, {topic, number});
  }

  void SetLags(Clock::time_point now) {
    lags_set_ = now;
    std::map<Gauge*, double> lags;
    for (const auto& [name, partition] : partitions_) {
      const auto marks = client_->LastWatermarksOf(partition.topic, partition.number);
      const auto end = static_cast<uint64_t>(marks.end);
      lags[partition.lag] += end > partition.next ? static_cast<double>(end - partition.next) : 0;
    }
    for (const auto& [gauge, lag] : lags) gauge->Set(lag);
  }

  void SetState(const Status& state) {
    const auto now = Clock::now();
    const bool changed = state.ok() != state_.ok();
    if (!changed && state == state_) return;
    state_ = state;
    if (options_.on_state) options_.on_state(state);
    if (state.ok()) {
      spdlog::info("kafka at {}: connected again", client_->brokers());
    } else if (changed || now - logged_ > kLogInterval) {
      logged_ = now;
      spdlog::warn("{}; keeps trying", std::string(state.message()));
    }
  }

  const KafkaConfig config_;
  const KafkaStreamOptions options_;
  MetricRegistry& registry_;
  Counter& lost_;
  std::unique_ptr<KafkaClient> client_;
  std::atomic<bool> stopped_ = false;
  std::map<std::string, Partition> partitions_;  // The share's partitions, by "topic/partition".
  StreamOffsets offsets_;
  std::set<std::string> lag_series_;
  std::vector<rd_kafka_message_t*> taken_;
  size_t next_ = 0;  // Index of the next message in `taken_`.
  bool found_ = false;
  size_t shown_ = 0;
  int ends_ = 0;
  Status state_;
  const Clock::time_point created_ = Clock::now();
  Clock::time_point probed_ = created_;
  Clock::time_point refreshed_ = created_;
  Clock::time_point lags_set_ = created_;
  Clock::time_point logged_ = created_;
};

}  // namespace

StatusOr<std::unique_ptr<RecordStream>> OpenKafkaStream(const KafkaConfig& config,
                                                        KafkaStreamOptions options,
                                                        MetricRegistry& registry) {
  SIMURGH_ASSIGN_OR_RETURN(auto client, KafkaClient::Create(config));
  return std::make_unique<KafkaStream>(config, std::move(options), std::move(client), registry);
}

}  // namespace simurgh
