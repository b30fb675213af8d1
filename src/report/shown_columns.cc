#include "report/shown_columns.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace simurgh {
namespace {

// Segments that are shown without being asked for.
constexpr size_t kChosenColumns = 3;

// Returns counted columns that matter most, with a group's column first.
std::vector<std::string> ChosenColumns(const InputScan& scan,
                                       const std::optional<Importance>& importance,
                                       const DataConfig& data) {
  std::vector<std::string> counted = scan.CountedColumns();
  const std::vector<ColumnConfig> columns = ColumnsOf(data);
  const auto rank = [&](const std::string& name) -> size_t {
    const auto column = std::ranges::find(columns, name, &ColumnConfig::name);
    if (column != columns.end() && column->kind == ColumnConfig::Kind::kGroup) return 0;
    if (!importance) return 1;
    const auto& all = importance->columns;
    const auto found = std::ranges::find(all, ColumnGroup{name}, &ColumnImportance::columns);
    return 1 + static_cast<size_t>(found - all.begin());
  };
  std::ranges::sort(counted, {},
                    [&](const std::string& name) { return std::pair(rank(name), name); });
  return counted;
}

}  // namespace

std::vector<std::string> SegmentCandidates(const ModelVersion& model, const DataConfig& data) {
  std::vector<std::string> names;
  if (HasPairs(data)) return names;
  for (const ColumnConfig& column : ColumnsOf(data)) {
    const auto& columns = model.format().columns;
    const auto read = std::ranges::find(columns, column.name, &RowFormat::Column::name);
    const bool is_read = read != columns.end() && read->is_read;
    const bool is_group = column.kind == ColumnConfig::Kind::kGroup;
    const bool is_single = column.separator == '\0' && column.width == 1 && !column.date;
    if ((is_read || is_group) && is_single) names.push_back(column.name);
  }
  return names;
}

std::vector<SegmentsReport> ShownSegments(InputScan& scan,
                                          const std::optional<Importance>& importance,
                                          const DataConfig& data, bool are_wanted) {
  std::vector<SegmentsReport> shown = scan.TakeSegments(ChosenColumns(scan, importance, data));
  if (are_wanted) return shown;
  std::erase_if(shown, [](const SegmentsReport& one) { return one.segments.size() < 2; });
  if (shown.size() > kChosenColumns) shown.resize(kChosenColumns);
  return shown;
}

}  // namespace simurgh
