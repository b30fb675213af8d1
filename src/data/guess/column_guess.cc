#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "data/guess/column_name.h"
#include "data/guess/data_sample.h"
#include "data/guess/evidence.h"
#include "data/processing/numbers.h"
#include "data/reading/csv_cells.h"

namespace simurgh {
namespace {

using Kind = ColumnConfig::Kind;

constexpr uint64_t kMaxCategories = 200;  // Most numbers that are used as ids, too.
constexpr uint64_t kRowsPerCategory = 20;
constexpr double kMaxSkewness = 2;  // Above it, non-negative numbers get log1p.
// Fewest numbers that differ from the most frequent one. With fewer, all training rows could have
// the same number.
constexpr uint64_t kMinOthers = 10;
constexpr uint32_t kQuantiles = 16;
constexpr uint64_t kMaxIntegerDigits = 15;  // Longer integers are names.

ColumnGuess Skip(std::string reason) {
  return {.config = {.name = {}, .kind = Kind::kSkip}, .reason = std::move(reason)};
}

bool NamesIds(const std::string& name) {
  const NameHint hint = HintOf(name);
  return hint == NameHint::kSurelyIds || hint == NameHint::kIds;
}

// Returns whether nearly every row has another value, from which nothing can be learned.
bool IsUnique(const ColumnProfile& profile) {
  constexpr uint64_t kMinRows = 50;
  return profile.filled >= kMinRows && profile.distinct.count() * 10 > profile.filled * 9;
}

bool IsRowNumber(const std::string& name, const ColumnProfile& profile) {
  constexpr std::array<std::string_view, 8> kNames = {"",       "id",  "index",      "row",
                                                      "row_id", "idx", "unnamed: 0", "#"};
  if (profile.numbers != profile.cells() || profile.integers != profile.numbers) return false;
  if (profile.numbers < 2) return false;
  if (profile.is_consecutive) return true;
  return std::ranges::find(kNames, absl::AsciiStrToLower(name)) != kNames.end() &&
         IsUnique(profile);
}

uint64_t MostFrequent(const ColumnProfile& profile) {
  uint64_t most = 0;
  for (const auto& [text, count] : profile.values) most = std::max(most, count);
  return most;
}

std::string CountText(const ColumnProfile& profile, uint64_t distinct, bool is_whole) {
  const bool is_exact = is_whole && distinct <= DistinctCounter::kExact;
  const char* const kind = !profile.is_numeric()                 ? " texts"
                           : profile.integers == profile.numbers ? " integers"
                                                                 : " numbers";
  return absl::StrCat(is_exact ? "" : "about ", distinct, kind);
}

ColumnGuess Ids(const ColumnProfile& profile, bool is_whole) {
  ColumnGuess guess{.config = {.name = {}, .kind = Kind::kId}, .reason = {}};
  guess.distinct = profile.distinct.count();
  guess.reason = CountText(profile, guess.distinct, is_whole);
  return guess;
}

ColumnGuess Lists(const ColumnProfile& profile, size_t separator) {
  const ListProfile& list = profile.lists[separator];
  const char between = ColumnProfile::kListSeparators[separator];
  ColumnGuess guess{.config = {.name = {}, .kind = Kind::kId, .separator = between}, .reason = {}};
  guess.distinct = list.distinct.count();
  guess.config.integers = list.integers == list.values;
  guess.reason = absl::StrFormat("lists of up to %d of about %d %s", list.most, guess.distinct,
                                 guess.config.integers ? "integers" : "texts");
  if (between != kListSeparator) {
    absl::StrAppend(&guess.reason, ", separated by '", absl::CHexEscape(std::string(1, between)),
                    "'");
  }
  return guess;
}

// Guesses vectors: cells of equally many numbers, some with decimals.
std::optional<ColumnGuess> GuessVectors(const ColumnProfile& profile) {
  constexpr std::string_view kSeparators = "\x1f|;,^\x01 ";
  constexpr uint64_t kMaxWidth = 1'024;
  for (size_t i = 0; i < profile.lists.size(); ++i) {
    const ListProfile& list = profile.lists[i];
    const char separator = ColumnProfile::kListSeparators[i];
    if (kSeparators.find(separator) == kSeparators.npos || list.lists == 0) continue;
    if (list.lists != profile.filled || list.fewest != list.most || list.most < 2) continue;
    if (list.most > kMaxWidth || list.numbers != list.values) continue;
    if (list.integers * 2 > list.values) continue;
    ColumnGuess guess{.config = {.name = {},
                                 .kind = Kind::kDense,
                                 .separator = separator,
                                 .width = static_cast<uint32_t>(list.most)},
                      .reason = absl::StrCat("vectors of ", list.most, " numbers, as they are")};
    return guess;
  }
  return std::nullopt;
}

// Returns "; loss .61 by value, .68 by 64 ranges, .69 by number".
std::string LossesOf(const Evidence& evidence) {
  if (evidence.rows == 0 || evidence.ranges == 0) return "";
  const auto text = [](double loss) {
    const std::string number = absl::StrFormat("%.3f", loss);
    return number.starts_with("0.") ? number.substr(1) : number;
  };
  return absl::StrCat("; loss ", text(evidence.by_value), " by value, ", text(evidence.by_range),
                      " by ", evidence.ranges, " ranges, ", text(evidence.by_number), " by number");
}

ColumnGuess Numbers(const ColumnProfile& profile, const Evidence& evidence) {
  ColumnGuess guess{.config = {.name = {}, .kind = Kind::kDense, .fit = true}, .reason = {}};
  guess.distinct = profile.distinct.count();
  guess.reason = absl::StrFormat("numbers from %g to %g", profile.least, profile.greatest);
  const bool is_log = IsLogOf(profile);
  if (is_log) {
    guess.config.transform = ColumnConfig::Transform::kLog1p;
    absl::StrAppend(&guess.reason, ", a few large; log1p");
  }
  guess.config.mean = is_log ? profile.log_moments.mean() : profile.moments.mean();
  const double stddev = is_log ? profile.log_moments.stddev() : profile.moments.stddev();
  if (stddev > 0) guess.config.stddev = stddev;
  if (profile.numbers < profile.cells()) {
    // A missing cell has the mean, which the scale makes 0.
    guess.config.missing = is_log ? std::expm1(profile.log_moments.mean()) : profile.moments.mean();
  }
  guess.reason += LossesOf(evidence);
  guess.is_also_id =
      guess.distinct <= kMaxCategories && guess.distinct * kRowsPerCategory <= profile.numbers;
  if (guess.is_also_id) {
    absl::StrAppend(&guess.reason, "; also an id, as there are only ", guess.distinct);
  } else if (profile.has_many_values && profile.at_least * 2 < profile.numbers) {
    guess.quantiles = std::max(kQuantiles, evidence.ranges);
    absl::StrAppend(&guess.reason, "; also an id, of ", guess.quantiles, " ranges");
  }
  return guess;
}

// Uses of integers as ids: not, instead of the numbers, or as well as these.
enum class IdLook { kNone, kIds, kBoth };
// Decides for integers without a hint in their name. is_few: they are also used as a category.
IdLook LookOf(const ColumnProfile& profile, const Evidence& evidence, bool is_few) {
  const auto distinct = static_cast<double>(profile.distinct.count());
  const auto rows = static_cast<double>(profile.numbers);
  // Each integer must occur in several rows.
  if (evidence.rows == 0 || !evidence.are_integral || rows < 2 * distinct) return IdLook::kNone;
  // Numbers next to ids that tell the same make training no better: on flights, flight numbers
  // next to their ids cost 0.004 of the AUC.
  const bool are_better = evidence.IsSureBy(evidence.value_over_smooth);
  if (is_few) {
    return are_better || !evidence.IsSureBy(evidence.number) ? IdLook::kIds : IdLook::kNone;
  }
  if (are_better) return IdLook::kIds;
  if (evidence.IsSureBy(evidence.value_beyond_smooth)) return IdLook::kBoth;
  if (evidence.IsSureBy(evidence.smooth)) return IdLook::kNone;
  // The label does not depend on the number. Ids matter with those of other columns, and have no
  // gaps if they are counted through.
  constexpr double kShare = 0.5;
  constexpr double kManyRows = 5;  // Rows per value.
  if (distinct > kShare * (profile.greatest - profile.least + 1)) return IdLook::kIds;
  return rows > kManyRows * distinct ? IdLook::kBoth : IdLook::kNone;
}

ColumnGuess GuessNumeric(const std::string& name, const ColumnProfile& profile,
                         const Evidence& evidence, bool is_unique, bool is_whole) {
  const NameHint hint = HintOf(name);
  const bool is_number = hint == NameHint::kNumber || hint == NameHint::kSurelyNumber;
  const bool are_integers = profile.integers == profile.numbers || evidence.are_integral;
  const bool is_name =
      are_integers && !is_number &&
      (profile.has_leading_zeros || hint == NameHint::kSurelyIds ||
       profile.greatest >= std::pow(10, kMaxIntegerDigits) ||
       (hint == NameHint::kIds && !(is_unique && evidence.IsSureBy(evidence.smooth))));
  const uint64_t distinct = profile.distinct.count();
  if (is_name || distinct <= 2) {
    if (is_name && is_unique) return Skip("an id that differs in nearly every row");
    ColumnGuess guess = Ids(profile, is_whole);
    guess.reason += LossesOf(evidence);
    return guess;
  }
  if (!profile.has_many_values && profile.numbers - MostFrequent(profile) < kMinOthers &&
      distinct * 2 < profile.numbers) {
    return Skip("nearly all numbers are the same");
  }
  ColumnGuess guess = Numbers(profile, evidence);
  if (is_number) return guess;
  switch (LookOf(profile, evidence, guess.is_also_id)) {
    case IdLook::kNone:
      break;
    case IdLook::kBoth:
      guess.is_also_id = true;
      absl::StrAppend(&guess.reason, ", and of each value");
      break;
    case IdLook::kIds:
      guess = Ids(profile, is_whole);
      guess.reason += LossesOf(evidence);
      break;
  }
  return guess;
}

}  // namespace

// Values of lists repeat more than the cells do. Their number varies and, where the separator also
// occurs in names, their order.
std::optional<size_t> FindListSeparator(const ColumnProfile& profile) {
  constexpr double kMinMixing = 0.5;
  const uint64_t texts = profile.filled - profile.numbers;
  if (profile.lists[0].lists > 0) return 0;
  for (size_t i = 0; i < profile.lists.size(); ++i) {
    const ListProfile& list = profile.lists[i];
    const char separator = ColumnProfile::kListSeparators[i];
    const uint64_t distinct = list.distinct.count();
    const bool is_common = list.lists * 5 >= texts && list.lists * 5 >= profile.filled;
    const bool varies = list.fewest < list.most;
    const bool repeats = distinct * 2 <= list.values && distinct < profile.distinct.count();
    if (!is_common || !varies || !repeats) continue;
    // Words of texts that differ in all rows are of more use than the texts.
    const bool may_be_names = separator == '_' || (separator == ' ' && !IsUnique(profile));
    if (!may_be_names || list.Mixing() >= kMinMixing) return i;
  }
  return std::nullopt;
}

bool IsLogOf(const ColumnProfile& profile) {
  return profile.least >= 0 && profile.skewness() > kMaxSkewness;
}

ColumnGuess GuessColumn(const std::string& name, const ColumnProfile& profile,
                        const Evidence& evidence, bool is_whole) {
  if (profile.filled == 0) return Skip("no row has a value");
  if (profile.distinct.count() == 1 && profile.missing_cells() == 0) {
    return Skip("the same in all rows");
  }
  if (IsRowNumber(name, profile)) return Skip("row numbers");
  if (const auto dates = GuessDates(name, profile)) return *dates;
  // Ids of a few of many rows can still repeat.
  const bool is_unique = IsUnique(profile) && (is_whole || !NamesIds(name));
  if (profile.is_numeric()) return GuessNumeric(name, profile, evidence, is_unique, is_whole);
  if (const auto vectors = GuessVectors(profile)) return *vectors;
  if (const auto separator = FindListSeparator(profile)) return Lists(profile, *separator);
  if (is_unique) return Skip("a text that differs in nearly every row");
  return Ids(profile, is_whole);
}

StatusOr<ColumnGuess> GuessAs(Kind kind, const std::string& name, const ColumnProfile& profile,
                              const Evidence& evidence, bool is_whole) {
  if (kind == Kind::kId) {
    const auto separator = profile.is_numeric() ? std::nullopt : FindListSeparator(profile);
    return separator ? Lists(profile, *separator) : Ids(profile, is_whole);
  }
  const bool is_weight = kind == Kind::kWeight;
  if (const auto dates = GuessDates(name, profile); dates && !is_weight) return *dates;
  if (const auto vectors = GuessVectors(profile); vectors && !is_weight) return *vectors;
  if (!profile.is_numeric() || (is_weight && profile.least < 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat(is_weight ? "--weight " : "--dense ", name, ": some cells are no numbers",
                     is_weight ? " of at least 0" : "", "; name a column of numbers"));
  }
  if (!is_weight) return Numbers(profile, evidence);
  return ColumnGuess{
      .config = {.name = {}, .kind = kind},
      .reason = absl::StrFormat("of the sample, from %g to %g", profile.least, profile.greatest)};
}

}  // namespace simurgh
