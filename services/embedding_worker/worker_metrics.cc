#include "services/embedding_worker/worker_metrics.h"

namespace simurgh {
namespace {

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
      expired_batches(registry.GetCounter("simurgh_worker_expired_batches_total",
                                          "Batches dropped because nobody asked about them.")),
      occurrences(registry.GetCounter("simurgh_worker_occurrences_total", "Ids submitted.")),
      unique_rows(
          registry.GetCounter("simurgh_worker_unique_rows_total", "Ids left after deduplication.")),
      plan_seconds(StageSeconds(registry, "plan")),
      pull_seconds(StageSeconds(registry, "pull")),
      pool_seconds(StageSeconds(registry, "pool")),
      unpool_seconds(StageSeconds(registry, "unpool")),
      push_seconds(StageSeconds(registry, "push")) {
  for (const FeatureConfig& feature : config.features) {
    non_finite_gradients.push_back(&registry.GetCounter(
        "simurgh_worker_non_finite_gradients_total",
        "Batches whose gradient of a feature held NaN or infinity and was dropped.",
        {{"feature", feature.name}}));
  }
}

}  // namespace simurgh
