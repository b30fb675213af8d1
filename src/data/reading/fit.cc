#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_format.h"

#include "base/check.h"
#include "base/invalid.h"
#include "base/log.h"
#include "base/text.h"
#include "config/statistics.h"
#include "data/processing/feature_consumer.h"
#include "data/processing/numbers.h"
#include "data/reading/row_source.h"

namespace simurgh {
namespace {

constexpr size_t kRowsAtOnce = 4'096;

// Values of one index of libsvm or libffm. Indices whose values are all 1 are not kept.
struct IndexValues {
  Moments moments = {};
  double squares = 0;  // Sum of squares.

  void Add(double value) {
    moments.Add(value);
    squares += value * value;
  }
};

// A column with statistics to compute.
struct Observed {
  std::string key;   // Key in Statistics.
  std::string name;  // Name in messages: the scaled column, or the feature with quantiles.
  ColumnConfig::Kind kind = ColumnConfig::Kind::kDense;
  size_t place;            // Index among the cells.
  uint32_t quantiles = 0;  // Number of ranges; 0: the column is scaled.
  ColumnConfig::Transform transform = ColumnConfig::Transform::kNone;
  Moments moments = {};                               // Scaled column: after the transform.
  double least = std::numeric_limits<double>::max();  // Scaled column: after the transform.
  double greatest = std::numeric_limits<double>::lowest();

  void Add(double value) {
    moments.Add(value);
    least = std::min(least, value);
    greatest = std::max(greatest, value);
  }
  std::vector<double> values = {};                          // Feature with quantiles: all numbers.
  absl::flat_hash_map<uint64_t, IndexValues> indices = {};  // Column of pairs.
  double rows = 0;                                          // Column of pairs: number of rows.

  bool has_pairs() const { return kind == ColumnConfig::Kind::kId; }
  void AddPair(uint64_t index, double value) {
    const auto found = indices.find(index);
    if (found != indices.end()) {
      found->second.Add(value);
    } else if (value != 1 && static_cast<double>(index) < kMaxScaledIndex) {
      indices[index].Add(value);
    }
  }
};

// Receives the cells of all training rows that the features accept.
class ObservingSink final : public RowConsumer {
 public:
  // scratch: receives samples of the features.
  ObservingSink(uint64_t max_rows, std::vector<Observed>& observed,
                std::unique_ptr<RowConsumer> features, BatchBuilder scratch)
      : max_rows_(max_rows),
        observed_(observed),
        features_(std::move(features)),
        scratch_(std::move(scratch)) {}

  bool Reads(size_t column) const override {
    return features_->Reads(column) ||
           std::any_of(observed_.begin(), observed_.end(),
                       [column](const Observed& one) { return one.place == column; });
  }

  // Counts a row only if all its cells are valid, since training skips other rows.
  Status Consume(const RowCells& cells, BatchBuilder& /*builder*/) override {
    numbers_.clear();
    for (const Observed& one : observed_) {
      if (one.has_pairs()) continue;
      for (const Token& token : cells.cell(one.place)) {
        const auto value = token.is_number ? std::nullopt : ParseNumberCell(token.text);
        if (!value) {
          return Invalid(
              "%s: %s is not a finite number; correct it, or add it to data.missing_values",
              one.name, Quoted(token.text));
        }
        numbers_.push_back(*value);
      }
    }
    const Status taken = features_->Consume(cells, scratch_);
    scratch_.AbandonSample();
    SIMURGH_RETURN_IF_ERROR(taken);
    if (rows_++ >= max_rows_) return absl::OkStatus();
    auto next = numbers_.begin();
    for (Observed& one : observed_) {
      if (one.has_pairs()) {
        AddPairs(cells.cell(one.place), one);
        continue;
      }
      for (size_t n = cells.cell(one.place).size(); n > 0; --n, ++next) {
        if (one.quantiles > 0) {
          one.values.push_back(*next);
        } else {
          one.Add(Transformed(one.transform, *next));
        }
      }
    }
    return absl::OkStatus();
  }

 private:
  // Adds the pairs of a cell, which the features have accepted.
  static void AddPairs(std::span<const Token> pairs, Observed& one) {
    ++one.rows;
    for (const Token& pair : pairs) {
      const size_t colon = pair.text.rfind(':');
      if (pair.is_number || colon == std::string_view::npos) continue;
      const auto index = ParseIntegerCell(pair.text.substr(0, colon));
      const auto value = ParseNumberCell(pair.text.substr(colon + 1));
      if (index && value) one.AddPair(*index, *value);
    }
  }

