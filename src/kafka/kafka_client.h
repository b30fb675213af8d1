#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <librdkafka/rdkafka.h>

#include "simurgh/base/status.h"
#include "simurgh/config/data_config.h"

namespace simurgh {

// A handle of librdkafka for reading, and its topics.
//
// Threads: one owner.
class KafkaClient {
 public:
  struct Watermarks {
    int64_t first = 0;  // Offset of the first record that the partition has.
    int64_t end = 0;    // Of the next record that it will get.
  };

  // Errors: INVALID_ARGUMENT for a property that librdkafka refuses, and for a file of properties
  // that cannot be read.
  static StatusOr<std::unique_ptr<KafkaClient>> Create(const KafkaConfig& config);
  ~KafkaClient();

  // Number of partitions of a topic. Errors: NOT_FOUND without such a topic, with what topics there
  // are; PERMISSION_DENIED; UNAVAILABLE.
  StatusOr<int32_t> PartitionsOf(const std::string& topic, std::chrono::milliseconds patience);
  // Errors: UNAVAILABLE.
  StatusOr<Watermarks> WatermarksOf(const std::string& topic, int32_t partition,
                                    std::chrono::milliseconds patience);
  // The same as of the last response with records of the partition.
  Watermarks LastWatermarksOf(const std::string& topic, int32_t partition);

  // Reads the partition from the offset on.
  Status Start(const std::string& topic, int32_t partition, int64_t offset);
  void Stop(const std::string& topic, int32_t partition);

  // Up to `count` messages or errors of partitions; the caller destroys them. Waits for the first.
  size_t Read(std::chrono::milliseconds patience, rd_kafka_message_t** messages, size_t count);
  // The last problem with the brokers, since the last call; empty: none.
  std::string TakeProblem();
  std::chrono::milliseconds refresh_interval() const { return refresh_interval_; }
  const std::string& brokers() const { return brokers_; }

 private:
  KafkaClient() = default;

  Status Configure(const KafkaConfig& config, rd_kafka_conf_t* conf);
  rd_kafka_topic_t* TopicOf(const std::string& topic);
  Status StatusOf(rd_kafka_resp_err_t error, const std::string& what) const;

  std::string brokers_;
  std::chrono::milliseconds refresh_interval_{30'000};
  rd_kafka_t* kafka_ = nullptr;
  rd_kafka_queue_t* queue_ = nullptr;
  std::map<std::string, rd_kafka_topic_t*> topics_;
  std::string problem_;
};

}  // namespace simurgh
