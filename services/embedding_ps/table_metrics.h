#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "simurgh/base/mutex.h"
#include "simurgh/table/table.h"
#include "simurgh/telemetry/metrics.h"

namespace simurgh {

// Metrics of one table over a server's partitions: size, counts of training pulls, evictions by
// cause, numbers that are not finite, estimated distinct ids, ages of rows at their pull. A series
// is registered when it first counts, so unused tables are cheap.
//
// Threads: Report() and ReportSize() may run for different partitions concurrently.
class TableMetrics {
 public:
  TableMetrics(MetricRegistry& registry, const std::string& table, size_t partitions);

  // Adds the changes since the partition's last report. Call on the partition's thread.
  // Cost: a few hundred nanoseconds, plus a few per eighth hit.
  void Report(size_t partition, const Table& table);
  // Adds the change of rows and bytes. Call on the partition's thread.
  void ReportSize(size_t partition, const Table& table);
  // The partition's table begins anew. Call on the partition's thread.
  void Forget(size_t partition);

 private:
  // Last reported values of one partition.
  struct Reported {
    TableStats stats;
    uint64_t reports = 0;
  };

  // Last reported size of one partition. Forget() keeps it.
  struct Size {
    double rows = 0;
    double bytes = 0;
    bool is_reported = false;
  };

  void Count(uint64_t difference, const char* name, const char* help, Counter*& counter)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  MetricRegistry& registry_;
  const MetricLabels labels_;
  // By partition; each belongs to its thread.
  std::vector<std::unique_ptr<Reported>> reported_;
  std::vector<Size> sizes_;
  Gauge& rows_;
  Gauge& bytes_;
  Mutex mutex_;
  Counter* hits_ ABSL_GUARDED_BY(mutex_) = nullptr;
  Counter* misses_ ABSL_GUARDED_BY(mutex_) = nullptr;
  Counter* admitted_ ABSL_GUARDED_BY(mutex_) = nullptr;
  Counter* rejected_admission_ ABSL_GUARDED_BY(mutex_) = nullptr;
  Counter* rejected_full_ ABSL_GUARDED_BY(mutex_) = nullptr;
  Counter* gradients_not_finite_ ABSL_GUARDED_BY(mutex_) = nullptr;
  Counter* rows_not_finite_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::array<Counter*, kEvictionCauses> evicted_ ABSL_GUARDED_BY(mutex_) = {};
  Histogram* ages_ ABSL_GUARDED_BY(mutex_) = nullptr;
  Gauge* distinct_gauge_ ABSL_GUARDED_BY(mutex_) = nullptr;
  DistinctCounter distinct_ ABSL_GUARDED_BY(mutex_);
  double reported_distinct_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace simurgh
