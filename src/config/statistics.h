#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "config/data_config.h"
#include "config/feature_config.h"

namespace simurgh {

// Statistics of the training files by name. `columns.NAME` of a column with `fit`: mean and stddev;
// for libsvm or libffm: index, mean and stddev for each index whose values are large.
// `features.NAME` of a feature with `quantiles`: its boundaries, ascending.
using Statistics = std::map<std::string, std::vector<double>>;

// Values of indices from here on are not scaled.
inline constexpr double kMaxScaledIndex = 9'007'199'254'740'992;  // 2^53

// Returns the statistics in a configuration that ApplyStatistics or FitStatistics has set.
Statistics StatisticsOf(const DataConfig& data, const std::vector<FeatureConfig>& features);

// Sets what FitStatistics computes. Errors: INVALID_ARGUMENT unless the statistics are of exactly
// the columns and features that need them, with possible values; nothing changes then.
Status ApplyStatistics(const Statistics& statistics, DataConfig& data,
                       std::vector<FeatureConfig>& features);

// Scale of a label. The network is trained on (label - mean) / stddev. Predictions, and all metrics
// but the training loss, are in the unit of the label.
struct LabelScale {
  double mean = 0;
  double stddev = 1;

  float Scaled(float label) const { return static_cast<float>((double{label} - mean) / stddev); }
  float Unscaled(float prediction) const {
    return static_cast<float>(double{prediction} * stddev + mean);
  }
  bool operator==(const LabelScale&) const = default;
};

// Returns the scales of labels, in order.
std::vector<LabelScale> LabelScalesOf(const DataConfig& data);

// Returns the mean weight of training samples, by which weights are divided; 1 without `fit`.
double MeanWeightOf(const DataConfig& data);

}  // namespace simurgh
