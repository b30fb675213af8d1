#include "report/input_scan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/text.h"
#include "data/reading/row_text.h"
#include "report/bootstrap.h"
#include "train/evaluator.h"

namespace simurgh {
namespace {

constexpr uint64_t kSampleSeed = 0x3a7e'51c9;
constexpr uint64_t kImportanceSeed = 0x90d4'62fb;

// Values of columns that are counted without being asked for.
constexpr size_t kFewValues = 50;
// Numbers until they become ranges.
constexpr size_t kManyNumbers = 2'000;
constexpr size_t kShownSegments = 20;

}  // namespace

struct InputScan::Row {
  std::span<const float> labels;
  std::span<const float> predictions;
  float weight = 1;
  uint64_t group = 0;
};

InputScan::InputScan(const ClusterConfig& config, const DataConfig& data, const Options& options,
                     std::optional<size_t> group_feature)
    : config_(config),
      data_(data),
      tasks_(TasksOf(config.model)),
      group_feature_(group_feature),
      by_(options.by.size()),
      of_sample_(options.sample_rows, kSampleSeed),
      of_importance_(options.importance_rows, kImportanceSeed),
      importance_capacity_(options.importance_rows),
      has_labels_(options.has_labels),
      sums_(tasks_.size()) {
  sample_.label_count = importance_.sample.label_count = tasks_.size();
  const std::vector<ColumnConfig> columns = ColumnsOf(data);
  const auto add = [&](const std::string& name, bool is_wanted) {
    const auto column = std::ranges::find(columns, name, &ColumnConfig::name);
    const bool are_numbers =
        column != columns.end() && column->kind == ColumnConfig::Kind::kDense && !column->date;
    SegmentCounter::Options counting{.labels = tasks_.size(),
                                     .are_numbers = are_numbers,
                                     .gives_up = !is_wanted && !are_numbers};
    if (counting.gives_up) counting.most_values = kFewValues;
    if (are_numbers) counting.most_values = kManyNumbers;
    counters_.emplace_back(name, counting);
  };
  for (const std::string& name : options.by) add(name, /*is_wanted=*/true);
  for (const std::string& name : options.others) add(name, /*is_wanted=*/false);
}

void InputScan::Set(const Row& row, size_t place, PredictedSample& sample) const {
  if (place >= sample.rows()) sample.Resize(place + 1);
  const size_t labels = tasks_.size();
  std::ranges::copy(row.labels, sample.labels.begin() + static_cast<ptrdiff_t>(place * labels));
  std::ranges::copy(row.predictions,
                    sample.predictions.begin() + static_cast<ptrdiff_t>(place * labels));
  sample.weights[place] = row.weight;
  sample.groups[place] = row.group;
}

void InputScan::Add(const Batch& batch, std::span<const float> predictions,
                    std::span<const std::string_view> lines, const FileColumns* columns,
                    std::span<const std::string> cells) {
  const size_t labels = tasks_.size();
  const std::vector<uint64_t> groups = GroupsOf(batch, group_feature_);
  has_groups_ = has_groups_ || !groups.empty();
  const std::span<const float> weights = batch.dense.weights();
  const std::vector<float> unknown(labels, std::numeric_limits<float>::quiet_NaN());
  std::vector<PredictionSums> own(labels);
  numbers_.Add(batch.dense);
  for (size_t b = 0; b < batch.size(); ++b) {
    const Row row{.labels = has_labels_ ? std::span(batch.dense.labels).subspan(b * labels, labels)
                                        : std::span(unknown),
                  .predictions = predictions.subspan(b * labels, labels),
                  .weight = weights.empty() ? 1.0F : weights[b],
                  .group = groups.empty() ? 0 : groups[b]};
    for (size_t label = 0; label < labels; ++label) {
      own[label] = {};
      if (std::isnan(row.labels[label]) || !(row.weight > 0)) continue;
      own[label].Add(tasks_[label].loss, row.labels[label], row.predictions[label], row.weight);
      AddSums(own[label], sums_[label]);
    }
    const std::optional<size_t> place = of_sample_.Next();
    if (place) Set(row, *place, sample_);
    for (size_t c = 0; c < counters_.size(); ++c) {
      if (counters_[c].has_given_up()) continue;
      counters_[c].Add(TrimBlanks(cells[b * counters_.size() + c], '\0'), own, place);
    }
    if (importance_capacity_ == 0) continue;
    const std::optional<size_t> kept = of_importance_.Next();
    if (!kept) continue;
    Set(row, *kept, importance_.sample);
    if (importance_.lines.size() <= *kept) importance_.lines.resize(*kept + 1);
    const bool is_csv = data_.format == DataConfig::Format::kCsv;
    importance_.lines[*kept] = columns != nullptr && is_csv
                                   ? InConfiguredOrder(data_, *columns, lines[b])
                                   : std::string(lines[b]);
  }
}

std::vector<std::string> InputScan::CountedColumns() const {
  std::vector<std::string> names;
  for (size_t c = by_; c < counters_.size(); ++c) {
    if (!counters_[c].has_given_up()) names.push_back(counters_[c].column());
  }
  return names;
}

std::vector<SegmentsReport> InputScan::TakeSegments(const std::vector<std::string>& chosen) {
  std::vector<SegmentsReport> all;
  std::vector<SegmentCounter*> counters;
  for (size_t c = 0; c < by_; ++c) counters.push_back(&counters_[c]);
  for (const std::string& name : chosen) {
    for (size_t c = by_; c < counters_.size(); ++c) {
      if (counters_[c].column() == name) counters.push_back(&counters_[c]);
    }
  }
  std::vector<LabelledRows> rows;
  for (size_t label = 0; label < tasks_.size(); ++label) rows.push_back(sample_.RowsOf(label));
  for (SegmentCounter* const counter : counters) {
    SegmentsReport& report = all.emplace_back();
    report.column = counter->column();
    const std::vector<Segment> segments = counter->Finish(kShownSegments);
    report.has_dropped = counter->has_dropped();
    for (const Segment& segment : segments) {
      report.segments.push_back({segment.name, segment.is_rest, segment.rows, {}});
    }
    for (size_t label = 0; label < tasks_.size(); ++label) {
      const LossConfig::Kind kind = tasks_[label].loss.kind;
      std::vector<LabelledRows> parts(segments.size());
      for (size_t row = 0; row < rows[label].size() && !IsRegression(kind); ++row) {
        const size_t segment = counter->SegmentOf(rows[label].places[row]);
        if (segment >= parts.size()) continue;
        parts[segment].labels.push_back(rows[label].labels[row]);
        parts[segment].predictions.push_back(rows[label].predictions[row]);
        parts[segment].weights.push_back(rows[label].weights[row]);
      }
      for (size_t i = 0; i < segments.size(); ++i) {
        const PredictionSums& sums = segments[i].sums[label];
        SegmentReport::OfLabel of{.rows = static_cast<uint64_t>(sums.samples),
                                  .mean_label = sums.labels / sums.weight,
                                  .mean_prediction = sums.predicted / sums.weight,
                                  .metrics = MetricsOf(sums, kind)};
        if (!IsRegression(kind)) {
          of.metrics.auc = ExactAuc(parts[i].labels, parts[i].predictions, parts[i].weights);
        }
        report.segments[i].labels.push_back(of);
      }
    }
  }
  return all;
}

}  // namespace simurgh
