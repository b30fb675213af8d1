#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/cluster_config.h"
#include "data/batch/batch.h"
#include "data/reading/batch_reader.h"
#include "nn/metrics.h"
#include "report/drift.h"
#include "report/importance.h"
#include "report/labelled_rows.h"
#include "report/report.h"
#include "report/reservoir.h"
#include "report/segments.h"

namespace simurgh {

// Gathers what a report needs of predicted rows, in one pass and bounded memory.
//
// Equal rows in equal order give equal samples, also with another model.
// Memory: 16 to 24 bytes a row and 8 a label of the sample, and 4 for each counted column; the
// texts of the rows for the importance.
// Threads: one owner.
class InputScan {
 public:
  struct Options {
    size_t sample_rows = 1'000'000;
    size_t importance_rows = 0;       // Rows whose texts are kept.
    bool has_labels = true;           // False: no row has a label.
    std::vector<std::string> by;      // Columns whose segments are wanted.
    std::vector<std::string> others;  // Columns with few values, or of numbers, are counted, too.
  };

  // config: the model's. data: the input's, see PredictInput. group_feature: see GroupsOf().
  // Lifetime: config and data outlive the scan.
  InputScan(const ClusterConfig& config, const DataConfig& data, const Options& options,
            std::optional<size_t> group_feature);

  // Adds the next rows. predictions: (batch.size(), labels). lines: the text of each row; empty
  // without rows for importance. columns: those of the lines' file, or null. cells: those of `by`,
  // then of `others`, of each row.
  void Add(const Batch& batch, std::span<const float> predictions,
           std::span<const std::string_view> lines, const FileColumns* columns,
           std::span<const std::string> cells);

  const PredictedSample& sample() const { return sample_; }
  // Returns sums over all rows of a label.
  const PredictionSums& sums(size_t label) const { return sums_[label]; }
  const ImportanceRows& importance_rows() const { return importance_; }
  std::vector<NumberDrift> numbers() const { return numbers_.DriftOf(config_.data); }
  bool has_groups() const { return has_groups_; }
  // Returns the segments of columns. chosen: names among `others` to return behind those of `by`.
  // Must be called once.
  std::vector<SegmentsReport> TakeSegments(const std::vector<std::string>& chosen);
  // Returns those of `others` that have two segments or more.
  std::vector<std::string> CountedColumns() const;

 private:
  struct Row;

  // Sets a row of a sample.
  void Set(const Row& row, size_t place, PredictedSample& sample) const;

  const ClusterConfig& config_;
  const DataConfig& data_;
  const std::vector<TaskConfig> tasks_;
  const std::optional<size_t> group_feature_;
  const size_t by_;  // Number of counters of `by`, which are the first.
  Reservoir of_sample_;
  Reservoir of_importance_;
  const size_t importance_capacity_;
  const bool has_labels_;
  PredictedSample sample_;
  ImportanceRows importance_;
  std::vector<PredictionSums> sums_;
  std::vector<SegmentCounter> counters_;
  NumberSums numbers_;
  bool has_groups_ = false;
};

}  // namespace simurgh
