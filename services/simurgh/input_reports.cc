#include "services/simurgh/input_reports.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "services/simurgh/commands.h"
#include "tensor/matrix_view.h"

namespace simurgh {

void FarNumbers::Count(const DenseBatch& batch) {
  const MatrixView<const float> rows = batch.matrix();
  counts_.resize(batch.width);
  for (size_t row = 0; row < rows.rows(); ++row) {
    for (size_t c = 0; c < batch.width; ++c) counts_[c] += std::abs(rows(row, c)) > kFar;
  }
}

void FarNumbers::Report(const DataConfig& data) const {
  size_t place = 0;
  for (const ColumnConfig& column : data.columns) {
    if (column.kind != ColumnConfig::Kind::kDense) continue;
    uint64_t count = 0;
    for (size_t i = 0; i < column.width && place < counts_.size(); ++i) count += counts_[place++];
    if (count == 0 || !column.fit) continue;
    PrintWarnings({absl::StrFormat(
        "column '%s': %d numbers are more than %.0f standard deviations from the mean of the "
        "training; predictions of such rows are guesses",
        HeaderName(column), count, kFar)});
  }
}

double UnseenShare(const std::vector<Predictor::IdCount>& counts) {
  double unseen = 0;
  double all = 0;
  for (const Predictor::IdCount& count : counts) {
    unseen += static_cast<double>(count.unseen);
    all += static_cast<double>(count.occurrences);
  }
  return all > 0 ? unseen / all : 0;
}

void ReportUnseenIds(const std::vector<FeatureConfig>& features,
                     const std::vector<Predictor::IdCount>& counts, bool is_csv) {
  constexpr double kNotable = 0.05;
  constexpr double kHigh = 0.5;
  constexpr uint64_t kFewIds = 20;  // Fewer ids prove little.
  double highest = 0;
  std::map<std::string, double> share_of_column;
  for (size_t f = 0; f < counts.size(); ++f) {
    const Predictor::IdCount& count = counts[f];
    const std::vector<std::string> columns = features[f].sources();
    if (columns.size() > 1) continue;  // Pairs of known ids are often new.
    const std::string& column = columns.front();
    const double share = static_cast<double>(count.unseen) /
                         static_cast<double>(std::max<uint64_t>(count.occurrences, 1));
    // Several features of a column have the same ids, so one warning suffices.
    if (!share_of_column.emplace(column, share).second) continue;
    // A CSV file has a column even if all its cells are empty; other formats may leave it out.
    if (count.rows >= (is_csv ? kFewIds : 1) && count.empty_rows == count.rows) {
      PrintWarnings(
          {absl::StrCat("column '", column, "' has no id in any row; the input may lack it")});
    }
    if (count.occurrences < kFewIds) continue;
    highest = std::max(highest, share);
    if (share < kHigh) continue;
    PrintWarnings({absl::StrFormat(
        "column '%s': the training saw no row with %.0f %% of the ids; compare how they are "
        "written with the training data",
        column, 100 * share)});
  }
  if (highest >= kNotable) {
    std::vector<std::pair<double, std::string>> shares;
    for (const auto& [column, share] : share_of_column) shares.emplace_back(share, column);
    std::ranges::sort(shares, std::greater<>{}, &std::pair<double, std::string>::first);
    constexpr size_t kShown = 20;
    std::string text;
    for (size_t i = 0; i < std::min(kShown, shares.size()); ++i) {
      absl::StrAppendFormat(&text, " %s=%.1f%%", shares[i].second, 100 * shares[i].first);
    }
    std::fprintf(stderr, "simurgh: unseen ids by column:%s%s\n", text.c_str(),
                 shares.size() > kShown ? " ..." : "");
  }
}

}  // namespace simurgh
