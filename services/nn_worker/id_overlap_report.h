#pragma once

#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"

#include "simurgh/base/mutex.h"
#include "simurgh/config/feature_config.h"
#include "simurgh/data/id_overlap_meter.h"
#include "simurgh/telemetry/metrics.h"

namespace simurgh {

// Reports the overlap probabilities of a run's ids, by feature, in metrics and log.
//
// Threads: any.
class IdOverlapReport {
 public:
  IdOverlapReport(MetricRegistry& registry, const std::vector<FeatureConfig>& features);

  // Counts a training batch; publishes every kBatchesBetween batches.
  void Add(const CompactBatch& batch);

  // Publishes, and returns a log line with the features of the highest probabilities. Empty without
  // batches.
  std::string Describe();

 private:
  static constexpr uint64_t kBatchesBetween = 128;
  static constexpr size_t kMaxNamed = 32;

  std::vector<double> Publish() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::vector<std::string> names_;
  std::vector<Gauge*> gauges_;  // By feature.
  Mutex mutex_;
  IdOverlapMeter meter_ ABSL_GUARDED_BY(mutex_);
  uint64_t batches_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace simurgh
