#include "services/embedding_ps/server_metrics.h"

#include <bit>
#include <string>
#include <utility>

#include "base/log.h"

namespace simurgh {
namespace {

const GaugeFamily kQueuedShares("simurgh_ps_queued_shares",
                                "Partitions' shares of pulls and pushes that wait or run.");
const HistogramFamily kWaitSeconds("simurgh_ps_wait_seconds",
                                   "Time that a share waits for its partition.");
const HistogramFamily kColdWaitSeconds("simurgh_ps_cold_wait_seconds",
                                       "Time that a partition's share of a pull waited for cold "
                                       "rows. Shares that did not wait do not count.");
const CounterFamily kRowsUpdatedTotal("simurgh_ps_rows_updated_total", "Rows that a push updated.");
const CounterFamily kGradientsMissingTotal("simurgh_ps_gradients_missing_total",
                                           "Gradients dropped because their row had been evicted.");
const GaugeFamily kSaveSeconds("simurgh_ps_save_seconds", "Duration of the last save of all rows.");
const CounterFamily kSavePullWaitsTotal("simurgh_ps_save_pull_waits_total",
                                        "Pieces of pulls that waited for checkpoint.memory.");
const CounterFamily kSaveFailuresTotal("simurgh_ps_save_failures_total",
                                       "Saves of rows that failed.");
const CounterFamily kLostRowsRestoredTotal(
    "simurgh_ps_lost_rows_restored_total",
    "Times that this server went back to the last checkpoint while training went on.");
const GaugeFamily kTableRows("simurgh_ps_table_rows", "Rows held.", {"table"});
const GaugeFamily kTableBytes("simurgh_ps_table_bytes", "Memory of rows and index.", {"table"});
const GaugeFamily kTableColdRows("simurgh_ps_table_cold_rows", "Rows held on disk.", {"table"});
const GaugeFamily kTableColdDiskBytes("simurgh_ps_table_cold_disk_bytes",
                                      "Space of cold rows on disk, with gaps.", {"table"});
const CounterFamily kTableCooledTotal("simurgh_ps_table_cooled_total",
                                      "Rows that left memory for the disk.", {"table"});
const CounterFamily kTableWarmedTotal("simurgh_ps_table_warmed_total",
                                      "Rows that came back from the disk, or went from it.",
                                      {"table"});
const CounterFamily kTableColdLateTotal(
    "simurgh_ps_table_cold_late_total",
    "Cold rows that a request waited for: they were not read ahead.", {"table"});
const CounterFamily kTableColdRefusedTotal(
    "simurgh_ps_table_cold_refused_total",
    "Times that a row found no room in memory nor on disk. If that lasts, when_full applies.",
    {"table"});
const CounterFamily kTableColdReadBytesTotal("simurgh_ps_table_cold_read_bytes_total",
                                             "Bytes of cold rows read from disk.", {"table"});
const CounterFamily kTableColdWrittenBytesTotal("simurgh_ps_table_cold_written_bytes_total",
                                                "Bytes of cold rows written to disk.", {"table"});
const CounterFamily kTableHitsTotal("simurgh_ps_table_hits_total",
                                    "Ids of training pulls that had a row.", {"table"});
const CounterFamily kTableAdmissionsTotal("simurgh_ps_table_admissions_total",
                                          "Ids of training pulls that got a new row.", {"table"});
const CounterFamily kTableRejectedAdmissionTotal("simurgh_ps_table_rejected_admission_total",
                                                 "Ids of training pulls denied a row by admission.",
                                                 {"table"});
const CounterFamily kTableRejectedFullTotal("simurgh_ps_table_rejected_full_total",
                                            "Ids of training pulls denied a row by a full table.",
                                            {"table"});
const CounterFamily kTableGradientsNotFiniteTotal("simurgh_ps_table_gradients_not_finite_total",
                                                  "Gradients dropped because they were not finite.",
                                                  {"table"});
const CounterFamily kTableRowsNotFiniteTotal(
    "simurgh_ps_table_rows_not_finite_total",
    "Updates whose result was not finite: see when_not_finite.", {"table"});
const CounterFamily kTableEvictionsTotal("simurgh_ps_table_evictions_total",
                                         "Rows evicted, by cause.", {"table", "cause"});
const HistogramFamily kTableRowAgeSteps(
    "simurgh_ps_table_row_age_steps",
    "Steps since the previous training pull of a row, for every eighth hit. The sum uses "
    "the upper bound of each bucket.",
    {"table"});
const GaugeFamily kTableDistinctIds(
    "simurgh_ps_table_distinct_ids",
    "Estimated number of distinct ids in training pulls; standard error 2.3 %.", {"table"});
const GaugeFamily kMemoryBudgetBytes("simurgh_ps_memory_budget_bytes",
                                     "embedding_ps.memory_budget, if it is set.");

// Reports 1, 2, 4, ..., 256 of a partition update the distinct-id estimate, then every 256th.
constexpr uint64_t kDistinctEvery = 256;

bool DistinctIsDue(uint64_t report) {
  return std::has_single_bit(report) || report % kDistinctEvery == 0;
}

// Upper bounds of the first classes of TableStats::pulled_before: 0, 1, 3, 7, ...
std::vector<double> AgeBounds() {
  constexpr int kClasses = 21;
  std::vector<double> bounds;
  for (int i = 0; i < kClasses; ++i) bounds.push_back(static_cast<double>((uint64_t{1} << i) - 1));
  return bounds;
}

}  // namespace

TableMetrics::TableMetrics(MetricRegistry& registry, const std::string& table, size_t partitions,
                           uint64_t capacity_rows, bool has_cold_rows)
    : registry_(registry),
      capacity_rows_(capacity_rows),
      table_(table),
      reported_(partitions),
      sizes_(partitions),
      rows_(registry.Get(kTableRows, {table})),
      bytes_(registry.Get(kTableBytes, {table})) {
  if (!has_cold_rows) return;
  cold_rows_ = &registry.Get(kTableColdRows, {table});
  cold_disk_bytes_ = &registry.Get(kTableColdDiskBytes, {table});
  cold_refused_ = &registry.Get(kTableColdRefusedTotal, {table});  // An alert sees it grow from 0.
}

void TableMetrics::Report(size_t partition, const Table& table) {
  if (reported_[partition] == nullptr) reported_[partition] = std::make_unique<Reported>();
  Reported& reported = *reported_[partition];
  const TableStats now = table.stats();
  const TableStats& before = reported.stats;
  {
    const MutexLock lock(mutex_);
    Count(now.hits - before.hits, kTableHitsTotal, hits_);
    Count(now.created - before.created, kTableAdmissionsTotal, admitted_);
    Count(now.rejected_admission - before.rejected_admission, kTableRejectedAdmissionTotal,
          rejected_admission_);
    Count(now.rejected_full - before.rejected_full, kTableRejectedFullTotal, rejected_full_);
    Count(now.cooled - before.cooled, kTableCooledTotal, cooled_);
    Count(now.warmed - before.warmed, kTableWarmedTotal, warmed_);
    Count(now.cold_late - before.cold_late, kTableColdLateTotal, cold_late_);
    Count(now.cold_refused - before.cold_refused, kTableColdRefusedTotal, cold_refused_);
    Count(now.cold_read_bytes - before.cold_read_bytes, kTableColdReadBytesTotal, cold_read_bytes_);
    Count(now.cold_written_bytes - before.cold_written_bytes, kTableColdWrittenBytesTotal,
          cold_written_bytes_);
    Count(now.gradients_not_finite - before.gradients_not_finite, kTableGradientsNotFiniteTotal,
          gradients_not_finite_);
    Count(now.rows_not_finite - before.rows_not_finite, kTableRowsNotFiniteTotal, rows_not_finite_);
    for (size_t cause = 0; cause < kEvictionCauses; ++cause) {
      const uint64_t count = now.evicted_for[cause] - before.evicted_for[cause];
      if (count == 0) continue;
      if (evicted_[cause] == nullptr) {
        evicted_[cause] =
            &registry_.Get(kTableEvictionsTotal, {table_, kEvictionCauseNames.at(cause)});
      }
      evicted_[cause]->Add(count);
    }
    WarnOfLostRows(now);
    if (now.cold_refused > before.cold_refused && !std::exchange(warned_of_disk_, true)) {
      spdlog::error(
          "a row finds no room in memory nor in embedding_ps.cold_directory, and when_full "
          "applies; make room: table={} reason='{}'",
          table_, std::string(table.cold_refusal().message()));
    }
    for (size_t i = 0; i < now.pulled_before.size(); ++i) {
      const uint64_t count = now.pulled_before[i] - before.pulled_before[i];
      if (count == 0) continue;
      if (ages_ == nullptr) {
        ages_ = &registry_.Get(kTableRowAgeSteps, AgeBounds(), {table_});
      }
      ages_->Observe(static_cast<double>((uint64_t{1} << i) - 1), count);
    }
    if (DistinctIsDue(++reported.reports)) {
      distinct_.Merge(table.distinct_ids());
      WarnOfEvictions(now, table.distinct_ids().Estimate());
      if (distinct_gauge_ == nullptr) {
        distinct_gauge_ = &registry_.Get(kTableDistinctIds, {table_});
      }
      const double distinct = distinct_.Estimate();
      distinct_gauge_->Add(distinct - std::exchange(reported_distinct_, distinct));
    }
  }
  reported.stats = now;
}

void TableMetrics::WarnOfEvictions(const TableStats& stats, double distinct) {
  constexpr size_t kCapacity = 0;  // Index in kEvictionCauseNames, like kMemory.
  constexpr size_t kMemory = 1;
  constexpr double kManyAgain = 1.25;
  const uint64_t evicted = stats.evicted_for[kCapacity] + stats.evicted_for[kMemory];
  const auto created = static_cast<double>(stats.created);
  if (warned_ || created < kManyAgain * distinct ||
      static_cast<double>(evicted) < created - distinct) {
    return;
  }
  warned_ = true;
  spdlog::warn(
      "a full table evicts rows of ids that come back; raise its capacity{}: table={} "
      "capacity_rows={} evicted_rows={}",
      stats.evicted_for[kMemory] > 0 ? ", or embedding_ps.memory_budget" : "", table_,
      capacity_rows_, evicted);
}

void TableMetrics::WarnOfLostRows(const TableStats& stats) {
  constexpr uint64_t kMostTurns = 4;
  const uint64_t evicted = stats.evicted_for[0];  // Index in kEvictionCauseNames: capacity.
  const uint64_t loaded = std::max(stats.rows + stats.evicted, stats.created) - stats.created;
  if (warned_ || loaded == 0 || evicted * kMostTurns < stats.rows) return;
  warned_ = true;
  spdlog::warn(
      "a full table evicts rows of the model for new ids; raise its capacity: table={} "
      "capacity_rows={} loaded_rows={} evicted_rows={}",
      table_, capacity_rows_, loaded, evicted);
}

void TableMetrics::ReportSize(size_t partition, const Table& table) {
  const TableStats stats = table.stats();
  const Size now{.rows = static_cast<double>(stats.rows),
                 .bytes = static_cast<double>(stats.bytes),
                 .cold_rows = static_cast<double>(stats.cold_rows),
                 .cold_disk_bytes = static_cast<double>(stats.cold_disk_bytes),
                 .is_reported = true};
  const Size before = std::exchange(sizes_[partition], now);
  // Most tables have not changed, and partitions share the gauges.
  const bool is_first = !before.is_reported;
  if (is_first || now.rows != before.rows) rows_.Add(now.rows - before.rows);
  if (is_first || now.bytes != before.bytes) bytes_.Add(now.bytes - before.bytes);
  if (cold_rows_ == nullptr) return;
  cold_rows_->Add(now.cold_rows - before.cold_rows);
  cold_disk_bytes_->Add(now.cold_disk_bytes - before.cold_disk_bytes);
}

void TableMetrics::Forget(size_t partition) { reported_[partition] = nullptr; }

void TableMetrics::Count(uint64_t difference, const CounterFamily& family, Counter*& counter) {
  if (difference == 0) return;
  if (counter == nullptr) counter = &registry_.Get(family, {table_});
  counter->Add(difference);
}

ServerMetrics::ServerMetrics(MetricRegistry& registry, const ClusterConfig& config)
    : queued_(registry.Get(kQueuedShares)),
      wait_seconds_(registry.Get(kWaitSeconds, LatencyBuckets())),
      updated_(registry.Get(kRowsUpdatedTotal)),
      missing_(registry.Get(kGradientsMissingTotal)),
      save_seconds_(registry.Get(kSaveSeconds)),
      pull_waits_(registry.Get(kSavePullWaitsTotal)),
      save_failures_(registry.Get(kSaveFailuresTotal)),
      lost_rows_restored_(registry.Get(kLostRowsRestoredTotal)) {
  if (!config.embedding_ps.cold_directory.empty()) {
    cold_wait_ = &registry.Get(kColdWaitSeconds, LatencyBuckets());
  }
  if (config.embedding_ps.memory_budget > 0) {
    registry.Get(kMemoryBudgetBytes).Set(static_cast<double>(config.embedding_ps.memory_budget));
  }
  for (const TableConfig& table : config.tables) {
    tables_.push_back(
        std::make_unique<TableMetrics>(registry, table.name, config.embedding_ps.partitions,
                                       table.capacity_bytes > 0 ? 0 : table.capacity_rows,
                                       !config.embedding_ps.cold_directory.empty()));
  }
}

void ServerMetrics::OnPull(size_t partition, const Partition& rows,
                           std::span<const PullGroup> groups, const PullReport& report) {
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
  if (report.all_finite()) return;
  // Reports the tables, because no pull has to follow that would report them.
  for (size_t t = 0; t < tables_.size(); ++t) tables_[t]->Report(partition, rows.table(t));
}

void ServerMetrics::OnClear(size_t partition, const Partition& rows) {
  for (const auto& table : tables_) table->Forget(partition);
  OnRows(partition, rows);
}

}  // namespace simurgh