  const uint64_t max_rows_;
  uint64_t rows_ = 0;
  std::vector<Observed>& observed_;
  std::unique_ptr<RowConsumer> features_;
  BatchBuilder scratch_;
  std::vector<double> numbers_;  // Numbers of the current row.
};

// Gives features with quantiles any boundaries, with which they accept the same rows as with the
// fitted ones.
std::vector<FeatureConfig> WithAnyBoundaries(std::vector<FeatureConfig> features) {
  for (FeatureConfig& feature : features) {
    if (feature.processing.quantiles > 0) feature.processing.boundaries = {0.0};
  }
  return features;
}

// Returns a configuration that reads the columns to fit as texts: without a scale yet, no value is
// too large. Several labels are also texts: one that is not fitted may be unknown where a fitted
// one is known.
DataConfig WithUnscaled(DataConfig config) {
  const bool has_tasks = LabelColumns(config).size() > 1;
  for (ColumnConfig& column : config.columns) {
    const bool is_label = column.kind == ColumnConfig::Kind::kLabel;
    if (column.fit || (has_tasks && is_label)) column.kind = ColumnConfig::Kind::kId;
  }
  return config;
}

Status Observe(const DataConfig& config, const std::vector<FeatureConfig>& features,
               std::vector<Observed>& observed, FileIdentities* identities) {
  SIMURGH_ASSIGN_OR_RETURN(auto taking,
                           NewFeatureConsumer(config, WithAnyBoundaries(features), false));
  const size_t dense_width = DenseColumns(config).size();
  // There may be no label columns left, since all may be fitted.
  const size_t labels = std::max<size_t>(LabelColumns(config).size(), 1);
  const uint64_t max_rows =
      config.fit_rows == 0 ? std::numeric_limits<uint64_t>::max() : config.fit_rows;
  std::vector<std::unique_ptr<RowConsumer>> observer;
  observer.push_back(std::make_unique<ObservingSink>(max_rows, observed, std::move(taking),
                                                     BatchBuilder(features.size(), dense_width)));
  const ReadOptions options{.identities = identities};
  SIMURGH_ASSIGN_OR_RETURN(auto source, OpenRowSource(config, config.train, options, {}));
  const auto reader = NewSourceReader(
      config, std::move(source), std::move(observer),
      [&] { return BatchBuilder(0, dense_width, labels); }, kRowsAtOnce, options);
  for (uint64_t rows = 0; rows < max_rows;) {
    SIMURGH_ASSIGN_OR_RETURN(const std::optional<Batch> batch, reader->Next());
    if (!batch.has_value()) break;
    rows += batch->size();
  }
  return absl::OkStatus();
}

// Warns if one number has more than half of the sum of squared distances from the mean: after
// scaling, it leaves all others almost equal.
void WarnOfOutlier(const Observed& one) {
  constexpr double kMinNumbers = 1'000;
  const double mean = one.moments.mean();
  const double farthest = mean - one.least > one.greatest - mean ? one.least : one.greatest;
  const double distance = (farthest - mean) / one.moments.stddev();
  if (one.kind == ColumnConfig::Kind::kWeight || one.moments.count() < kMinNumbers ||
      distance * distance < one.moments.count() / 2)
    return;
  spdlog::warn(
      "{}: one number of {:.0f}, {:g}, makes up most of the standard deviation, {:g}; correct it{}",
      one.name, one.moments.count(), farthest, one.moments.stddev(),
      one.kind == ColumnConfig::Kind::kDense ? ", or set `transform: log1p`" : "");
}

// Returns index, mean and deviation for each index whose values are large. If most rows have a
// value of an index, its values are numbers like those of a dense column. The mean of another index
// is 0, the value that rows leave out.
std::vector<double> FittedScales(const Observed& one) {
  constexpr double kLarge = 10;  // Root of the mean square of large values.
  constexpr double kMost = 0.9;  // Share of the rows.
  std::map<uint64_t, ValueScale> scales;
  for (const auto& [index, values] : one.indices) {
    const double count = values.moments.count();
    const double root = std::sqrt(values.squares / count);
    if (!(root > kLarge) || !std::isfinite(root)) continue;
    const double deviation = values.moments.stddev();
    const bool is_dense = count >= kMost * one.rows && deviation > 0;
    scales[index] = is_dense ? ValueScale{values.moments.mean(), deviation} : ValueScale{0, root};
  }
  std::vector<double> numbers;
  for (const auto& [index, scale] : scales) {
    numbers.insert(numbers.end(), {static_cast<double>(index), scale.mean, scale.stddev});
  }
  if (!scales.empty()) {
    spdlog::info("{}: values of {} indices are scaled by their deviation", one.name, scales.size());
  }
  return numbers;
}

// Sets the deviation of a column.
Status TakeDeviation(const Observed& one, double& stddev) {
  stddev = one.moments.stddev();
  if (!std::isfinite(one.moments.stddev())) {
    return Invalid(
        "%s: its %.0f numbers in the training files are too far apart; correct them, or transform "
        "them by log1p",
        one.name, one.moments.count());
  }
  if (one.moments.stddev() > 0.0) {
    WarnOfOutlier(one);
    return absl::OkStatus();
  }
  if (IsTarget(one.kind)) {  // A constant label is reported at the end; weights can be equal.
    stddev = 1;
    return absl::OkStatus();
  }
  spdlog::warn(
      "{}: its {:.0f} numbers in the training files are all the same; give it kind: skip, or mean "
      "and stddev",
      one.name, one.moments.count());
  stddev = 1;
  return absl::OkStatus();
}

// Computes the boundaries of a feature with quantiles. Reorders its values.
StatusOr<std::vector<double>> FittedBoundaries(Observed& one) {
  const size_t count = one.values.size();
  std::vector<double> boundaries = QuantileBoundaries(std::move(one.values), one.quantiles);
  if (!boundaries.empty()) return boundaries;
  return Invalid(
      "%s: too many of the %d training numbers equal the smallest for %d quantiles; raise "
      "quantiles or set boundaries",
      one.name, count, one.quantiles);
}

// Returns the columns, and then the features, with statistics to compute.
std::vector<Observed> ToObserve(const DataConfig& config,
                                const std::vector<FeatureConfig>& features) {
  std::vector<Observed> observed;
  const std::vector<ColumnConfig> columns = ColumnsOf(config);
  for (size_t c = 0; c < columns.size(); ++c) {
    if (!columns[c].fit) continue;
    observed.push_back({.key = "columns." + columns[c].name,
                        .name = absl::StrFormat("column '%s'", columns[c].name),
                        .kind = columns[c].kind,
                        .place = c,
                        .transform = columns[c].transform});
  }
  for (const FeatureConfig& feature : features) {
    if (feature.processing.quantiles == 0) continue;
    const auto column = std::ranges::find(columns, feature.sources().front(), &ColumnConfig::name);
    SIMURGH_CHECK(column != columns.end()) << feature.name;
    observed.push_back({.key = "features." + feature.name,
                        .name = absl::StrFormat("feature '%s'", feature.name),
                        .place = static_cast<size_t>(column - columns.begin()),
                        .quantiles = feature.processing.quantiles});
  }
  return observed;
}

}  // namespace

Status FitStatistics(DataConfig& config, std::vector<FeatureConfig>& features,
                     FileIdentities* identities) {
  config.criteo.mean.clear();
  config.criteo.stddev.clear();
  std::vector<Observed> observed = ToObserve(config, features);
  if (observed.empty()) return absl::OkStatus();
  SIMURGH_RETURN_IF_ERROR(Observe(WithUnscaled(config), features, observed, identities));
  const auto bucketised =
      std::ranges::find_if(observed, [](const Observed& one) { return one.quantiles > 0; });
  Statistics statistics;
  for (const Observed& one : std::span(observed.begin(), bucketised)) {
    if (one.has_pairs()) {
      statistics[one.key] = FittedScales(one);
      continue;
    }
    if (config.train.empty()) {  // Programs feed the numbers.
      if (!IsTarget(one.kind)) {
        spdlog::warn(
            "{}: no training files tell its mean and stddev, so numbers of tables are not scaled; "
            "give it both",
            one.name);
      }
      statistics[one.key] = {one.kind == ColumnConfig::Kind::kWeight ? 1.0 : 0.0, 1.0};
      continue;
    }
    double stddev = 0;
    SIMURGH_RETURN_IF_ERROR(TakeDeviation(one, stddev));
    statistics[one.key] = {one.moments.mean(), stddev};
    if (one.kind != ColumnConfig::Kind::kWeight) continue;
    if (!(one.moments.mean() > 0)) {
      return Invalid("%s: its %.0f weights in the training files are zero or missing; correct them",
                     one.name, one.moments.count());
    }
    if (std::abs(one.moments.mean() - 1) > 0.01) {
      spdlog::info("{}: weights are divided by their mean, {:g}", one.name, one.moments.mean());
    }
  }
  for (Observed& one : std::span(bucketised, observed.end())) {
    SIMURGH_ASSIGN_OR_RETURN(statistics[one.key], FittedBoundaries(one));
  }
  return ApplyStatistics(statistics, config, features);
}

}  // namespace simurgh
