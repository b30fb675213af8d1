#include "data/guess/label_texts.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/text.h"
#include "data/guess/data_sample.h"
#include "data/processing/numbers.h"

namespace simurgh {

namespace {

bool HasText(const ColumnProfile& profile, const ColumnConfig& label, const std::string& text) {
  return profile.missing.contains(text) ||
         std::ranges::any_of(profile.values, [&](const auto& value) {
           return IsAmong(value.first, {text}, label.numbers);
         });
}

}  // namespace

std::vector<std::string> UnusedLabelTexts(const DataConfig& data) {
  constexpr uint64_t kMaxRows = 200'000;
  std::map<std::pair<std::string, std::string>, const char*> unused;  // Label and text -> list.
  for (const ColumnConfig& column : data.columns) {
    if (column.positive.empty()) continue;
    for (const std::string& text : column.positive) unused[{column.name, text}] = "positive";
    for (const std::string& text : column.negative) unused[{column.name, text}] = "negative";
  }
  uint64_t rows = 0;
  for (const std::string& file : data.train) {
    if (unused.empty()) return {};
    const StatusOr<DataSample> sample = SampleData(file, kMaxRows);
    if (!sample.ok()) return {};
    rows += sample->rows;
    for (const ColumnConfig& column : data.columns) {
      if (column.positive.empty()) continue;
      const auto at = std::ranges::find(sample->header, HeaderName(column));
      if (at == sample->header.end()) return {};
      const ColumnProfile& profile =
          sample->columns[static_cast<size_t>(at - sample->header.begin())];
      if (profile.has_many_values) return {};
      std::erase_if(unused, [&](const auto& one) {
        return one.first.first == column.name && HasText(profile, column, one.first.second);
      });
    }
  }
  std::vector<std::string> warnings;
  for (const auto& [one, list] : unused) {
    warnings.push_back(absl::StrCat("label '", one.first, "': ", Quoted(one.second), " of `", list,
                                    "` is in none of the ", rows,
                                    " rows that were looked at. Correct it, or remove it"));
  }
  return warnings;
}

}  // namespace simurgh
