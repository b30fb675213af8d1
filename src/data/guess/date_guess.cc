#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <optional>
#include <regex>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "data/guess/column_name.h"
#include "data/guess/data_sample.h"
#include "data/process/times.h"

namespace simurgh {
namespace {

// Whether a name ends or begins like "created_at", "timestamp".
bool NamesTime(const std::string& name) {
  static constexpr std::array<std::string_view, 14> kWords = {
      "time",  "timestamp", "timestamps", "ts",      "date",    "datetime", "dt",
      "epoch", "unixtime",  "at",         "created", "updated", "unix",     "when"};
  return std::ranges::any_of(WordsOf(name), [](const std::string& word) {
    return std::ranges::find(kWords, word) != kWords.end();
  });
}

// Whether the numbers are Unix times from 1990 to 2050.
bool AreEpochs(const std::string& name, const ColumnProfile& profile) {
  constexpr double kFirst = 7'305;
  constexpr double kLast = 29'220;
  constexpr double kLeastSeconds = 1e8;  // Smaller numbers are none.
  if (!profile.is_numeric() || profile.least < kLeastSeconds || profile.mangled > 0 ||
      profile.format != NumberFormat()) {
    return false;
  }
  const double first = EpochDays(profile.least);
  const double last = EpochDays(profile.greatest);
  // Of one unit.
  const bool is_near = profile.greatest < profile.least * 10;
  if (first < kFirst || last > kLast || !is_near) return false;
  const bool differ = profile.distinct.count() * 2 > profile.filled;
  return NamesTime(name) || (differ && HintOf(name) == NameHint::kNone);
}

std::string DayText(double days) {
  const std::chrono::year_month_day date{
      std::chrono::sys_days(std::chrono::days(static_cast<int>(std::floor(days))))};
  return absl::StrFormat("%04d-%02d-%02d", static_cast<int>(date.year()),
                         static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()));
}

}  // namespace

std::optional<ColumnGuess> GuessDates(const std::string& name, const ColumnProfile& profile) {
  constexpr uint64_t kMinCompact = 3;  // Different numbers such as 20240131.
  const bool is_compact = profile.numbers > 0;
  const bool are_dates =
      profile.are_dates() && (!is_compact || profile.distinct.count() >= kMinCompact);
  if (!are_dates && !AreEpochs(name, profile)) return std::nullopt;
  const double first = are_dates ? profile.dates.least : EpochDays(profile.least);
  const double last = are_dates ? profile.dates.greatest : EpochDays(profile.greatest);
  ColumnGuess guess{
      .config = {.name = {}, .kind = ColumnConfig::Kind::kDense, .fit = true, .date = true},
      .reason = absl::StrCat(are_dates ? "dates from " : "Unix times from ", DayText(first), " to ",
                             DayText(last), ", as days")};
  const double unit = are_dates ? 1 : last / profile.greatest;  // Days.
  const Moments& moments = are_dates ? profile.dates.moments : profile.moments;
  guess.config.mean = moments.mean() * unit;
  guess.config.stddev = moments.stddev() > 0 ? moments.stddev() * unit : 1;
  guess.has_times = !are_dates || profile.has_times;
  absl::StrAppend(&guess.reason, guess.has_times ? "; also the hour and the day of the week"
                                                 : "; also the day of the week");
  if (profile.filled < profile.cells() || !profile.doubtful.empty() || !profile.words.empty()) {
    guess.config.missing = guess.config.mean;
  }
  return guess;
}

std::string OtherDateForm(const KeptRows& rows, size_t column) {
  constexpr uint64_t kFewest = 20;
  constexpr double kMost = 0.95;
  static const std::regex kForm(
      R"(([0-9]{1,2})([./-])([0-9]{1,2})[./-]([0-9]{2}|[0-9]{4})([ T]+[0-9]{1,2}:.*)?)");
  constexpr size_t kMaxRows = 2'000;
  uint64_t dates = 0;
  uint64_t cells = 0;
  int first = 0;
  int second = 0;
  std::string between;
  bool has_times = false;
  bool has_century = true;
  for (size_t row = 0; row < std::min(rows.size(), kMaxRows); ++row) {
    const std::string cell(rows.Cell(row, column));
    if (cell.empty()) continue;
    ++cells;
    std::smatch parts;
    if (!std::regex_match(cell, parts, kForm)) continue;
    ++dates;
    first = std::max(first, std::stoi(parts[1]));
    second = std::max(second, std::stoi(parts[3]));
    between = parts[2];
    has_century &= parts[4].length() == 4;
    has_times |= parts[5].matched;
  }
  constexpr int kMonths = 12;
  constexpr int kDays = 31;
  const bool is_date = std::min(first, second) <= kMonths && std::max(first, second) <= kDays;
  if (dates < kFewest || static_cast<double>(dates) < kMost * static_cast<double>(cells) ||
      !is_date) {
    return "";
  }
  const std::string year = absl::StrCat(between, has_century ? "YYYY" : "YY");
  const std::string time = has_times ? " HH:MM" : "";
  std::string form =
      first > kMonths ? absl::StrCat("DD", between, "MM") : absl::StrCat("MM", between, "DD");
  absl::StrAppend(&form, year, time);
  if (first <= kMonths && second <= kMonths) {
    absl::StrAppend(&form, " or DD", between, "MM", year, time);
  }
  return absl::StrCat("; looks like ", form, "; convert to YYYY-MM-DD", time,
                      " to learn from the time");
}

}  // namespace simurgh
