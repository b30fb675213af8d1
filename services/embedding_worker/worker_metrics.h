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
  static inline const GaugeFamily kForwardBufferLimitBatches{
      "simurgh_worker_forward_buffer_limit_batches", "embedding_worker.forward_buffer_batches."};
  static inline const GaugeFamily kForwardBufferLimitBytes{
      "simurgh_worker_forward_buffer_limit_bytes", "embedding_worker.forward_buffer_bytes."};
  static inline const CounterFamily kNonFiniteGradientsTotal{
      "simurgh_worker_non_finite_gradients_total",
      "Batches whose gradient of a feature was dropped: it held NaN or "
      "infinity, or overflowed in a row's sum.",
      {"feature"}};
  static inline const HistogramFamily kStageSeconds{
      "simurgh_worker_stage_seconds", "Time a batch spends in a stage.", {"stage"}};
  static inline const GaugeFamily kForwardBufferBatches{
      "simurgh_worker_forward_buffer_batches", "Batches between submit and acknowledged push."};
  static inline const GaugeFamily kForwardBufferBytes{"simurgh_worker_forward_buffer_bytes",
                                                      "Memory of buffered batches."};
  static inline const CounterFamily kExpiredBatchesTotal{
      "simurgh_worker_expired_batches_total",
      "Batches dropped after embedding_worker.batch_expiry."};
  static inline const CounterFamily kOccurrencesTotal{
      "simurgh_worker_occurrences_total",
      "Ids of batches with an acknowledged push or an evaluation pull."};
  static inline const CounterFamily kUniqueRowsTotal{
      "simurgh_worker_unique_rows_total",
      "Distinct rows of batches with an acknowledged push or an evaluation pull."};

  WorkerMetrics(MetricRegistry& in, const ClusterConfig& config) : registry(in) {
    buffered_batches.Add(0);
    buffered_bytes.Add(0);
    registry.Get(kForwardBufferLimitBatches).Set(config.embedding_worker.forward_buffer_batches);
    registry.Get(kForwardBufferLimitBytes)
        .Set(static_cast<double>(config.embedding_worker.forward_buffer_bytes));
    for (const FeatureConfig& feature : config.features) {
      non_finite_gradients.push_back(&registry.Get(kNonFiniteGradientsTotal, {feature.name}));
    }
  }

  Histogram& StageSeconds(const char* stage) const {
    return registry.Get(kStageSeconds, LatencyBuckets(), {stage});
  }

  MetricRegistry& registry;
  Gauge& buffered_batches = registry.Get(kForwardBufferBatches);
  Gauge& buffered_bytes = registry.Get(kForwardBufferBytes);
  Counter& expired_batches = registry.Get(kExpiredBatchesTotal);
  Counter& occurrences = registry.Get(kOccurrencesTotal);
  Counter& unique_rows = registry.Get(kUniqueRowsTotal);
  RowCacheMetrics row_cache{registry};
  Histogram& plan_seconds = StageSeconds("plan");
  Histogram& pull_seconds = StageSeconds("pull");    // Time for all servers together.
  Histogram& await_seconds = StageSeconds("await");  // The same for pulls that await pushes.
  Histogram& pool_seconds = StageSeconds("pool");
  Histogram& unpool_seconds = StageSeconds("unpool");
  Histogram& push_seconds = StageSeconds("push");  // Time for all servers together.
  std::vector<Counter*> non_finite_gradients;      // One per feature.
};

}  // namespace simurgh
