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

// What a server tells of one table, over its partitions: counts of training pulls, evictions by
// their cause, an estimate of the ids ever asked for, and how long ago rows had been pulled before.
// A series is made when there is something to count, so that tables of no use cost next to nothing.
//
// Threads: Report() of different partitions at once.
class TableMetrics {
 public:
  TableMetrics(MetricRegistry& registry, const std::string& table, size_t server,
               size_t partitions);

  // Adds what has changed since the partition's last report; to be called on its thread.
  // Cost: some hundred nanoseconds, and some for each eighth hit.
  void Report(size_t partition, const Table& table);

 private:
  // Of one partition: what was reported last.
  struct Reported {
    TableStats stats;
    uint64_t reports = 0;
  };

  void Count(uint64_t difference, const char* name, const char* help, Counter*& counter)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReportEvictions(const TableStats& now, const TableStats& before)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReportAges(const TableStats& now, const TableStats& before)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReportDistinct(const DistinctCounter& ids) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  MetricRegistry& registry_;
  const MetricLabels labels_;
  std::vector<std::unique_ptr<Reported>> reported_;  // By partition; each its thread's.
  Mutex mutex_;
  Counter* hits_ ABSL_GUARDED_BY(mutex_) = nullptr;
  Counter* misses_ ABSL_GUARDED_BY(mutex_) = nullptr;
  Counter* admitted_ ABSL_GUARDED_BY(mutex_) = nullptr;
  Counter* rejected_admission_ ABSL_GUARDED_BY(mutex_) = nullptr;
  Counter* rejected_full_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::array<Counter*, kEvictionCauses> evicted_ ABSL_GUARDED_BY(mutex_) = {};
  Histogram* ages_ ABSL_GUARDED_BY(mutex_) = nullptr;
  Gauge* distinct_gauge_ ABSL_GUARDED_BY(mutex_) = nullptr;
  DistinctCounter distinct_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace simurgh
