#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "config/cluster_config.h"
#include "table/partition.h"
#include "table/table.h"
#include "telemetry/metrics.h"

namespace simurgh {

// Metrics of one table over a server's partitions: size, counts of training pulls, evictions by
// cause, numbers that are not finite, estimated distinct ids, ages of rows at their pull. A series
// is registered when it first counts, so unused tables are cheap.
//
// Threads: Report() and ReportSize() may run for different partitions concurrently.
class TableMetrics {
 public:
  // capacity_rows: the table's capacity, for a warning; 0: bytes bound it.
  // has_cold_rows: whether the server has a folder for them.
  TableMetrics(MetricRegistry& registry, const std::string& table, size_t partitions,
               uint64_t capacity_rows = 0, bool has_cold_rows = false);

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
    double cold_rows = 0;
    double cold_disk_bytes = 0;
    bool is_reported = false;
  };

  void Count(uint64_t difference, const CounterFamily& family, Counter*& counter)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Warns once if a full table with rows of a checkpoint has evicted a quarter of their number.
  void WarnOfLostRows(const TableStats& stats) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Warns once if a full table evicts rows of ids that come back: it has created many more rows
  // than it has seen ids.
  void WarnOfEvictions(const TableStats& stats, double distinct)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  MetricRegistry& registry_;
  const uint64_t capacity_rows_;
  bool warned_ ABSL_GUARDED_BY(mutex_) = false;
  bool warned_of_disk_ ABSL_GUARDED_BY(mutex_) = false;
  const std::string table_;
  // One per partition; each belongs to the partition's thread.
  std::vector<std::unique_ptr<Reported>> reported_;
  std::vector<Size> sizes_;
  Gauge& rows_;
  Gauge& bytes_;
  // Null without a folder for cold rows.
  Gauge* cold_rows_ = nullptr;
  Gauge* cold_disk_bytes_ = nullptr;
  Mutex mutex_;
  Counter* hits_ ABSL_GUARDED_BY(mutex_) = nullptr;
  Counter* admitted_ ABSL_GUARDED_BY(mutex_) = nullptr;
  Counter* rejected_admission_ ABSL_GUARDED_BY(mutex_) = nullptr;
  Counter* rejected_full_ ABSL_GUARDED_BY(mutex_) = nullptr;
  Counter* cooled_ ABSL_GUARDED_BY(mutex_) = nullptr;
  Counter* warmed_ ABSL_GUARDED_BY(mutex_) = nullptr;
  Counter* cold_late_ ABSL_GUARDED_BY(mutex_) = nullptr;
  Counter* cold_refused_ ABSL_GUARDED_BY(mutex_) = nullptr;
  Counter* cold_read_bytes_ ABSL_GUARDED_BY(mutex_) = nullptr;
  Counter* cold_written_bytes_ ABSL_GUARDED_BY(mutex_) = nullptr;
  Counter* gradients_not_finite_ ABSL_GUARDED_BY(mutex_) = nullptr;
  Counter* rows_not_finite_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::array<Counter*, kEvictionCauses> evicted_ ABSL_GUARDED_BY(mutex_) = {};
  Histogram* ages_ ABSL_GUARDED_BY(mutex_) = nullptr;
  Gauge* distinct_gauge_ ABSL_GUARDED_BY(mutex_) = nullptr;
  DistinctCounter distinct_ ABSL_GUARDED_BY(mutex_);
  double reported_distinct_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Metrics of an embedding-ps.
//
// Threads: call OnPull(), OnPush(), OnClear() and OnRows() on the partition's thread.
// Partitions do not contend. The others: any.
class ServerMetrics {
 public:
  // Several servers may share a registry, which then has their sums.
  ServerMetrics(MetricRegistry& registry, const ClusterConfig& config);

  // groups: empty for evaluation pulls.
  void OnPull(size_t partition, const Partition& rows, std::span<const PullGroup> groups,
              const PullReport& report);
  void OnPush(size_t partition, const Partition& rows, const PushReport& report);
  // Call after Partition::Clear().
  void OnClear(size_t partition, const Partition& rows);
  // Reports how many rows there are, once they have changed without a pull.
  void OnRows(size_t partition, const Partition& rows);

  // A partition's share of a pull or push enters the partition's queue, starts and ends. Threads:
  // any.
  void OnQueued() { queued_.Add(1); }
  void OnStart(std::chrono::nanoseconds waited) { wait_seconds_.Observe(waited); }
  void OnEnded() { queued_.Add(-1); }

  // Pieces of a pull that waited for checkpoint.memory.
  void OnPullWaits(uint64_t waits) { pull_waits_.Add(waits); }
  // A partition's share of a pull that waited for cold rows. Requires a folder for them.
  void OnColdWait(std::chrono::steady_clock::duration wait) {
    cold_wait_->Observe(std::chrono::duration<double>(wait).count());
  }
  void OnSave(double seconds) { save_seconds_.Set(seconds); }
  void OnSaveFailed() { save_failures_.Add(1); }
  // See checkpoint.on_server_loss: partial.
  void OnLostRowsRestored() { lost_rows_restored_.Add(1); }

 private:
  Gauge& queued_;
  Histogram& wait_seconds_;
  Counter& updated_;
  Counter& missing_;
  Gauge& save_seconds_;
  Counter& pull_waits_;
  Histogram* cold_wait_ = nullptr;  // Null without a folder for cold rows.
  Counter& save_failures_;
  Counter& lost_rows_restored_;
  std::vector<std::unique_ptr<TableMetrics>> tables_;
};

}  // namespace simurgh
