#include "data/guess/retrieval_label.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "base/text.h"
#include "data/guess/column_name.h"
#include "data/guess/data_sample.h"
#include "data/guess/row_groups.h"
#include "data/processing/numbers.h"

namespace simurgh {
namespace {

Status NoPositive(const std::string& name, std::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("column ", Quoted(name), ": no row has a positive label, as ",
                   absl::string_view(why.data(), why.size()),
                   "; name another column by --label, or the value of positives by --positive"));
}

Status Unclear(const std::string& name, const ColumnProfile& profile) {
  std::vector<std::string> texts;
  for (const auto& [text, count] : profile.values) texts.push_back(Quoted(text));
  return absl::InvalidArgumentError(absl::StrCat(
      "column ", Quoted(name), " has ",
      profile.has_many_values ? "many texts" : absl::StrJoin(texts, ", "),
      ", and it is unclear which one is the positive; name it by --positive, or another column by "
      "--label"));
}

// Returns the least number of positives. Requires three values or more, some of them above 0.
double LeastOf(const std::string& name, const ColumnProfile& profile) {
  constexpr double kMostStars = 5;
  constexpr double kLiked = 4;
  const bool is_rating = LabelNameOf(name) == LabelName::kRating || NamesScore(name);
  const bool are_stars = !profile.has_many_values && profile.least >= 0 &&
                         profile.greatest > kLiked && profile.greatest <= kMostStars;
  if (is_rating && are_stars) return kLiked;
  const double mean = profile.moments.mean();
  return mean > 0 ? mean : std::numeric_limits<double>::min();
}

}  // namespace

StatusOr<PositiveRule> PositiveRule::Find(const std::string& name, const ColumnProfile& profile,
                                          const std::string& wanted) {
  PositiveRule rule;
  rule.numbers_ = profile.format;
  if (profile.filled == 0) return NoPositive(name, "all are empty");
  if (!profile.is_numeric()) {
    if (!wanted.empty()) {
      if (!profile.has_many_values && !profile.values.contains(wanted)) {
        return NoPositive(name, absl::StrCat("none is ", Quoted(wanted)));
      }
      rule.text_ = wanted;
    } else if (!profile.has_many_values && profile.values.size() == 1) {
      const std::string& only = profile.values.begin()->first;
      const auto meaning = MeaningOf(only);
      if (!meaning) return Unclear(name, profile);
      if (!*meaning) return NoPositive(name, absl::StrCat("all are ", Quoted(only)));
      rule.text_ = only;
    } else {
      if (profile.has_many_values || profile.values.size() != 2) return Unclear(name, profile);
      const auto yes =
          YesOf(profile.values.begin()->first, std::next(profile.values.begin())->first);
      if (!yes) return Unclear(name, profile);
      rule.text_ = yes->text;
    }
    rule.reason_ = absl::StrCat(Quoted(rule.text_), " is the positive");
    return rule;
  }
  const uint64_t distinct = profile.distinct.count();
  if (!wanted.empty()) {
    const std::optional<double> least = ParseNumberCell(wanted, profile.format);
    if (!least) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--positive ", wanted, ": the label ", Quoted(name), " has numbers from ", profile.least,
          " to ", profile.greatest, "; give the least number of positives"));
    }
    if (*least > profile.greatest) {
      return NoPositive(name, absl::StrCat("all are below ", *least));
    }
    if (*least <= profile.least && distinct > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("--positive ", wanted, ": each row would be a positive, as the least of ",
                       Quoted(name), " is ", profile.least, "; give a greater number"));
    }
    rule.least_ = *least;
  } else if (profile.greatest <= 0) {
    return NoPositive(name, distinct == 1 ? absl::StrCat("all are ", profile.greatest)
                                          : absl::StrCat("none is above ", profile.greatest));
  } else {
    rule.least_ = distinct <= 2 ? profile.greatest : LeastOf(name, profile);
  }
  if (distinct == 1) {
    rule.reason_ = absl::StrFormat("all rows have %g, so each is a positive", profile.greatest);
  } else if (rule.least_ == std::numeric_limits<double>::min()) {
    rule.reason_ = "numbers above 0 are positives; --positive sets another least one";
  } else if (distinct == 2) {
    rule.reason_ = absl::StrFormat("%g is the positive", profile.greatest);
  } else {
    rule.reason_ = absl::StrFormat("%g and more are positives%s", rule.least_,
                                   wanted.empty() ? "; --positive sets another number" : "");
  }
  return rule;
}

std::optional<bool> PositiveRule::IsPositive(std::string_view cell) const {
  if (MeansMissing(cell)) return std::nullopt;
  if (!text_.empty()) return cell == text_;
  const std::optional<double> number = ParseNumberCell(cell, numbers_);
  return number ? std::optional(*number >= least_) : std::nullopt;
}

bool CanBeLabel(const ColumnProfile& profile) {
  return profile.filled > 0 &&
         (profile.is_numeric() || (!profile.has_many_values && profile.values.size() <= 2));
}

StatusOr<std::optional<size_t>> FindRetrievalLabel(const DataSample& sample,
                                                   const std::vector<size_t>& columns,
                                                   bool has_positive) {
  constexpr int kScore = static_cast<int>(LabelName::kRating) + 1;
  int least = kScore;
  std::vector<size_t> best;
  std::optional<size_t> unfit;
  for (const size_t c : columns) {
    const std::string& name = sample.header[c];
    const ColumnProfile& profile = sample.columns[c];
    const std::optional<LabelName> kind = LabelNameOf(name);
    if (kind ? *kind > LabelName::kRating : !NamesScore(name)) continue;
    const int rank = kind ? static_cast<int>(*kind) : kScore;
    const bool has_texts = has_positive && !profile.has_many_values;
    if (!CanBeLabel(profile) && !has_texts) {
      if (kind && *kind <= LabelName::kAction && !unfit) unfit = c;
      continue;
    }
    // Such a column describes the user or item, such as the mean rating of a movie.
    const bool may_describe = rank >= static_cast<int>(LabelName::kResult);
    if (may_describe && profile.distinct.count() > 1 && OwnerOf(sample, c)) continue;
    if (rank > least) continue;
    if (rank < least) best.clear();
    least = rank;
    best.push_back(c);
  }
  if (best.empty() && unfit) return Unclear(sample.header[*unfit], sample.columns[*unfit]);
  if (best.empty()) return std::nullopt;
  if (best.size() == 1) return best[0];
  std::vector<std::string> names;
  for (const size_t c : best) names.push_back(ShellWord(sample.header[c]));
  return absl::InvalidArgumentError(
      absl::StrCat("several columns have the name of a label; choose one by --label: ",
                   absl::StrJoin(names, ", ")));
}

}  // namespace simurgh
