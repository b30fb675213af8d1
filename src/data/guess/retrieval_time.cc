#include "data/guess/retrieval_time.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "base/text.h"
#include "data/guess/data_sample.h"
#include "data/processing/times.h"

namespace simurgh {

std::optional<TimeRule> TimeRule::Find(const DataSample& sample, size_t column) {
  constexpr uint64_t kMost = 100;  // One of this many cells may be unreadable.
  const ColumnProfile& profile = sample.columns[column];
  const OtherDates dates = FindOtherDates(sample.kept, column, profile);
  TimeRule rule;
  rule.order_ = dates.order;
  uint64_t read = 0;
  uint64_t unread = 0;
  for (size_t row = 0; row < sample.kept.size(); ++row) {
    const std::string_view cell = sample.kept.Cell(row, column);
    if (MeansMissing(cell) || profile.doubtful.contains(std::string(cell))) continue;
    ++(rule.TimeOf(cell) ? read : unread);
  }
  if (read == 0 || unread * kMost > read + unread) return std::nullopt;
  return rule;
}

std::optional<double> TimeRule::TimeOf(std::string_view cell) const {
  return ParseTimeCell(cell, order_);
}

std::vector<std::string> TimeWarnings(const std::string& name, const ColumnProfile& profile) {
  constexpr double kLeastSeconds = 1e8;
  constexpr double kFactor = 100;  // Units of Unix times are a thousand apart.
  std::vector<std::string> warnings;
  if (profile.distinct.count() == 1) {
    warnings.push_back(absl::StrCat("all times of column ", Quoted(name),
                                    " are equal, so the order of the rows decides which are the "
                                    "last"));
  }
  if (profile.is_numeric() && profile.least >= kLeastSeconds &&
      profile.greatest >= kFactor * profile.least) {
    warnings.push_back(absl::StrFormat(
        "times of column %s are from %.0f to %.0f. Some seem to be seconds and others "
        "milliseconds; convert them to one unit",
        Quoted(name), profile.least, profile.greatest));
  }
  return warnings;
}

}  // namespace simurgh
