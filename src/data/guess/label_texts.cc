#include "simurgh/data/label_texts.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "data/guess/data_sample.h"
#include "data/process/numbers.h"
#include "data/row_parser.h"

namespace simurgh {

std::vector<std::string> UnusedLabelTexts(const DataConfig& data) {
  constexpr uint64_t kMaxRows = 200'000;
  const auto has_texts = [](const ColumnConfig& column) { return !column.positive.empty(); };
  if (data.train.empty() || std::ranges::none_of(data.columns, has_texts)) return {};
  const StatusOr<DataSample> sample = SampleData(data.train.front(), kMaxRows);
  if (!sample.ok()) return {};
  std::vector<std::string> warnings;
  for (const ColumnConfig& column : data.columns) {
    const auto at = std::ranges::find(sample->header, HeaderName(column));
    if (!has_texts(column) || at == sample->header.end()) continue;
    const ColumnProfile& profile =
        sample->columns[static_cast<size_t>(at - sample->header.begin())];
    if (profile.has_many_values) continue;
    const auto check = [&](const std::string& text, const char* list) {
      const bool is_used = profile.missing.contains(text) ||
                           std::ranges::any_of(profile.values, [&](const auto& value) {
                             return IsAmong(value.first, {text}, column.numbers);
                           });
      if (is_used) return;
      warnings.push_back(absl::StrCat("label '", column.name, "': ", Quoted(text), " of `", list,
                                      "` is in none of the ", sample->is_whole ? "" : "first ",
                                      sample->rows, " rows of ", data.train.front(),
                                      ". Correct it, or remove it"));
    };
    for (const std::string& text : column.positive) check(text, "positive");
    for (const std::string& text : column.negative) check(text, "negative");
  }
  return warnings;
}

}  // namespace simurgh
