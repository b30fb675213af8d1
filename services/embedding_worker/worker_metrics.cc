#include "services/embedding_worker/worker_metrics.h"

namespace simurgh {
namespace {

constexpr uint64_t kMaxAgeSteps = 64;

Histogram& StageSeconds(MetricRegistry& registry, const char* stage) {
  return registry.GetHistogram("simurgh_worker_stage_seconds", "Time a batch spends in a stage.",
                               LatencyBuckets(), {{"stage", stage}});
}

}  // namespace

WorkerMetrics::WorkerMetrics(MetricRegistry& registry, const ClusterConfig& config)
    : buffered_batches(registry.GetGauge("simurgh_worker_forward_buffer_batches",
                                         "Batches between submit and acknowledged push.")),
      buffered_bytes(
          registry.GetGauge("simurgh_worker_forward_buffer_bytes", "Memory of buffered batches.")),
      expired_batches(registry.GetCounter("simurgh_worker_expired_batches_total",
                                          "Batches dropped after embedding_worker.batch_expiry.")),
      occurrences(registry.GetCounter("simurgh_worker_occurrences_total",
                                      "Ids of batches with an acknowledged push or an evaluation "
                                      "pull.")),
      unique_rows(registry.GetCounter("simurgh_worker_unique_rows_total",
                                      "Distinct rows of batches with an acknowledged push or an "
                                      "evaluation pull.")),
      row_cache_hits(registry.GetCounter("simurgh_worker_row_cache_hits_total",
                                         "Rows that pulls found in the row cache.")),
      row_cache_misses(registry.GetCounter("simurgh_worker_row_cache_misses_total",
                                           "Rows that pulls requested from servers because the row "
                                           "cache lacked them.")),
      row_cache_evictions(
          registry.GetCounter("simurgh_worker_row_cache_evictions_total",
                              "Rows evicted from the row cache while still valid.")),
      row_cache(registry.GetGauge("simurgh_worker_row_cache_rows", "Rows in the row cache.")),
      row_cache_age_steps(registry.GetHistogram("simurgh_worker_row_cache_age_steps",
                                                "Age of cached rows that pulls found.",
                                                PowersOfTwo(kMaxAgeSteps))),
      plan_seconds(StageSeconds(registry, "plan")),
      pull_seconds(StageSeconds(registry, "pull")),
      pool_seconds(StageSeconds(registry, "pool")),
      unpool_seconds(StageSeconds(registry, "unpool")),
      push_seconds(StageSeconds(registry, "push")) {
  for (const FeatureConfig& feature : config.features) {
    non_finite_gradients.push_back(
        &registry.GetCounter("simurgh_worker_non_finite_gradients_total",
                             "Batches whose gradient of a feature was dropped: it held NaN or "
                             "infinity, or overflowed in a row's sum.",
                             {{"feature", feature.name}}));
  }
}

}  // namespace simurgh
