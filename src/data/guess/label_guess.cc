#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "base/text.h"
#include "data/guess/column_name.h"
#include "data/guess/data_sample.h"
#include "data/guess/row_groups.h"
#include "data/processing/numbers.h"

namespace simurgh {
namespace {

constexpr auto kYes =
    std::to_array<std::string_view>({"yes", "y", "true", "t", "clicked", "click", "positive",
                                     "like", "liked", "buy", "bought", "purchase", "purchased"});
constexpr auto kNo = std::to_array<std::string_view>({"no", "n", "false", "f", "negative", "none",
                                                      "dislike", "disliked", "noclick", "skip",
                                                      "skipped", "ignore", "ignored"});
// Beginnings of the opposite of a word.
constexpr auto kNegations =
    std::to_array<std::string_view>({"not", "non", "no", "un", "dis", "in"});

bool IsIn(const std::string& text, const auto& words) {
  return std::ranges::find(words, absl::AsciiStrToLower(text)) != words.end();
}

// Returns whether a text is another one with a beginning that makes it the opposite.
bool IsOppositeOf(const std::string& text, const std::string& other) {
  const std::string lower = absl::AsciiStrToLower(text);
  return std::ranges::any_of(kNegations, [&](std::string_view negation) {
    std::string_view rest = lower;
    if (!rest.starts_with(negation)) return false;
    rest.remove_prefix(negation.size());
    if (rest.starts_with(' ') || rest.starts_with('-') || rest.starts_with('_')) {
      rest.remove_prefix(1);
    }
    return rest == absl::AsciiStrToLower(other);
  });
}

// Returns whether all values are the numbers 0 or 1.
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

// Returns whether the values are at least `fewest` different numbers.
bool AreNumbers(const ColumnProfile& profile, uint64_t fewest = 3) {
  return profile.is_numeric() && profile.distinct.count() >= fewest;
}

bool IsLabel(const ColumnProfile& profile) { return IsBinary(profile) || AreNumbers(profile); }

// Returns whether the values look like ratings, such as 1 to 5, or 0.5, 1, 1.5 and so on up to 5.
bool AreRatings(const std::string& name, const ColumnProfile& profile) {
  constexpr size_t kMostValues = 21;
  constexpr double kLeast = -10;
  constexpr double kGreatest = 10;
  return HintOf(name) == NameHint::kNone && AreNumbers(profile) && !profile.has_many_values &&
         profile.values.size() <= kMostValues && profile.least >= kLeast && profile.least <= 1 &&
         profile.greatest <= kGreatest;
}

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

// Returns a text with a command for each of the columns.
std::string Choices(const DataSample& sample, const std::vector<size_t>& columns,
                    const LabelCommand& command) {
  if (columns.empty()) return "add a column of 0 and 1, or of numbers";
  constexpr size_t kShown = 20;
  std::string text = "choose the label, by one of";
  for (size_t i = 0; i < std::min(columns.size(), kShown); ++i) {
    absl::StrAppend(&text, "\n  ", command(sample.header[columns[i]]), "  # ",
                    ValuesOf(sample.columns[columns[i]]));
    // Such a column describes the user or item, not what happened between them.
    if (const auto owner = OwnerOf(sample, columns[i])) {
      absl::StrAppend(&text, "; one for each ", Quoted(sample.header[*owner]));
    }
  }
  if (columns.size() > kShown) absl::StrAppend(&text, "\n  ...");
  return text;
}

// Returns the columns that can be the label if an option names them: of two values or of ratings
// or, if there are none, of numbers that are no ids and no dates.
std::vector<size_t> UsableLabels(const DataSample& sample) {
  std::vector<size_t> likely;
  std::vector<size_t> numbers;
  std::set<std::string> names;
  for (size_t i = 0; i < sample.columns.size(); ++i) {
    const std::string& name = sample.header[i];
    const ColumnProfile& profile = sample.columns[i];
    if (!IsLabel(profile) || name.empty() || !names.insert(name).second) continue;
    const NameHint hint = HintOf(name);
    const bool are_ids = hint == NameHint::kSurelyIds || hint == NameHint::kIds;
    if (IsBinary(profile) || AreRatings(name, profile) || LabelNameOf(name) || NamesScore(name)) {
      likely.push_back(i);
    } else if (!are_ids && !profile.is_consecutive && !GuessDates(name, profile)) {
      numbers.push_back(i);
    }
  }
  return likely.empty() ? numbers : likely;
}

Status NoLabel(const DataSample& sample, size_t column, const LabelCommand& command) {
  return absl::InvalidArgumentError(absl::StrCat(
      "column ", Quoted(sample.header[column]), " has ", ValuesOf(sample.columns[column]),
      "; a label has two, such as 0 and 1, or yes and no, or at least three numbers. "
      "Convert it, or ",
      Choices(sample, UsableLabels(sample), command)));
}

// Returns whether a name and the values under it can be a label.
bool Fits(LabelName name, const ColumnProfile& profile) {
  constexpr uint64_t kClasses = 5;  // Fewer numbers can be classes.
  if (IsBinary(profile)) return true;
  if (name == LabelName::kRating) return AreNumbers(profile);
  return (name == LabelName::kLabel || name >= LabelName::kRate) && AreNumbers(profile, kClasses);
}

// Finds a label without the name of one: the only column that can be one, by its two values or by a
// name such as "score". If a gender or the like has two values, too, the label must be the first or
// last column. A property of the user or the like is no label, and the user chooses ratings.
StatusOr<size_t> FindByValues(const DataSample& sample, const LabelCommand& command) {
  constexpr size_t kMostChecked = 20;  // A check compares the column with all others.
  const std::vector<size_t> usable = UsableLabels(sample);
  std::vector<size_t> likely;
  for (const size_t i : usable) {
    const bool can_be = IsBinary(sample.columns[i]) ||
                        AreRatings(sample.header[i], sample.columns[i]) ||
                        NamesScore(sample.header[i]);
    if (!can_be || NamesProperty(sample.header[i])) continue;
    if (usable.size() > kMostChecked || !OwnerOf(sample, i)) likely.push_back(i);
  }
  const bool has_binary =
      std::ranges::any_of(usable, [&](size_t i) { return IsBinary(sample.columns[i]); });
  if (likely.size() == 1) {
    const size_t i = likely[0];
    const bool is_at_end = i == 0 || i + 1 == sample.columns.size();
    if (IsBinary(sample.columns[i]) && (usable.size() == 1 || is_at_end)) return i;
    if (NamesScore(sample.header[i])) return i;
  }
  const std::string_view problem = has_binary ? "no column has the name of a label, such as click: "
                                              : "no label found, and no column has two values: ";
  return absl::InvalidArgumentError(absl::StrCat(absl::string_view(problem.data(), problem.size()),
                                                 Choices(sample, usable, command)));
}

}  // namespace

std::vector<std::string> NamesIn(const std::string& text, const std::vector<std::string>& header) {
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  std::vector<std::string> names;
  for (size_t begin = 0; begin < parts.size();) {
    size_t end = parts.size();
    const auto name = [&] {
      return absl::StrJoin(parts.begin() + static_cast<ptrdiff_t>(begin),
                           parts.begin() + static_cast<ptrdiff_t>(end), ",");
    };
    while (end > begin + 1 && std::ranges::find(header, name()) == header.end()) --end;
    names.push_back(name());
    begin = end;
  }
  return names;
}

StatusOr<size_t> FindColumn(const std::vector<std::string>& header, std::string_view option,
                            const std::string& name) {
  auto found = std::ranges::find(header, name);
  if (found == header.end()) found = std::ranges::find(header, name, WithoutType);
  const auto is_similar = [&](const std::string& other) {
    return absl::EqualsIgnoreCase(other, name);
  };
  if (found == header.end() && std::ranges::count_if(header, is_similar) == 1) {
    found = std::ranges::find_if(header, is_similar);
  }
  if (found != header.end()) return static_cast<size_t>(found - header.begin());
  return absl::InvalidArgumentError(
      absl::StrCat(absl::string_view(option.data(), option.size()), " ", name,
                   ": the header has no such column; use one of ", absl::StrJoin(header, ", ")));
}

StatusOr<size_t> FindLabel(const DataSample& sample, const std::string& name,
                           const LabelCommand& command) {
  const auto& header = sample.header;
  if (!name.empty()) {
    if (NamesIn(name, header).size() > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("--label ", name,
                       ": init writes a configuration for one label; name one, "
                       "and see 'Several labels' in config/README.md for the others"));
    }
    SIMURGH_ASSIGN_OR_RETURN(const size_t column, FindColumn(header, "--label", name));
    if (!IsLabel(sample.columns[column])) return NoLabel(sample, column, command);
    return column;
  }
  std::vector<size_t> all;
  std::vector<size_t> best;
  LabelName least = LabelName::kLaterRate;
  std::optional<size_t> unfit;
  for (size_t column = 0; column < header.size(); ++column) {
    const std::optional<LabelName> fits = LabelNameOf(header[column]);
    if (!fits) continue;
    if (!Fits(*fits, sample.columns[column])) {
      if (*fits <= LabelName::kClick && !unfit) unfit = column;
      continue;
    }
    all.push_back(column);
    if (*fits > least) continue;
    if (*fits < least) best.clear();
    least = *fits;
    best.push_back(column);
  }
  if (best.empty() && unfit) return NoLabel(sample, *unfit, command);
  if (best.empty()) return FindByValues(sample, command);
  if (best.size() == 1) return best[0];
  for (size_t i = 1; i < best.size(); ++i) {
    if (header[best[i]] != header[best[i - 1]]) continue;
    return absl::InvalidArgumentError(absl::StrCat("the header has the label ",
                                                   Quoted(header[best[i]]),
                                                   " twice; rename or remove one of them"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("several columns have the name of a label: ", Choices(sample, all, command)));
}

bool IsFurtherLabel(const std::string& name, const ColumnProfile& profile) {
  const std::optional<LabelName> fits = LabelNameOf(name);
  if (!fits) return false;
  if (*fits == LabelName::kRating) return profile.is_numeric();
  return (*fits <= LabelName::kAction || *fits >= LabelName::kRate) && IsBinary(profile);
}

std::optional<bool> MeaningOf(const std::string& text) {
  if (IsIn(text, kYes)) return true;
  return IsIn(text, kNo) ? std::optional(false) : std::nullopt;
}

std::optional<Yes> YesOf(const std::string& a, const std::string& b) {
  const bool a_is_no = IsIn(a, kNo) || IsOppositeOf(a, b);
  const bool b_is_no = IsIn(b, kNo) || IsOppositeOf(b, a);
  if (a_is_no != b_is_no) return Yes{a_is_no ? b : a, "the other one means no"};
  const bool a_is_yes = IsIn(a, kYes);
  if (a_is_yes == IsIn(b, kYes)) return std::nullopt;
  return Yes{a_is_yes ? a : b, "it means yes"};
}

StatusOr<ColumnGuess> GuessLabel(const ColumnProfile& profile, const std::string& positive) {
  ColumnGuess guess{.config = {.name = {}, .kind = ColumnConfig::Kind::kLabel}, .reason = {}};
  if (!positive.empty()) {
    std::vector<std::string> others;
    for (const auto& [text, count] : profile.values) {
      if (text != positive) others.push_back(text);
    }
    if (profile.values.size() != 2 || others.size() != 1) {
      return absl::InvalidArgumentError(absl::StrCat("--positive ", positive, ": the label has ",
                                                     ValuesOf(profile),
                                                     "; name one of two values"));
    }
    guess.config.positive = {positive};
    guess.config.negative = others;
    guess.reason =
        absl::StrCat(Quoted(positive), " is 1, as --positive; ", Quoted(others[0]), " is 0");
    return guess;
  }
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
  } else if (const std::optional<Yes> known = YesOf(no.first, yes.first)) {
    if (known->text != yes.first) std::swap(yes, no);
    why = known->why;
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
