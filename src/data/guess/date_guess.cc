#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "data/guess/column_name.h"
#include "data/guess/data_sample.h"
#include "data/processing/times.h"

namespace simurgh {
namespace {

// Returns whether a name ends or begins like "created_at", "timestamp".
bool NamesTime(const std::string& name) {
  static constexpr std::array<std::string_view, 14> kWords = {
      "time",  "timestamp", "timestamps", "ts",      "date",    "datetime", "dt",
      "epoch", "unixtime",  "at",         "created", "updated", "unix",     "when"};
  return std::ranges::any_of(WordsOf(name), [](const std::string& word) {
    return std::ranges::find(kWords, word) != kWords.end();
  });
}

// Returns whether the numbers are Unix times from 1990 to 2050.
bool AreEpochs(const std::string& name, const ColumnProfile& profile) {
  constexpr double kFirst = 7'305;
  constexpr double kLast = 29'220;
  constexpr double kLeastSeconds = 1e8;  // Smaller numbers are no Unix times.
  if (!profile.is_numeric() || profile.least < kLeastSeconds || profile.mangled > 0 ||
      profile.format != NumberFormat()) {
    return false;
  }
  const double first = EpochDays(profile.least);
  const double last = EpochDays(profile.greatest);
  // Times in different units differ by more.
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
  constexpr uint64_t kMinCompact = 3;  // Fewest different numbers such as 20240131.
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
  const double unit = are_dates ? 1 : last / profile.greatest;  // Days per unit of the numbers.
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

OtherDates FindOtherDates(const KeptRows& rows, size_t column, const ColumnProfile& profile) {
  constexpr double kFewest = 20;
  constexpr double kMost = 0.995;  // Least share of dates. Other cells are bad rows.
  if (profile.is_numeric() || profile.are_dates()) return {};
  struct Read {
    NumberProfile days;
    bool has_times = false;
  };
  std::array<Read, 2> reads;
  double cells = 0;
  for (size_t row = 0; row < rows.size(); ++row) {
    const std::string_view cell = rows.Cell(row, column);
    const std::string text(cell);
    if (profile.missing.contains(text) || profile.doubtful.contains(text)) continue;
    ++cells;
    for (size_t i = 0; i < reads.size(); ++i) {
      const auto order = i == 0 ? DateOrder::kDayFirst : DateOrder::kMonthFirst;
      const auto days = ParseNumberCell(cell) ? std::nullopt : ParseDateCell(cell, order);
      if (!days) continue;
      reads[i].days.AddNumber(*days, {}, {});
      reads[i].has_times |= std::floor(*days) != *days;
    }
    // Stops early, since most texts are no dates.
    if (cells == kFewest && reads[0].days.numbers == 0 && reads[1].days.numbers == 0) return {};
  }
  const uint64_t by_day = reads[0].days.numbers;
  const uint64_t by_month = reads[1].days.numbers;
  const Read& best = by_day >= by_month ? reads[0] : reads[1];
  if (cells < kFewest || static_cast<double>(best.days.numbers) < kMost * cells) return {};
  if (by_day == by_month) return {.is_ambiguous = true};
  const bool is_day_first = by_day > by_month;
  OtherDates found{.order = is_day_first ? DateOrder::kDayFirst : DateOrder::kMonthFirst};
  ColumnGuess& guess = found.guess;
  guess.config = {.name = {}, .kind = ColumnConfig::Kind::kDense, .fit = true, .date = true};
  guess.config.date_order = found.order;
  guess.config.mean = best.days.moments.mean();
  guess.config.stddev = best.days.moments.stddev() > 0 ? best.days.moments.stddev() : 1;
  guess.has_times = best.has_times;
  guess.reason = absl::StrCat("dates, ", is_day_first ? "the day first" : "the month first",
                              ", from ", DayText(best.days.least), " to ",
                              DayText(best.days.greatest), ", as days; also the ",
                              best.has_times ? "hour and the " : "", "day of the week");
  if (profile.filled < profile.cells() || !profile.doubtful.empty()) {
    guess.config.missing = guess.config.mean;
  }
  return found;
}

}  // namespace simurgh
