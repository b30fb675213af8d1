#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "absl/strings/str_format.h"

#include "data/file_batch_reader.h"
#include "data/process/bucketise.h"
#include "data/process/dense_scaling.h"
#include "data/process/feature_sink.h"
#include "data/process/numbers.h"
#include "data/row_parser.h"

namespace simurgh {
namespace {

constexpr size_t kRowsAtOnce = 4'096;

// A column whose numbers are looked at.
struct Observed {
  std::string who;  // For messages: the column that is scaled, or the feature with quantiles.
  std::string column;
  size_t place = 0;        // Among the cells.
  uint32_t quantiles = 0;  // 0: it is scaled.
  ColumnConfig::Transform transform = ColumnConfig::Transform::kNone;
  Moments moments;             // Of what is scaled, after the transform.
  std::vector<double> values;  // Of what is parted, as they stand.
};

// Sees the cells of all training rows that the features take.
class ObservingSink final : public RowConsumer {
 public:
  // scratch: for a sample of the features.
  ObservingSink(std::vector<Observed>& observed, std::unique_ptr<RowConsumer> features,
                BatchBuilder scratch)
      : observed_(observed), features_(std::move(features)), scratch_(std::move(scratch)) {}

  bool Reads(size_t column) const override {
    return features_->Reads(column) ||
           std::any_of(observed_.begin(), observed_.end(),
                       [column](const Observed& one) { return one.place == column; });
  }

  std::string ReaderOf(size_t column) const override {
    const auto reader =
        std::ranges::find_if(observed_, [=](const Observed& one) { return one.place == column; });
    return reader == observed_.end() ? features_->ReaderOf(column) : reader->who;
  }

  // All of a row, or nothing: one that is left out of training counts nowhere.
  Status Consume(const RowCells& cells, BatchBuilder& /*builder*/) override {
    numbers_.clear();
    for (const Observed& one : observed_) {
      for (const Token& token : cells.cell(one.place)) {
        const auto value = token.is_number ? std::nullopt : ParseNumberCell(token.text);
        if (!value) {
          return absl::InvalidArgumentError(
              absl::StrFormat("%s: %s is not a finite number; correct it, or mark it as missing",
                              one.who, Quoted(token.text)));
        }
        numbers_.push_back(*value);
      }
    }
    const Status taken = features_->Consume(cells, scratch_);
    scratch_.AbandonSample();
    SIMURGH_RETURN_IF_ERROR(taken);
    auto next = numbers_.begin();
    for (Observed& one : observed_) {
      for (size_t n = cells.cell(one.place).size(); n > 0; --n, ++next) {
        if (one.quantiles > 0) {
          one.values.push_back(*next);
        } else {
          one.moments.Add(Transformed(one.transform, *next));
        }
      }
    }
    return absl::OkStatus();
  }

 private:
  std::vector<Observed>& observed_;
  std::unique_ptr<RowConsumer> features_;
  BatchBuilder scratch_;
  std::vector<double> numbers_;  // Of the present row.
};

Status FindPlaces(const std::vector<std::string>& columns, std::vector<Observed>& observed) {
  for (Observed& one : observed) {
    const auto found = std::find(columns.begin(), columns.end(), one.column);
    if (found == columns.end()) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "%s: there is no column '%s' to take statistics of", one.who, one.column));
    }
    one.place = found - columns.begin();
  }
  return absl::OkStatus();
}

// Any boundaries let a feature take the rows that those to be fitted will.
std::vector<FeatureConfig> WithAnyBoundaries(std::vector<FeatureConfig> features) {
  for (FeatureConfig& feature : features) {
    if (feature.processing.quantiles > 0) feature.processing.boundaries = {0.0};
  }
  return features;
}

// Reads dense columns to be fitted as texts: nothing scales them yet, so none is too large.
DataConfig WithUnscaled(DataConfig config) {
  for (ColumnConfig& column : config.csv.columns) {
    if (column.fit) column.kind = ColumnConfig::Kind::kId;
  }
  return config;
}

