#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "report/drift.h"
#include "report/history.h"
#include "report/importance.h"
#include "report/label_report.h"
#include "report/ranking_report.h"
#include "report/segments.h"
#include "report/table_report.h"

namespace simurgh {

// A next step that follows from what was seen.
struct Finding {
  std::string id;        // The rule, such as "overfit".
  std::string what;      // One sentence.
  std::string evidence;  // The numbers that it follows from.
  std::string remedy;    // What to do, as a sentence.
  std::string command;   // A command or a key to do so; may be empty.
};

// The rows of some values of a column, and how well their labels are predicted.
struct SegmentReport {
  std::string name;
  bool is_rest = false;
  uint64_t rows = 0;
  struct OfLabel {
    uint64_t rows = 0;
    double mean_label = 0;
    double mean_prediction = 0;
    Metrics metrics;  // The AUC is that of the sample's rows.
  };
  std::vector<OfLabel> labels;  // One per label.
};

struct SegmentsReport {
  std::string column;
  bool has_dropped = false;  // See SegmentCounter::has_dropped().
  std::vector<SegmentReport> segments;
};

// The rows of an input, and how they were predicted.
struct InputReport {
  std::string name;  // Name as it was given.
  uint64_t rows = 0;
  uint64_t bad_rows = 0;
  uint64_t sampled_rows = 0;  // Rows of the sample; fewer than the good rows: it is a sample.
  bool has_labels = false;
  bool has_weights = false;
  bool has_groups = false;  // The bootstrap draws groups of rows.
  double unseen_ids = 0;    // Share of all ids.
};

// A second model on the same rows.
struct ComparedModel {
  std::string folder;
  uint64_t step = 0;
  std::vector<LabelReport> labels;
  // The model of the report less this one; one per label.
  std::vector<MetricIntervals> differences;
};

// All that a page shows. Parts that are not known are empty.
struct Report {
  std::string folder;   // The model's.
  std::string version;  // Version of this program.
  uint64_t step = 0;
  uint64_t samples = 0;                                     // Samples trained.
  double step_time = 0;                                     // In seconds since 1970.
  std::vector<std::pair<std::string, std::string>> config;  // Keys and values.
  std::map<std::string, std::string> header_names;          // A renamed column's name in files.
  std::vector<std::pair<std::string, uint64_t>> files;      // Files of the checkpoint and bytes.
  TrainingHistory history;
  // Folder of the first training of --refit, whose history it is; else empty.
  std::string trial;
  std::vector<TableReport> tables;
  std::optional<InputReport> input;
  std::string input_problem;  // Why there is no input.
  std::vector<LabelReport> labels;
  std::optional<RankingReport> ranking;       // A model of two towers has it in place of labels.
  std::vector<PredictionSummary> unlabelled;  // One per label, if the rows have none.
  std::optional<Importance> importance;
  std::vector<SegmentsReport> segments;
  std::vector<NumberDrift> numbers;
  std::vector<IdDrift> ids;
  std::optional<ComparedModel> compared;
  std::string headline;
  std::string course;  // How validation went; may be empty.
  std::vector<Finding> findings;
};

}  // namespace simurgh
