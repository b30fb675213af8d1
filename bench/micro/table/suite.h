#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/micro/table/bare_table.h"
#include "bench/micro/table/fetching.h"
#include "bench/micro/table/flat_map_subject.h"
#include "bench/micro/table/limits.h"
#include "bench/micro/table/options.h"
#include "bench/micro/table/persia_subject.h"
#include "bench/micro/table/report.h"
#include "bench/micro/table/rounds.h"
#include "bench/micro/table/table_subject.h"

namespace simurgh::bench {

// Everything that is measured with one layout of rows.
class Suite {
 public:
  // Lifetime: the arguments stay.
  Suite(const TableBenchOptions& options, const TableConfig& config, Report& report);

  void Run();

 private:
  using Work = std::function<void(size_t thread, size_t batch)>;

  // A run of `threads` threads over all batches of a turn; rows a second.
  double RowsPerSecond(size_t threads, const Work& work) const;
  double SteadyRowsPerSecond(size_t threads, const Work& work) const;
  // What can be fetched in several ways.
  struct Tunable {
    std::string name;
    std::function<void(const Fetching&)> set;
    std::function<double()> run;  // Answers rows a second.
  };
  std::vector<double> Tune(const std::vector<Tunable>& tunables, size_t turns) const;
  void TuneLimits();
  void TuneRival();
  template <typename Tuned>
  void TuneSubject(const std::string& prefix, Tuned& subject);
  double Fill(Subject& subject);
  void MeasureInsert();
  void MeasureRivalInsert();
  void Draw(Distribution distribution);
  void MeasureUse(Distribution distribution);
  void MeasureNewIds();
  std::vector<Measurement> LimitsAt(size_t threads);
  void AddSubject(const std::string& prefix, Subject& subject, std::vector<Measurement>& all);
  void AddTables(size_t threads, int limit, std::vector<Measurement>& all);

  const TableBenchOptions& options_;
  TableConfig config_;
  RowKind kind_;
  Report& report_;
  uint64_t rows_;
  bool rivals_;
  BareRows bare_;
  std::vector<float> gradients_;
  std::vector<std::vector<float>> out_;                // One a thread.
  std::vector<std::unique_ptr<TableSubject>> tables_;  // One a thread.
  std::unique_ptr<FlatMapSubject> flat_map_;
  std::unique_ptr<PersiaSubject> persia_;
  std::unique_ptr<TableSubject> shared_;
  std::unique_ptr<BareTable> bare_table_;
  std::vector<std::vector<Batch>> batches_;  // One list a thread.
};

}  // namespace simurgh::bench
