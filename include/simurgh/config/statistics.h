#pragma once

#include <map>
#include <string>
#include <vector>

#include "simurgh/base/status.h"
#include "simurgh/config/data_config.h"
#include "simurgh/config/feature_config.h"

namespace simurgh {

// Statistics of the training files by name. `columns.NAME`, of a dense column with `fit`: mean and
// stddev. `features.NAME`, of a feature with `quantiles`: its boundaries, ascending.
using Statistics = std::map<std::string, std::vector<double>>;

// The statistics in a configuration, as set by ApplyStatistics or FitStatistics.
Statistics StatisticsOf(const DataConfig& data, const std::vector<FeatureConfig>& features);

// Sets what FitStatistics computes. Errors: INVALID_ARGUMENT unless the statistics are of exactly
// the columns and features that need them, with possible values; nothing changes then.
Status ApplyStatistics(const Statistics& statistics, DataConfig& data,
                       std::vector<FeatureConfig>& features);

}  // namespace simurgh
