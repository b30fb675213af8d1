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
          registry.GetGauge("simurgh_worker_forward_buffer_bytes", "Memory of these batches.")),
      expired_batches(
          registry.GetCounter("simurgh_worker_expired_batches_total",
                              "Batches dropped after a time without requests for them.")),
      occurrences(registry.GetCounter("simurgh_worker_occurrences_total",
                                      "Ids of batches whose gradients servers have acknowledged, "
                                      "or that an evaluation has pulled.")),
      unique_rows(registry.GetCounter("simurgh_worker_unique_rows_total",
                                      "Rows of these batches, each once a batch.")),
      row_cache_hits(registry.GetCounter("simurgh_worker_row_cache_hits_total",
                                         "Rows that pulls got from among the hot rows.")),
      row_cache_misses(registry.GetCounter("simurgh_worker_row_cache_misses_total",
                                           "Rows that servers were asked for, while hot rows are "
                                           "kept.")),
      row_cache_evictions(registry.GetCounter(
          "simurgh_worker_row_cache_evictions_total",
          "Hot rows that went for want of room while they were young enough to be used.")),
      row_cache(registry.GetGauge("simurgh_worker_row_cache_rows", "Hot rows kept.")),
      row_cache_age_steps(registry.GetHistogram("simurgh_worker_row_cache_age_steps",
                                                "Age of hot rows that pulls got.",
                                                PowersOfTwo(kMaxAgeSteps))),
      plan_seconds(StageSeconds(registry, "plan")),
      pull_seconds(StageSeconds(registry, "pull")),
      pool_seconds(StageSeconds(registry, "pool")),
      unpool_seconds(StageSeconds(registry, "unpool")),
      push_seconds(StageSeconds(registry, "push")) {
  for (const FeatureConfig& feature : config.features) {
    non_finite_gradients.push_back(
        &registry.GetCounter("simurgh_worker_non_finite_gradients_total",
                             "Batches whose gradient of a feature held NaN or infinity, or added "
                             "up to that in a row, and "
                             "was dropped.",
                             {{"feature", feature.name}}));
  }
}

}  // namespace simurgh
