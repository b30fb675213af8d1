#include "services/embedding_ps/server_metrics.h"

namespace simurgh {

ServerMetrics::ServerMetrics(MetricRegistry& registry, const ClusterConfig& config)
    : registry_(registry) {
  for (const TableConfig& table : config.tables) {
    tables_.push_back(
        std::make_unique<TableMetrics>(registry, table.name, config.embedding_ps.partitions));
  }
}

void ServerMetrics::OnPull(size_t partition, const Partition& rows,
                           std::span<const PullGroup> groups, const PullReport& report) {
  found_.Add(report.found);
  created_.Add(report.created);
  unseen_.Add(report.unseen);
  rejected_admission_.Add(report.rejected_admission);
  evicted_.Add(report.evicted);
  rejected_full_.Add(report.rejected_full);
  for (const PullGroup& group : groups) {
    tables_[group.table]->Report(partition, rows.table(group.table));
  }
  if (report.created + report.evicted > 0) OnRows(partition, rows);
}

void ServerMetrics::OnRows(size_t partition, const Partition& rows) {
  for (size_t t = 0; t < rows.table_count(); ++t) tables_[t]->ReportSize(partition, rows.table(t));
}

void ServerMetrics::OnPush(size_t partition, const Partition& rows, const PushReport& report) {
  updated_.Add(report.updated);
  missing_.Add(report.missing);
  repeated_.Add(report.repeated ? 1 : 0);
  if (report.all_finite()) return;
  // No pull has to follow that would report them.
  for (size_t t = 0; t < tables_.size(); ++t) tables_[t]->Report(partition, rows.table(t));
}

void ServerMetrics::OnClear(size_t partition, const Partition& rows) {
  for (const auto& table : tables_) table->Forget(partition);
  OnRows(partition, rows);
}

void ServerMetrics::OnSave(uint64_t rows, uint64_t bytes, double seconds) {
  saved_rows_.Add(rows);
  saved_bytes_.Add(bytes);
  save_seconds_.Set(seconds);
}

}  // namespace simurgh
