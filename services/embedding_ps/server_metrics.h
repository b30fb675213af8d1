#pragma once

#include <cstdint>
#include <vector>

#include "simurgh/config/cluster_config.h"
#include "simurgh/table/partition.h"
#include "simurgh/telemetry/metrics.h"

namespace simurgh {

// What an embedding-ps counts. OnPull and OnPush are called on the partition's thread, after the
// request.
//
// Threads: as said; partitions do not disturb one another.
class ServerMetrics {
 public:
  // server: index of the server; several may share a registry.
  ServerMetrics(MetricRegistry& registry, const ClusterConfig& config, size_t server);

  void OnPull(size_t partition, const Partition& rows, const PullReport& report);
  void OnPush(const PushReport& report);

 private:
  void SetSizes(size_t partition, const Partition& rows);

  Counter& found_;
  Counter& created_;
  Counter& unseen_;
  Counter& refused_;
  Counter& evicted_;
  Counter& updated_;
  Counter& missing_;
  Counter& repeated_;
  std::vector<Gauge*> rows_;  // [partition * tables + table]
  std::vector<Gauge*> bytes_;
};

}  // namespace simurgh
