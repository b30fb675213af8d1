#pragma once

#include <memory>
#include <span>
#include <vector>

#include "services/embedding_ps/table_metrics.h"
#include "simurgh/config/cluster_config.h"
#include "simurgh/table/partition.h"
#include "simurgh/telemetry/metrics.h"

namespace simurgh {

// Metrics of an embedding-ps.
//
// Threads: call OnPull() and OnPush() on the partition's thread, after the request. Partitions do
// not contend.
class ServerMetrics {
 public:
  // server: index among the instances; several may share a registry.
  ServerMetrics(MetricRegistry& registry, const ClusterConfig& config, size_t server);

  // groups: empty for evaluation pulls.
  void OnPull(size_t partition, const Partition& rows, std::span<const PullGroup> groups,
              const PullReport& report);
  void OnPush(const PushReport& report);

 private:
  void SetSizes(size_t partition, const Partition& rows);

  Counter& found_;
  Counter& created_;
  Counter& unseen_;
  Counter& rejected_admission_;
  Counter& evicted_;
  Counter& rejected_full_;
  Counter& updated_;
  Counter& missing_;
  Counter& repeated_;
  std::vector<Gauge*> rows_;  // [partition * tables + table]
  std::vector<Gauge*> bytes_;
  std::vector<std::unique_ptr<TableMetrics>> tables_;
};

}  // namespace simurgh
