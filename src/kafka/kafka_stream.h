#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/status.h"
#include "config/data_config.h"
#include "data/reading/record_stream.h"
#include "telemetry/metrics.h"

namespace simurgh {

struct KafkaStreamOptions {
  // Partitions are dealt among readers: those with a number of `share` modulo `shares`.
  uint32_t share = 0;
  uint32_t shares = 1;
  StreamOffsets begin;  // Positions of partitions; others begin where the configuration says.
  // Called on the owner's thread: with the reason if there may be no records for long, such as lost
  // brokers, and with ok once there are some again.
  std::function<void(const Status&)> on_state;
};

// The records of topics of Apache Kafka, without a consumer group and without commits.
//
// Without brokers the stream keeps trying. It looks for new partitions every
// topic.metadata.refresh.interval.ms. librdkafka's properties bound its read-ahead.
//
// Errors of Next(): NOT_FOUND for a topic that does not exist; OUT_OF_RANGE for offsets that the
// brokers no longer have, unless config.skip_lost; PERMISSION_DENIED. All name topic or partition.
//
// Lifetime: the registry outlives it. Threads: see RecordStream.
// Errors: INVALID_ARGUMENT for a property that librdkafka refuses.
StatusOr<std::unique_ptr<RecordStream>> OpenKafkaStream(const KafkaConfig& config,
                                                        KafkaStreamOptions options,
                                                        MetricRegistry& registry);

}  // namespace simurgh