Status Observe(const DataConfig& config, const std::vector<FeatureConfig>& features,
               std::vector<Observed>& observed) {
  const size_t dense_width = DenseColumns(config).size();
  const auto sink =
      [&](const std::vector<std::string>& columns) -> StatusOr<std::unique_ptr<RowConsumer>> {
    SIMURGH_RETURN_IF_ERROR(FindPlaces(columns, observed));
    SIMURGH_ASSIGN_OR_RETURN(auto taking,
                             NewFeatureSink(columns, config, WithAnyBoundaries(features)));
    return std::make_unique<ObservingSink>(observed, std::move(taking),
                                           BatchBuilder(features.size(), dense_width));
  };
  SIMURGH_ASSIGN_OR_RETURN(
      const auto reader,
      FileBatchReader::Open(config, sink, config.train,
                            BatchBuilder(0, dense_width, LabelColumns(config).size()), kRowsAtOnce,
                            {}));
  while (true) {
    SIMURGH_ASSIGN_OR_RETURN(const std::optional<Batch> batch, reader->Next());
    if (!batch.has_value()) return absl::OkStatus();
  }
}

Status NoSpread(const Observed& one) {
  return absl::InvalidArgumentError(absl::StrFormat(
      "%s: its %.0f numbers in the training files are all the same; give its statistics, "
      "or leave it out",
      one.who, one.moments.count()));
}

Status TooFarApart(const Observed& one) {
  return absl::InvalidArgumentError(absl::StrFormat(
      "%s: its %.0f numbers in the training files are too far apart for a deviation; correct them, "
      "or transform them by log1p",
      one.who, one.moments.count()));
}

// Of a feature with quantiles, whose values it takes.
StatusOr<std::vector<double>> FittedBoundaries(Observed& one) {
  const size_t count = one.values.size();
  std::vector<double> boundaries = QuantileBoundaries(std::move(one.values), one.quantiles);
  if (!boundaries.empty()) return boundaries;
  return absl::InvalidArgumentError(absl::StrFormat(
      "%s: the training files have %d numbers, too many of them equal to the smallest "
      "for %d quantiles; raise quantiles or set boundaries",
      one.who, count, one.quantiles));
}

// Statistics of all columns that are scaled by them, in their order.
StatusOr<std::vector<Moments>> FittedMoments(std::span<const Observed> observed) {
  std::vector<Moments> moments;
  for (const Observed& one : observed) {
    if (!std::isfinite(one.moments.stddev())) return TooFarApart(one);
    if (one.moments.stddev() == 0.0) return NoSpread(one);
    moments.push_back(one.moments);
  }
  return moments;
}

// The columns that are to be scaled by what the training files hold.
std::vector<Observed> ScaledColumns(const DataConfig& config) {
  std::vector<Observed> observed;
  const bool is_criteo = config.format == DataConfig::Format::kCriteo;
  if (is_criteo && !config.criteo.fit) return observed;
  for (const ColumnConfig& column : is_criteo ? CriteoDense({}) : config.csv.columns) {
    if (!is_criteo && !column.fit) continue;
    observed.push_back({.who = absl::StrFormat("column '%s'", column.name),
                        .column = column.name,
                        .transform = column.transform});
  }
  return observed;
}

void SetStatistics(const std::vector<Moments>& moments, DataConfig& config) {
  CriteoConfig& criteo = config.criteo;
  auto next = moments.begin();
  for (ColumnConfig& column : config.csv.columns) {
    if (!column.fit) continue;
    column.mean = next->mean();
    column.stddev = next->stddev();
    ++next;
  }
  for (; criteo.fit && next != moments.end(); ++next) {
    criteo.mean.push_back(next->mean());
    criteo.stddev.push_back(next->stddev());
  }
}

}  // namespace

Status FitStatistics(DataConfig& config, std::vector<FeatureConfig>& features) {
  config.criteo.mean.clear();
  config.criteo.stddev.clear();
  std::vector<Observed> observed = ScaledColumns(config);
  const size_t scaled = observed.size();
  std::vector<FeatureConfig*> bucketised;
  for (FeatureConfig& feature : features) {
    if (feature.processing.quantiles == 0) continue;
    observed.push_back({.who = absl::StrFormat("feature '%s'", feature.name),
                        .column = feature.sources().front(),
                        .quantiles = feature.processing.quantiles});
    bucketised.push_back(&feature);
  }
  if (observed.empty()) return absl::OkStatus();
  SIMURGH_RETURN_IF_ERROR(Observe(WithUnscaled(config), features, observed));
  SIMURGH_ASSIGN_OR_RETURN(const std::vector<Moments> moments,
                           FittedMoments(std::span(observed).first(scaled)));
  SetStatistics(moments, config);
  for (size_t i = 0; i < bucketised.size(); ++i) {
    SIMURGH_ASSIGN_OR_RETURN(bucketised[i]->processing.boundaries,
                             FittedBoundaries(observed[scaled + i]));
  }
  return absl::OkStatus();
}

}  // namespace simurgh
