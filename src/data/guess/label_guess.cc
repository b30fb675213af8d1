#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "data/guess/column_guess.h"
#include "data/process/numbers.h"
#include "data/row_parser.h"

namespace simurgh {
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
