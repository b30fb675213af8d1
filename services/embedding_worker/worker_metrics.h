#pragma once

#include <vector>

#include "simurgh/config/cluster_config.h"
#include "simurgh/telemetry/metrics.h"

namespace simurgh {

struct WorkerMetrics {
  WorkerMetrics(MetricRegistry& registry, const ClusterConfig& config);

  Gauge& buffered_batches;
  Gauge& buffered_bytes;
  Counter& expired_batches;
  Counter& occurrences;
  Counter& unique_rows;
  Counter& row_cache_hits;
  Counter& row_cache_misses;
  Counter& row_cache_evictions;
  Gauge& row_cache;
  Histogram& row_cache_age_steps;
  Histogram& plan_seconds;
  Histogram& pull_seconds;  // All servers together.
  Histogram& pool_seconds;
  Histogram& unpool_seconds;
  Histogram& push_seconds;                     // All servers together.
  std::vector<Counter*> non_finite_gradients;  // By feature: dropped gradients.
};

}  // namespace simurgh
