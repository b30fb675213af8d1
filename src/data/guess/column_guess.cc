#include "data/guess/column_guess.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace simurgh {
namespace {

using Kind = ColumnConfig::Kind;

constexpr uint64_t kMaxVocabulary = 32;   // Values that are listed.
constexpr uint64_t kMaxCategories = 200;  // Numbers that are used as ids, too.
constexpr uint64_t kRowsPerCategory = 20;
constexpr double kMaxSkewness = 2;  // Above it, non-negative numbers get log1p.
// With fewer numbers that differ from the most frequent one, the training rows could all have that.
constexpr uint64_t kMinOthers = 10;
constexpr uint32_t kQuantiles = 16;
constexpr uint64_t kMaxIntegerDigits = 15;  // Longer ones are names.

ColumnGuess Skip(std::string reason) {
  return {.config = {.name = {}, .kind = Kind::kSkip}, .reason = std::move(reason)};
}

// Whether a name ends like "user_id", "userId", "zip code".
bool NamesIds(const std::string& name) {
  constexpr std::array<std::string_view, 12> kWords = {"id",      "ids",      "code", "zip",
                                                       "zipcode", "postcode", "hash", "key",
                                                       "uid",     "uuid",     "guid", "sku"};
  const auto is_letter = [](char c) { return absl::ascii_isalpha(static_cast<unsigned char>(c)); };
  size_t begin = name.size();
  while (begin > 0 && is_letter(name[begin - 1])) --begin;
  const std::string last = name.substr(begin);
  if (std::ranges::find(kWords, absl::AsciiStrToLower(last)) != kWords.end()) return true;
  return last.size() > 2 && (last.ends_with("Id") || last.ends_with("ID"));
}

// Whether nearly every row has another value, from which nothing can be learned.
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
  return absl::StrCat(is_exact ? "" : "about ", distinct,
                      profile.is_numeric() ? " numbers" : " texts");
}

ColumnGuess Ids(const ColumnProfile& profile, bool is_whole) {
  ColumnGuess guess{.config = {.name = {}, .kind = Kind::kId}, .reason = {}};
  guess.distinct = profile.distinct.count();
  guess.reason = CountText(profile, guess.distinct, is_whole);
  if (!is_whole || guess.distinct > kMaxVocabulary) return guess;
  for (const auto& [text, count] : profile.values) guess.vocabulary.push_back(text);
  return guess;
}

// The separator if the cells of texts are lists: the values repeat more than the cells do, and
// their number varies.
std::optional<size_t> FindListSeparator(const ColumnProfile& profile) {
  const uint64_t texts = profile.filled - profile.numbers;
  for (size_t i = 0; i < profile.lists.size(); ++i) {
    const ListProfile& list = profile.lists[i];
    const uint64_t distinct = list.distinct.count();
    const bool is_common = list.lists * 5 >= texts && list.lists * 5 >= profile.filled;
    const bool varies = list.fewest < list.most;
    const bool repeats = distinct * 2 <= list.values && distinct < profile.distinct.count();
    if (is_common && varies && repeats) return i;
  }
  return std::nullopt;
}

ColumnGuess Lists(const ColumnProfile& profile, size_t separator) {
  const ListProfile& list = profile.lists[separator];
  const char between = ColumnProfile::kListSeparators[separator];
  ColumnGuess guess{.config = {.name = {}, .kind = Kind::kId, .separator = between}, .reason = {}};
  guess.distinct = list.distinct.count();
  guess.reason = absl::StrFormat("lists of up to %d of about %d texts, separated by '%c'",
                                 list.most, guess.distinct, between);
  return guess;
}

ColumnGuess Numbers(const ColumnProfile& profile) {
  ColumnGuess guess{.config = {.name = {}, .kind = Kind::kDense, .fit = true}, .reason = {}};
  guess.distinct = profile.distinct.count();
  guess.reason = absl::StrFormat("numbers from %g to %g", profile.least, profile.greatest);
  const bool is_log = profile.least >= 0 && profile.skewness() > kMaxSkewness;
  if (is_log) {
    guess.config.transform = ColumnConfig::Transform::kLog1p;
    absl::StrAppend(&guess.reason, ", a few large; log1p");
  }
  if (profile.numbers < profile.cells()) {
    // The mean, which becomes 0.
    guess.config.missing = is_log ? std::expm1(profile.log_moments.mean()) : profile.moments.mean();
  }
  guess.is_also_id =
      guess.distinct <= kMaxCategories && guess.distinct * kRowsPerCategory <= profile.numbers;
  if (guess.is_also_id) {
    absl::StrAppend(&guess.reason, "; also an id, as there are only ", guess.distinct);
  } else if (profile.has_many_values && profile.at_least * 2 < profile.numbers) {
    guess.quantiles = kQuantiles;
    absl::StrAppend(&guess.reason, "; also an id, of ", kQuantiles, " ranges");
  }
  return guess;
}

ColumnGuess GuessNumeric(const std::string& name, const ColumnProfile& profile, bool is_unique,
                         bool is_whole) {
  const bool is_name =
      profile.integers == profile.numbers && (profile.has_leading_zeros || NamesIds(name) ||
                                              profile.greatest >= std::pow(10, kMaxIntegerDigits));
  const uint64_t distinct = profile.distinct.count();
  if (is_name || distinct <= 2) {
    if (is_name && is_unique) return Skip("an id that differs in nearly every row");
    return Ids(profile, is_whole);
  }
  if (!profile.has_many_values && profile.numbers - MostFrequent(profile) < kMinOthers &&
      distinct * 2 < profile.numbers) {
    return Skip("nearly all numbers are the same");
  }
  return Numbers(profile);
}

}  // namespace

ColumnGuess GuessColumn(const std::string& name, const ColumnProfile& profile, bool is_whole) {
  if (profile.filled == 0) return Skip("no row has a value");
  if (profile.distinct.count() == 1 && profile.missing_cells() == 0) {
    return Skip("the same in all rows");
  }
  if (IsRowNumber(name, profile)) return Skip("row numbers");
  // Ids of a few of many rows can still repeat.
  const bool is_unique = IsUnique(profile) && (is_whole || !NamesIds(name));
  if (profile.is_numeric()) return GuessNumeric(name, profile, is_unique, is_whole);
  if (const auto separator = FindListSeparator(profile)) return Lists(profile, *separator);
  if (is_unique) return Skip("a text that differs in nearly every row");
  return Ids(profile, is_whole);
}

}  // namespace simurgh
