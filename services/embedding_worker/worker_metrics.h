#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "config/cluster_config.h"
#include "embedding/rank_row_cache.h"
#include "rpc/call.h"
#include "telemetry/metrics.h"
#include "telemetry/timeline.h"

namespace simurgh {

// Observes the time from construction to Stop, and records it as a span of the batch. stage: points
// to static storage.
class StageTimer {
 public:
  StageTimer(Histogram& histogram, const char* stage, const rpc::Trace& trace)
      : histogram_(histogram), stage_(stage), trace_id_(trace.trace_id) {}

  void Stop() {
    const auto now = std::chrono::steady_clock::now();
    histogram_.Observe(now - start_);
    Timeline::Add(
        {.name = stage_, .track = stage_, .begin = start_, .end = now, .trace_id = trace_id_});
  }

 private:
  Histogram& histogram_;
  const char* const stage_;
  const uint64_t trace_id_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

struct WorkerMetrics {
  WorkerMetrics(MetricRegistry& in, const ClusterConfig& config) : registry(in) {
    buffered_batches.Add(0);
    buffered_bytes.Add(0);
    registry
        .GetGauge("simurgh_worker_forward_buffer_limit_batches",
                  "embedding_worker.forward_buffer_batches.")
        .Set(config.embedding_worker.forward_buffer_batches);
    registry
        .GetGauge("simurgh_worker_forward_buffer_limit_bytes",
                  "embedding_worker.forward_buffer_bytes.")
        .Set(static_cast<double>(config.embedding_worker.forward_buffer_bytes));
    for (const FeatureConfig& feature : config.features) {
      non_finite_gradients.push_back(
          &registry.GetCounter("simurgh_worker_non_finite_gradients_total",
                               "Batches whose gradient of a feature was dropped: it held NaN or "
                               "infinity, or overflowed in a row's sum.",
                               {{"feature", feature.name}}));
    }
  }

  Histogram& StageSeconds(const char* stage) const {
    return registry.GetHistogram("simurgh_worker_stage_seconds", "Time a batch spends in a stage.",
                                 LatencyBuckets(), {{"stage", stage}});
  }

  MetricRegistry& registry;
  Gauge& buffered_batches = registry.GetGauge("simurgh_worker_forward_buffer_batches",
                                              "Batches between submit and acknowledged push.");
  Gauge& buffered_bytes =
      registry.GetGauge("simurgh_worker_forward_buffer_bytes", "Memory of buffered batches.");
  Counter& expired_batches =
      registry.GetCounter("simurgh_worker_expired_batches_total",
                          "Batches dropped after embedding_worker.batch_expiry.");
  Counter& occurrences =
      registry.GetCounter("simurgh_worker_occurrences_total",
                          "Ids of batches with an acknowledged push or an evaluation pull.");
  Counter& unique_rows = registry.GetCounter(
      "simurgh_worker_unique_rows_total",
      "Distinct rows of batches with an acknowledged push or an evaluation pull.");
  RowCacheMetrics row_cache{registry};
  Histogram& plan_seconds = StageSeconds("plan");
  Histogram& pull_seconds = StageSeconds("pull");  // Time for all servers together.
  Histogram& pool_seconds = StageSeconds("pool");
  Histogram& unpool_seconds = StageSeconds("unpool");
  Histogram& push_seconds = StageSeconds("push");  // Time for all servers together.
  std::vector<Counter*> non_finite_gradients;      // One per feature.
};

}  // namespace simurgh
