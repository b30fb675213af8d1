#include "config/statistics.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "absl/strings/str_cat.h"

namespace simurgh {
namespace {

std::string NameOf(const ColumnConfig& column) { return absl::StrCat("columns.", column.name); }
std::string NameOf(const FeatureConfig& feature) { return absl::StrCat("features.", feature.name); }

Status Invalid(const std::string& name, const std::string& what, const std::string& remedy) {
  return absl::InvalidArgumentError(absl::StrCat("statistics: ", name, ": ", what, "; ", remedy));
}

// Checks that `name` has finite numbers for which `are_valid` holds. allowed: describes them.
Status Check(const Statistics& statistics, const std::string& name, const std::string& allowed,
             const std::function<bool(const std::vector<double>&)>& are_valid) {
  const auto found = statistics.find(name);
  if (found == statistics.end()) {
    return Invalid(name, "missing", "use the configuration that the statistics were computed with");
  }
  const bool finite =
      std::ranges::all_of(found->second, [](double number) { return std::isfinite(number); });
  if (finite && are_valid(found->second)) return absl::OkStatus();
  return Invalid(name, absl::StrCat("its ", found->second.size(), " numbers are not ", allowed),
                 "use an undamaged copy of the model");
}

// Models of older versions have no statistics of labels, weights and values of pairs, which they
// did not scale.
bool IsUnscaledByOlder(const ColumnConfig& column, const Statistics& statistics) {
  return column.kind != ColumnConfig::Kind::kDense && !statistics.contains(NameOf(column));
}

// Returns index, mean and stddev for each index, which is an integer that a double holds exactly.
std::vector<double> NumbersOf(const std::map<uint64_t, ValueScale>& scales) {
  std::vector<double> numbers;
  for (const auto& [index, scale] : scales) {
    numbers.insert(numbers.end(), {static_cast<double>(index), scale.mean, scale.stddev});
  }
  return numbers;
}

bool AreValueScales(const std::vector<double>& numbers) {
  if (numbers.size() % 3 != 0) return false;
  for (size_t i = 0; i < numbers.size(); i += 3) {
    const double index = numbers[i];
    const bool is_index = index >= 0 && index < kMaxScaledIndex && index == std::floor(index);
    if (!is_index || !(numbers[i + 2] > 0)) return false;
  }
  return true;
}

}  // namespace

Statistics StatisticsOf(const DataConfig& data, const std::vector<FeatureConfig>& features) {
  Statistics statistics;
  for (const ColumnConfig& column : ColumnsOf(data)) {
    if (!column.fit) continue;
    statistics[NameOf(column)] = column.kind == ColumnConfig::Kind::kId
                                     ? NumbersOf(column.value_scales)
                                     : std::vector<double>{column.mean, column.stddev};
  }
  for (const FeatureConfig& feature : features) {
    const ProcessingConfig& processing = feature.processing;
    if (processing.quantiles > 0) statistics[NameOf(feature)] = processing.boundaries;
  }
  return statistics;
}

Status ApplyStatistics(const Statistics& statistics, DataConfig& data,
                       std::vector<FeatureConfig>& features) {
  const Statistics needed = StatisticsOf(data, features);
  for (const auto& [name, numbers] : statistics) {
    if (needed.contains(name)) continue;
    return Invalid(name, "not a column with fit or a feature with quantiles",
                   "use the configuration that the statistics were computed with");
  }
  const std::vector<ColumnConfig> columns = ColumnsOf(data);
  for (const ColumnConfig& column : columns) {
    if (!column.fit || IsUnscaledByOlder(column, statistics)) continue;
    if (column.kind == ColumnConfig::Kind::kId) {
      SIMURGH_RETURN_IF_ERROR(Check(statistics, NameOf(column),
                                    "an index, a mean and a stddev above 0 for each",
                                    AreValueScales));
      continue;
    }
    SIMURGH_RETURN_IF_ERROR(
        Check(statistics, NameOf(column), "a mean and a stddev above 0",
              [](const auto& numbers) { return numbers.size() == 2 && numbers[1] > 0.0; }));
  }
  for (const FeatureConfig& feature : features) {
    const uint32_t quantiles = feature.processing.quantiles;
    if (quantiles == 0) continue;
    SIMURGH_RETURN_IF_ERROR(Check(
        statistics, NameOf(feature), absl::StrCat("1 to ", quantiles - 1, " ascending boundaries"),
        [&](const auto& numbers) {
          return !numbers.empty() && numbers.size() < quantiles &&
                 std::ranges::adjacent_find(numbers, std::greater_equal()) == numbers.end();
        }));
  }
  data.criteo.mean.clear();
  data.criteo.stddev.clear();
  for (size_t i = 0; i < columns.size(); ++i) {
    if (!columns[i].fit) continue;
    if (IsUnscaledByOlder(columns[i], statistics)) {
      data.columns[i].fit = false;
      continue;
    }
    const std::vector<double>& numbers = statistics.at(NameOf(columns[i]));
    if (columns[i].kind == ColumnConfig::Kind::kId) {
      std::map<uint64_t, ValueScale>& scales = data.columns[i].value_scales;
      scales.clear();
      for (size_t n = 0; n < numbers.size(); n += 3) {
        scales[static_cast<uint64_t>(numbers[n])] = {numbers[n + 1], numbers[n + 2]};
      }
    } else if (data.format != DataConfig::Format::kCriteo) {
      data.columns[i].mean = numbers[0];
      data.columns[i].stddev = numbers[1];
    } else {
      data.criteo.mean.push_back(numbers[0]);
      data.criteo.stddev.push_back(numbers[1]);
    }
  }
  for (FeatureConfig& feature : features) {
    if (feature.processing.quantiles == 0) continue;
    feature.processing.boundaries = statistics.at(NameOf(feature));
  }
  return absl::OkStatus();
}

std::vector<LabelScale> LabelScalesOf(const DataConfig& data) {
  std::vector<LabelScale> scales;
  for (const ColumnConfig& column : ColumnsOf(data)) {
    if (column.kind != ColumnConfig::Kind::kLabel) continue;
    scales.push_back({.mean = column.mean, .stddev = column.stddev});
  }
  return scales;
}

double MeanWeightOf(const DataConfig& data) {
  for (const ColumnConfig& column : ColumnsOf(data)) {
    if (column.kind == ColumnConfig::Kind::kWeight && column.fit) return column.mean;
  }
  return 1;
}

}  // namespace simurgh
