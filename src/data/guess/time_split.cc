#include "data/guess/time_split.h"

#include <algorithm>
#include <limits>
#include <span>
#include <string_view>

#include "absl/strings/str_cat.h"

#include "base/text.h"
#include "data/guess/row_split.h"
#include "data/guess/table_rows.h"
#include "data/processing/times.h"

namespace simurgh {

StatusOr<TimeSplit> TimeSplit::Read(const DataGuess& guess, const std::string& path, uint64_t every,
                                    bool has_validation, bool has_test) {
  const size_t column = guess.time_column.value();
  TimeSplit split;
  TableCells splitter(guess.table);
  SIMURGH_RETURN_IF_ERROR(
      ReadGuessed(guess, path, [&](std::string_view line, bool /*label*/) -> Status {
        SIMURGH_ASSIGN_OR_RETURN(const auto* cells, splitter.Split(line));
        split.times_.push_back(
            ParseTimeCell((*cells)[column], guess.columns[column].config.date_order).value());
        return absl::OkStatus();
      }).status());
  std::vector<double> sorted = split.times_;
  std::ranges::sort(sorted);
  const size_t share = std::max<size_t>(1, sorted.size() / every);
  std::span<const double> older = sorted;
  bool is_too_short = false;
  // Takes the newest rows, and returns their first time; infinity if there is no such part.
  const auto cut = [&](bool has_part) {
    if (!has_part) return std::numeric_limits<double>::infinity();
    double first = older[older.size() - std::min(share, older.size())];
    // The rows of the oldest time stay.
    if (first == older.front()) {
      const auto next = std::ranges::upper_bound(older, first);
      is_too_short |= next == older.end();
      if (next != older.end()) first = *next;
    }
    const auto end = std::ranges::lower_bound(older, first);
    if (end != older.begin()) older = older.first(static_cast<size_t>(end - older.begin()));
    return first;
  };
  split.test_ = cut(has_test);
  split.validation_ = cut(has_validation);
  if (!is_too_short) return split;
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": column ", Quoted(guess.header[column]),
                   " has too few different times for training, validation and test; name another "
                   "column with --time, or leave it out"));
}

}  // namespace simurgh
