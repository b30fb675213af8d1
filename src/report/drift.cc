#include "report/drift.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "tensor/matrix_view.h"

namespace simurgh {

void NumberSums::Add(const DenseBatch& batch) {
  const MatrixView<const float> rows = batch.matrix();
  sums_.resize(batch.width);
  squares_.resize(batch.width);
  rows_ += static_cast<double>(rows.rows());
  for (size_t row = 0; row < rows.rows(); ++row) {
    for (size_t c = 0; c < batch.width; ++c) {
      const double value = rows(row, c);
      sums_[c] += value;
      squares_[c] += value * value;
    }
  }
}

std::vector<NumberDrift> NumberSums::DriftOf(const DataConfig& data) const {
  std::vector<NumberDrift> all;
  size_t place = 0;
  for (const ColumnConfig& column : ColumnsOf(data)) {
    if (column.kind != ColumnConfig::Kind::kDense) continue;
    const size_t first = place;
    place += column.width;
    // Columns of vectors have one number for all of their places.
    if (column.width > 1 || place > sums_.size() || rows_ == 0) continue;
    const double mean = sums_[first] / rows_;
    const double deviation = std::sqrt(std::max(0.0, squares_[first] / rows_ - mean * mean));
    all.push_back({.column = column.name,
                   .is_fitted = column.fit,
                   .training_mean = column.mean,
                   .training_deviation = column.stddev,
                   .mean = column.mean + mean * column.stddev,
                   .deviation = deviation * column.stddev});
  }
  return all;
}

std::vector<IdDrift> DriftOf(std::span<const Predictor::IdCount> counts,
                             const ClusterConfig& config) {
  std::vector<IdDrift> all;
  std::set<std::string> known;
  for (size_t f = 0; f < counts.size(); ++f) {
    const FeatureConfig& feature = config.features[f];
    const std::vector<std::string> columns = feature.sources();
    // Pairs of known ids are often new. Features of one column have the same ids.
    if (columns.size() > 1 || feature.processing.quantiles > 0 ||
        !feature.processing.boundaries.empty() || !known.insert(columns.front()).second) {
      continue;
    }
    const TableConfig& table = config.tables[feature.table_index];
    const auto share = [](uint64_t part, uint64_t all_of) {
      return all_of == 0 ? 0 : static_cast<double>(part) / static_cast<double>(all_of);
    };
    all.push_back({.column = columns.front(),
                   .unseen = share(counts[f].unseen, counts[f].occurrences),
                   .empty = share(counts[f].empty_rows, counts[f].rows),
                   .ids = counts[f].occurrences,
                   .admits_all = table.admission.kind == AdmissionConfig::Kind::kAlways});
  }
  return all;
}

}  // namespace simurgh
