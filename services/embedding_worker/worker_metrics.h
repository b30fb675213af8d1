#pragma once

#include <vector>

#include "simurgh/config/cluster_config.h"
#include "simurgh/telemetry/metrics.h"

namespace simurgh {

// What an embedding-worker counts.
struct WorkerMetrics {
  WorkerMetrics(MetricRegistry& registry, const ClusterConfig& config);

  Gauge& buffered_batches;
  Gauge& buffered_bytes;
  Counter& expired_batches;
  Counter& occurrences;
  Counter& unique_rows;
  Counter& hot_row_hits;
  Counter& hot_row_misses;
  Counter& hot_row_evictions;
  Gauge& hot_rows;
  Histogram& hot_row_age_steps;
  Histogram& plan_seconds;
  Histogram& pull_seconds;  // Of all servers.
  Histogram& pool_seconds;
  Histogram& unpool_seconds;
  Histogram& push_seconds;                     // Of all servers.
  std::vector<Counter*> non_finite_gradients;  // By feature: batches whose gradient was dropped.
};

}  // namespace simurgh
