#pragma once

#include <memory>
#include <span>
#include <vector>

#include "services/embedding_ps/table_metrics.h"
#include "simurgh/config/cluster_config.h"
#include "simurgh/table/partition.h"
#include "simurgh/telemetry/metrics.h"

namespace simurgh {

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
  // After Partition::Clear().
  void OnClear(size_t partition, const Partition& rows);
  // Reports how many rows there are, once they have changed without a pull.
  void OnRows(size_t partition, const Partition& rows);

  // Pieces of a pull that waited for checkpoint.memory.
  void OnPullWaits(uint64_t waits) { pull_waits_.Add(waits); }
  // seconds: time of the whole save.
  void OnSave(uint64_t rows, uint64_t bytes, double seconds);
  void OnSaveFailed() { save_failures_.Add(1); }
  // See checkpoint.on_server_loss: partial.
  void OnLostRowsRestored() { lost_rows_restored_.Add(1); }

 private:
  MetricRegistry& registry_;
  Counter& found_ = registry_.GetCounter("simurgh_ps_rows_found_total", "Rows that a pull found.");
  Counter& created_ =
      registry_.GetCounter("simurgh_ps_rows_created_total", "Rows that a training pull created.");
  Counter& unseen_ = registry_.GetCounter("simurgh_ps_rows_unseen_total",
                                          "Ids of evaluation pulls without a row, read as zeros.");
  Counter& rejected_admission_ =
      registry_.GetCounter("simurgh_ps_rows_rejected_admission_total",
                           "Ids of training pulls denied a row by admission.");
  Counter& evicted_ =
      registry_.GetCounter("simurgh_ps_rows_evicted_total", "Rows evicted, for any cause.");
  Counter& rejected_full_ = registry_.GetCounter(
      "simurgh_ps_rows_rejected_full_total", "Ids of training pulls denied a row by a full table.");
  Counter& updated_ =
      registry_.GetCounter("simurgh_ps_rows_updated_total", "Rows that a push updated.");
  Counter& missing_ = registry_.GetCounter("simurgh_ps_gradients_missing_total",
                                           "Gradients dropped because their row had been evicted.");
  Counter& repeated_ = registry_.GetCounter("simurgh_ps_pushes_repeated_total",
                                            "Pushes ignored because they had been applied before.");
  Counter& saved_rows_ =
      registry_.GetCounter("simurgh_ps_saved_rows_total", "Rows written to checkpoints.");
  Counter& saved_bytes_ =
      registry_.GetCounter("simurgh_ps_saved_bytes_total", "Bytes written to checkpoints.");
  Gauge& save_seconds_ =
      registry_.GetGauge("simurgh_ps_save_seconds", "Duration of the last save of all rows.");
  Counter& pull_waits_ = registry_.GetCounter("simurgh_ps_save_pull_waits_total",
                                              "Pieces of pulls that waited for checkpoint.memory.");
  Counter& save_failures_ =
      registry_.GetCounter("simurgh_ps_save_failures_total", "Saves of rows that failed.");
  Counter& lost_rows_restored_ = registry_.GetCounter(
      "simurgh_ps_lost_rows_restored_total",
      "Times that this server went back to the last checkpoint while training went on.");
  std::vector<std::unique_ptr<TableMetrics>> tables_;
};

}  // namespace simurgh
