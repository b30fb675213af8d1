#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "data/guess/csv_sample.h"
#include "data/process/numbers.h"
#include "data/row_parser.h"

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

namespace {

constexpr std::array<std::string_view, 16> kLabels = {
    "label",    "click",     "clicked", "is_click",   "is_clicked", "target",
    "y",        "converted", "convert", "conversion", "purchased",  "outcome",
    "response", "survived",  "churn",   "class"};
constexpr std::array<std::string_view, 7> kYes = {"yes",     "y",     "true",    "t",
                                                  "clicked", "click", "positive"};
constexpr std::array<std::string_view, 6> kNo = {"no", "n", "false", "f", "negative", "none"};

bool IsIn(const std::string& text, const auto& words) {
  return std::ranges::find(words, absl::AsciiStrToLower(text)) != words.end();
}

// Whether all values are the numbers 0 or 1.
bool IsZeroOrOne(const ColumnProfile& profile) {
  return std::ranges::all_of(profile.values, [](const auto& entry) {
    const auto number = ParseNumberCell(entry.first);
    return number && (*number == 0 || *number == 1);
  });
}

bool IsBinary(const ColumnProfile& profile) {
  if (profile.has_many_values || profile.values.size() < 2) return false;
  if (profile.values.size() == 2) return true;
  return IsZeroOrOne(profile) && profile.least != profile.greatest;
}

// Whether the values are numbers of which there are too many for classes.
bool IsNumber(const ColumnProfile& profile) {
  constexpr uint64_t kClasses = 5;
  return profile.is_numeric() && profile.distinct.count() >= kClasses;
}

bool IsLabel(const ColumnProfile& profile) { return IsBinary(profile) || IsNumber(profile); }

std::string ValuesOf(const ColumnProfile& profile) {
  if (profile.has_many_values) {
    return absl::StrCat(profile.distinct.count(), " different values");
  }
  if (profile.values.empty()) return "no value";
  if (profile.values.size() == 1) {
    return absl::StrCat("one value, ", Quoted(profile.values.begin()->first));
  }
  constexpr size_t kShown = 5;
  std::vector<std::string> texts;
  for (const auto& [text, count] : profile.values) {
    texts.push_back(texts.size() < kShown ? Quoted(text) : "...");
    if (texts.size() > kShown) break;
  }
  return absl::StrCat(profile.values.size(), " values, ", absl::StrJoin(texts, ", "));
}

// "columns with two values: a, b", or that there are none.
std::string Candidates(const CsvSample& sample) {
  std::vector<std::string> names;
  for (size_t i = 0; i < sample.columns.size(); ++i) {
    if (IsBinary(sample.columns[i])) names.push_back(Quoted(sample.header[i]));
  }
  return names.empty() ? "no column has two values"
                       : absl::StrCat("columns with two values: ", absl::StrJoin(names, ", "));
}

Status NoLabel(const CsvSample& sample, size_t column) {
  return absl::InvalidArgumentError(absl::StrCat(
      "column ", Quoted(sample.header[column]), " has ", ValuesOf(sample.columns[column]),
      "; a label has two, such as 0 and 1, or yes and no, or at least five numbers. Choose another "
      "column with --label, or convert it; ",
      Candidates(sample)));
}

}  // namespace

StatusOr<size_t> FindLabel(const CsvSample& sample, const std::string& name) {
  const auto& header = sample.header;
  if (!name.empty()) {
    const auto found = std::ranges::find(header, name);
    if (found == header.end()) {
      return absl::InvalidArgumentError(absl::StrCat("--label ", name,
                                                     ": the header has no such column; use one of ",
                                                     absl::StrJoin(header, ", ")));
    }
    const auto column = static_cast<size_t>(found - header.begin());
    if (!IsLabel(sample.columns[column])) return NoLabel(sample, column);
    return column;
  }
  for (const std::string_view word : kLabels) {
    for (size_t column = 0; column < header.size(); ++column) {
      if (absl::AsciiStrToLower(header[column]) != word) continue;
      if (!IsLabel(sample.columns[column])) return NoLabel(sample, column);
      return column;
    }
  }
  for (size_t column = header.size(); column-- > 0;) {
    if (IsBinary(sample.columns[column])) return column;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no label found: ", Candidates(sample),
                   "; add a column of 0 and 1, or name the label column with --label, one of ",
                   absl::StrJoin(header, ", ")));
}

ColumnGuess GuessLabel(const ColumnProfile& profile) {
  ColumnGuess guess{.config = {.name = {}, .kind = ColumnConfig::Kind::kLabel}, .reason = {}};
  if (!IsBinary(profile)) {
    guess.config.label_values = ColumnConfig::LabelValues::kNumbers;
    guess.reason = absl::StrCat("a number of ", ValuesOf(profile), ": a regression");
    return guess;
  }
  if (IsZeroOrOne(profile)) {
    guess.reason = "0 and 1";
    return guess;
  }
  std::pair<std::string, uint64_t> no = *profile.values.begin();
  std::pair<std::string, uint64_t> yes = *std::next(profile.values.begin());
  std::string why = "the rarer one";
  if (profile.is_numeric()) {
    if (ParseNumberCell(no.first) > ParseNumberCell(yes.first)) std::swap(yes, no);
    why = "the greater one";
  } else if (IsIn(yes.first, kNo) != IsIn(no.first, kNo)) {
    if (IsIn(yes.first, kNo)) std::swap(yes, no);
    why = "the other one means no";
  } else if (IsIn(yes.first, kYes) != IsIn(no.first, kYes)) {
    if (IsIn(no.first, kYes)) std::swap(yes, no);
    why = "it means yes";
  } else if (yes.second > no.second) {
    std::swap(yes, no);
  }
  guess.config.positive = {yes.first};
  guess.config.negative = {no.first};
  guess.reason =
      absl::StrCat(Quoted(yes.first), " is 1, as ", why, "; ", Quoted(no.first), " is 0");
  return guess;
}

}  // namespace simurgh
