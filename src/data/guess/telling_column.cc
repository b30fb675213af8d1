#include "data/guess/telling_column.h"

#include <algorithm>

#include "data/guess/data_sample.h"
#include "data/guess/evidence.h"

namespace simurgh {

std::optional<TellingColumn> FindTellingColumn(const DataConfig& data, const std::string& label) {
  constexpr uint64_t kMaxRows = 20'000;
  constexpr double kClear = 0.5;  // Share of a constant's loss.
  const auto config = std::ranges::find(data.columns, label, &ColumnConfig::name);
  if (config == data.columns.end() || data.train.empty()) return std::nullopt;
  const StatusOr<DataSample> sample = SampleData(data.train.front(), kMaxRows);
  if (!sample.ok()) return std::nullopt;
  const auto at = std::ranges::find(sample->header, HeaderName(*config));
  if (at == sample->header.end()) return std::nullopt;
  const auto label_column = static_cast<size_t>(at - sample->header.begin());
  const KeptLabels labels(sample->kept, label_column, *config);
  std::optional<TellingColumn> best;
  for (const ColumnConfig& column : data.columns) {
    if (column.kind != ColumnConfig::Kind::kId && column.kind != ColumnConfig::Kind::kDense) {
      continue;
    }
    const std::string& name = HeaderName(column);
    const auto found = std::ranges::find(sample->header, name);
    if (found == sample->header.end() || found == at) continue;
    const auto i = static_cast<size_t>(found - sample->header.begin());
    const ColumnProfile& profile = sample->columns[i];
    const bool is_numeric = profile.is_numeric();
    const Evidence evidence =
        labels.Measure(i, is_numeric, is_numeric && IsLogOf(profile), profile.format);
    const auto consider = [&](double loss, double constant) {
      if (loss > kClear * constant || (best && loss >= best->loss)) return;
      best = {.name = name, .loss = loss, .constant = constant};
    };
    if (evidence.rows > 0) consider(evidence.least(), evidence.constant);
    consider(evidence.by_presence, evidence.constant_of_all);
  }
  return best;
}

}  // namespace simurgh
