#include "services/embedding_ps/server_metrics.h"

#include <string>

namespace simurgh {

ServerMetrics::ServerMetrics(MetricRegistry& registry, const ClusterConfig& config, size_t server)
    : registry_(registry) {
  for (const TableConfig& table : config.tables) {
    tables_.push_back(std::make_unique<TableMetrics>(registry, table.name, server,
                                                     config.embedding_ps.partitions));
  }
  for (uint32_t p = 0; p < config.embedding_ps.partitions; ++p) {
    for (const TableConfig& table : config.tables) {
      const MetricLabels labels{{"server", std::to_string(server)},
                                {"partition", std::to_string(p)},
                                {"table", table.name}};
      rows_.push_back(&registry.GetGauge("simurgh_ps_table_rows", "Rows held.", labels));
      bytes_.push_back(
          &registry.GetGauge("simurgh_ps_table_bytes", "Memory of rows and index.", labels));
    }
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
  for (size_t t = 0; t < rows.table_count(); ++t) {
    const size_t cell = partition * rows.table_count() + t;
    const TableStats stats = rows.table(t).stats();
    rows_[cell]->Set(static_cast<double>(stats.rows));
    bytes_[cell]->Set(static_cast<double>(stats.bytes));
  }
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
