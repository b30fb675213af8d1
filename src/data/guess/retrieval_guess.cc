#include "data/guess/retrieval_guess.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "base/hash.h"
#include "base/text.h"
#include "data/guess/column_name.h"
#include "data/guess/data_sample.h"
#include "data/guess/table_rows.h"
#include "data/guess/user_histories.h"
#include "data/reading/row_text.h"

namespace simurgh {
namespace {

using Words = std::vector<std::string_view>;

const Words kUserWords = {"user",  "customer", "visitor",  "member",  "client", "account",
                          "buyer", "reader",   "listener", "session", "person", "uid"};
const Words kItemWords = {"item",   "product", "movie", "article", "song",  "track",
                          "artist", "book",    "sku",   "asin",    "video", "news",
                          "game",   "listing", "iid",   "content"};
const Words kTimeWords = {"time", "timestamp", "date", "datetime", "ts", "day", "created"};
const Words kWeightWords = {"weight"};
const Words kEventWords = {"event",     "action",      "behavior", "behaviour",
                           "behaviors", "interaction", "activity"};

bool HasWord(const std::string& name, const Words& words) {
  return std::ranges::any_of(WordsOf(name), [&](const std::string& word) {
    return std::ranges::find(words, word) != words.end();
  });
}

// Returns how well a name fits the ids that `words` name; the least number is best. Nothing: it
// names something else, such as "user_age".
std::optional<size_t> RankOf(const std::string& name, const Words& words) {
  constexpr size_t kPerWord = 100;
  constexpr size_t kNoId = 10'000;
  static const Words kEnds = {"name", "number", "no", "nr"};
  const std::vector<std::string> own = WordsOf(WithoutType(name));
  const NameHint hint = HintOf(name);
  if (NamesHistory(name) || NamesProperty(name) || LabelNameOf(name)) return std::nullopt;
  if (hint == NameHint::kNumber || hint == NameHint::kSurelyNumber) return std::nullopt;
  for (const std::string& word : own) {
    // A name can be "userid".
    const auto place = std::ranges::find_if(words, [&](std::string_view one) {
      return word == one || (word.starts_with(one) && word.substr(one.size()) == "id");
    });
    if (place == words.end()) continue;
    const bool is_id = hint == NameHint::kSurelyIds;
    const bool is_last = word == own.back() || std::ranges::find(kEnds, own.back()) != kEnds.end();
    if (!is_id && !is_last) return std::nullopt;
    return (is_id ? 0 : kNoId) + own.size() * kPerWord + static_cast<size_t>(place - words.begin());
  }
  return std::nullopt;
}

// Gives columns names that configurations accept, each once.
class Names {
 public:
  std::string Of(std::string_view header) {
    constexpr size_t kMost = 50;
    std::string name;
    for (const char c : WithoutType(header).substr(0, kMost)) {
      name.push_back(absl::ascii_isalnum(static_cast<unsigned char>(c)) ? c : '_');
    }
    if (name.empty()) name = "column";
    std::string unique = name;
    for (int number = 2; !used_.insert(unique).second; ++number) {
      unique = absl::StrCat(name, "_", number);
    }
    return unique;
  }

 private:
  std::set<std::string> used_ = {"dense", "embeddings"};
};

bool NamesIds(const std::string& name) {
  const NameHint hint = HintOf(name);
  return hint == NameHint::kSurelyIds || hint == NameHint::kIds;
}

// Returns the separator of lists whose values are items; 0: the cells are no such lists.
char HistorySeparator(const ColumnProfile& profile, const DistinctCounter& items) {
  constexpr double kLeast = 0.5;
  size_t best = 0;
  double share = 0;
  for (size_t i = 0; i < profile.lists.size(); ++i) {
    if (profile.lists[i].lists == 0) continue;
    const double own = profile.lists[i].distinct.ShareIn(items);
    if (own > share) best = i;
    share = std::max(share, own);
  }
  return share >= kLeast ? ColumnProfile::kListSeparators[best] : '\0';
}

// What an option makes of a column.
enum class Wish { kGuess, kId, kDense, kSkip };

// A column that describes users or items, or why it does not.
struct Property {
  std::optional<RetrievalColumn> column;
  std::string why;
};

// Returns a column that describes users or items. Hardly any of them share a value of a title, so
// it is none. count: number of users or items. Errors: INVALID_ARGUMENT for texts as numbers.
StatusOr<Property> PropertyOf(const DataSample& sample, size_t column, Wish wish, uint64_t count,
                              const std::string& whose, Names& names) {
  constexpr uint64_t kMaxCategories = 200;
  constexpr uint32_t kRanges = 16;
  const ColumnProfile& profile = sample.columns[column];
  const std::string& header = sample.header[column];
  if (wish == Wish::kSkip) return Property{{}, "left out: --skip"};
  if (profile.filled == 0) return Property{{}, "left out: no row has a value"};
  const std::optional<size_t> lists =
      profile.is_numeric() ? std::nullopt : FindListSeparator(profile);
  const uint64_t distinct =
      lists ? profile.lists[*lists].distinct.count() : profile.distinct.count();
  if (distinct < 2) return Property{{}, "left out: the same in all rows"};
  const bool are_numbers = profile.is_numeric() && profile.format == NumberFormat();
  if (wish == Wish::kDense && !are_numbers) {
    return absl::InvalidArgumentError(
        absl::StrCat("--dense ", header, ": some cells are no numbers; name a column of numbers"));
  }
  const bool is_guess = wish == Wish::kGuess;
  const bool has_ranges =
      wish == Wish::kDense ||
      (is_guess && are_numbers && distinct > kMaxCategories && !profile.has_leading_zeros &&
       !profile.is_consecutive && !NamesIds(header));
  if (is_guess && !has_ranges && 2 * distinct > count) {
    return Property{{},
                    absl::StrCat("left out: few ", whose, " share a value; as a feature: ", "--id ",
                                 ShellWord(header))};
  }
  RetrievalColumn property{.source = column, .name = names.Of(header)};
  if (lists) property.separator = ColumnProfile::kListSeparators[*lists];
  if (has_ranges) property.quantiles = kRanges;
  property.reason = has_ranges
                        ? absl::StrFormat("feature of %s, %d ranges of numbers", whose, kRanges)
                        : absl::StrFormat("feature of %s, %d values", whose, distinct);
  return Property{property, property.reason};
}

// Returns whether rows with the same cell of `key` have the same cell of `column`.
bool IsPropertyOf(const KeptRows& rows, size_t key, size_t column) {
  constexpr uint64_t kLeast = 10;
  constexpr double kShare = 0.95;
  std::unordered_map<uint64_t, uint64_t> counts;
  for (size_t row = 0; row < rows.size(); ++row) ++counts[HashBytes(rows.Cell(row, column))];
  const auto count_of = [](const auto& entry) { return entry.second; };
  const auto most = std::ranges::max_element(counts, {}, count_of);
  std::unordered_map<uint64_t, uint64_t> first;  // Hash of the key -> hash of its first cell.
  uint64_t pairs = 0;
  uint64_t equal = 0;
  for (size_t row = 0; row < rows.size(); ++row) {
    const uint64_t cell = HashBytes(rows.Cell(row, column));
    const auto [known, is_new] = first.emplace(HashBytes(rows.Cell(row, key)), cell);
    // Two cells of the most common text can be equal by chance.
    if (is_new || (cell == most->first && known->second == cell)) continue;
    ++pairs;
    if (known->second == cell) ++equal;
  }
  return pairs >= kLeast && static_cast<double>(equal) >= kShare * static_cast<double>(pairs);
}

Status NotFound(const std::string& what, const std::string& option,
                const std::vector<std::string>& header) {
  return absl::InvalidArgumentError(absl::StrCat("no column looks like the ", what, "; name it by ",
                                                 option, "; the columns are ",
                                                 absl::StrJoin(header, ", ")));
}

// The roles of the columns of interactions that have one.
class Roles {
 public:
  explicit Roles(const DataSample& sample)
      : sample_(sample), wishes_(sample.header.size()), options_(sample.header.size()) {}

  // Keeps a column for what an option names. Nothing: the name is empty.
  // Errors: INVALID_ARGUMENT if there is no such column, or another option names it, too.
  StatusOr<std::optional<size_t>> TakeNamed(const std::string& option, const std::string& name) {
    if (name.empty()) return std::nullopt;
    SIMURGH_ASSIGN_OR_RETURN(const size_t column, FindColumn(sample_.header, option, name));
    if (!options_[column].empty()) {
      return absl::InvalidArgumentError(absl::StrCat(option, " ", name, ": ", options_[column],
                                                     " names the same column; name another"));
    }
    options_[column] = option;
    return column;
  }

  void Take(size_t column) { options_[column] = "another role"; }
  bool IsTaken(size_t column) const { return !options_[column].empty(); }

  void SetWish(size_t column, Wish wish) { wishes_[column] = wish; }
  Wish WishOf(size_t column) const { return wishes_[column]; }

  // Returns the columns without a role that are not to be left out.
  std::vector<size_t> Free() const {
    std::vector<size_t> columns;
    for (size_t c = 0; c < options_.size(); ++c) {
      if (!IsTaken(c) && wishes_[c] == Wish::kGuess) columns.push_back(c);
    }
    return columns;
  }

  // Returns the free column whose name fits best, if one does.
  std::optional<size_t> BestNamed(const Words& words) const {
    std::optional<size_t> best;
    size_t least = 0;
    for (const size_t c : Free()) {
      const std::optional<size_t> rank = RankOf(sample_.header[c], words);
      if (!rank || (best && *rank >= least)) continue;
      best = c;
      least = *rank;
    }
    return best;
  }

 private:
  const DataSample& sample_;
  std::vector<Wish> wishes_;
  std::vector<std::string> options_;  // Option that names each column; empty: the column is free.
};

// Finds the column of ids in the items, and that of the interactions with the same values.
struct Overlap {
  size_t of_items = 0;
  size_t of_interactions = 0;
  double share = 0;  // Share of the interactions' values that the items have.
};

// Compares columns of interactions with columns of items whose values differ.
std::vector<Overlap> Overlaps(const std::vector<size_t>& columns, const DataSample& interactions,
                              const DataSample& items, const std::vector<Wish>& wishes) {
  constexpr double kDistinct = 0.95;  // Counts of many values are about 2 % off.
  std::vector<Overlap> overlaps;
  for (size_t i = 0; i < items.columns.size(); ++i) {
    const auto distinct = static_cast<double>(items.columns[i].distinct.count());
    if (wishes[i] == Wish::kSkip || distinct < kDistinct * static_cast<double>(items.rows)) {
      continue;
    }
    for (const size_t c : columns) {
      const double share = interactions.columns[c].distinct.ShareIn(items.columns[i].distinct);
      overlaps.push_back({i, c, share});
    }
  }
  return overlaps;
}

std::string ExampleOf(const DataSample& sample, size_t column) {
  return sample.kept.size() == 0 ? "" : Quoted(sample.kept.Cell(0, column));
}

// Returns a value of the interactions and one of the items, if possible of an equal number.
std::pair<std::string, std::string> ExamplesOf(const DataSample& sample, const DataSample& items,
                                               const Overlap& columns) {
  std::unordered_map<std::string_view, size_t> rows;  // Number of an item -> its row.
  for (size_t row = 0; row < items.kept.size(); ++row) {
    rows.emplace(NumberOf(items.kept.Cell(row, columns.of_items)), row);
  }
  for (size_t row = 0; row < sample.kept.size(); ++row) {
    const std::string_view own = sample.kept.Cell(row, columns.of_interactions);
    const auto equal = rows.find(NumberOf(own));
    if (equal == rows.end()) continue;
    const std::string_view other = items.kept.Cell(equal->second, columns.of_items);
    if (other != own) return {Quoted(own), Quoted(other)};
  }
  return {ExampleOf(sample, columns.of_interactions), ExampleOf(items, columns.of_items)};
}

// Finds the items' ids. A column with their name, or with that of an item, is no other's ids.
// wanted: column that --item names.
StatusOr<Overlap> FindItem(const RetrievalOptions& options, const DataSample& sample,
                           const DataSample& items, const std::vector<Wish>& wishes,
                           std::optional<size_t> wanted, const Roles& roles) {
  constexpr double kLeast = 0.5;
  std::vector<size_t> columns;
  if (wanted) {
    columns = {*wanted};
  } else {
    columns = roles.Free();
    std::erase_if(columns, [&](size_t c) { return RankOf(sample.header[c], kUserWords); });
  }
  std::vector<Overlap> all = Overlaps(columns, sample, items, wishes);
  const auto has_equal_name = [&](const Overlap& one) {
    return absl::EqualsIgnoreCase(sample.header[one.of_interactions], items.header[one.of_items]);
  };
  const auto names_item = [&](const Overlap& one) {
    return RankOf(sample.header[one.of_interactions], kItemWords).has_value();
  };
  const auto is_named = [&](const Overlap& one) { return has_equal_name(one) || names_item(one); };
  std::vector<Overlap> named;
  std::ranges::copy_if(all, std::back_inserter(named), is_named);
  const std::vector<Overlap>& likely = named.empty() ? all : named;
  Overlap best;
  Overlap example;  // What to show if no column fits.
  double most = 0;
  double closest = -1;
  for (const Overlap& one : likely) {
    // Names decide between numbers that both count from 1.
    const double value = one.share + (has_equal_name(one) ? 1 : 0) + (names_item(one) ? 1 : 0);
    if (one.share >= kLeast && value > most) best = one;
    if (one.share >= kLeast) most = std::max(most, value);
    if (value > closest) example = one;
    closest = std::max(closest, value);
  }
  if (best.share >= kLeast) return best;
  if (likely.empty() || (named.empty() && !wanted)) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.items, ": no column has distinct values that a column of ", options.interactions,
        " has, too; give both files the same ids, one row an item, or name the column by --item"));
  }
  const auto [own, other] = ExamplesOf(sample, items, example);
  return absl::InvalidArgumentError(absl::StrCat(
      options.interactions, ": column ", Quoted(sample.header[example.of_interactions]), " has ",
      own, ", ", options.items, " has ", other, " in column ",
      Quoted(items.header[example.of_items]),
      ", and few values of the rows are items. Write the "
      "ids of both files alike, add the missing items, or name another column by --item"));
}

// Returns the items that were looked at.
StatusOr<DataSample> GuessItems(const RetrievalOptions& options, const DataSample& sample,
                                DataSample items, const std::vector<Wish>& wishes,
                                std::optional<size_t> wanted, Roles& roles, Names& names,
                                RetrievalGuess& guess) {
  guess.has_items = true;
  guess.items = items.table;
  SIMURGH_ASSIGN_OR_RETURN(const Overlap overlap,
                           FindItem(options, sample, items, wishes, wanted, roles));
  roles.Take(overlap.of_interactions);
  guess.item = {.source = overlap.of_interactions,
                .name = names.Of(sample.header[overlap.of_interactions]),
                .reason = absl::StrFormat("item: its values are those of '%s' of the items",
                                          items.header[overlap.of_items])};
  guess.item_id = overlap.of_items;
  for (size_t c = 0; c < items.columns.size(); ++c) {
    ColumnNote note{.name = items.header[c], .reason = "id of the item"};
    if (c != overlap.of_items) {
      SIMURGH_ASSIGN_OR_RETURN(Property property,
                               PropertyOf(items, c, wishes[c], items.rows, "items", names));
      note.reason = property.why;
      if (property.column) {
        note.written = property.column->name;
        guess.features.push_back(*std::move(property.column));
      }
    }
    guess.item_notes.push_back(std::move(note));
  }
  return items;
}

// Returns the only column that looks like ids and is no property of the items, if there is one.
std::optional<size_t> OnlyIds(const DataSample& sample, const std::vector<size_t>& columns,
                              size_t item) {
  const auto is_id = [&](size_t c) {
    const std::string& name = sample.header[c];
    const ColumnProfile& profile = sample.columns[c];
    const bool has_role = LabelNameOf(name) || NamesScore(name) || NamesHistory(name) ||
                          NamesProperty(name) || HasWord(name, kTimeWords) ||
                          HasWord(name, kWeightWords);
    const uint64_t distinct = profile.distinct.count();
    if (has_role || distinct < 2 || distinct >= profile.filled) return false;
    if (IsPropertyOf(sample.kept, item, c)) return false;
    const NameHint hint = HintOf(name);
    if (hint == NameHint::kNumber || hint == NameHint::kSurelyNumber) return false;
    if (profile.is_numeric()) return profile.integers == profile.numbers;
    return !profile.are_dates() && !FindListSeparator(profile);
  };
  const auto first = std::ranges::find_if(columns, is_id);
  if (first == columns.end() || std::ranges::count_if(columns, is_id) > 1) return std::nullopt;
  return *first;
}

// Sets the label, and which of its values are positives. label: column that --label names.
Status GuessPositives(const RetrievalOptions& options, const DataSample& sample,
                      std::optional<size_t> label, Roles& roles, Names& names,
                      RetrievalGuess& guess) {
  if (!label) {
    SIMURGH_ASSIGN_OR_RETURN(label,
                             FindRetrievalLabel(sample, roles.Free(), !options.positive.empty()));
    if (!label && !options.positive.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--positive ", options.positive,
                       ": no column looks like the label; name it by --label; the columns are ",
                       absl::StrJoin(sample.header, ", ")));
    }
    if (!label) return absl::OkStatus();
    roles.Take(*label);
  }
  const std::string& name = sample.header[*label];
  auto rule = PositiveRule::Find(name, sample.columns[*label], options.positive);
  if (!rule.ok() && !sample.is_whole) {
    return Annotate(rule.status(), absl::StrCat(options.interactions, ": in its first ",
                                                sample.rows, " rows (--sample reads more)"));
  }
  SIMURGH_ASSIGN_OR_RETURN(guess.positives, std::move(rule));
  guess.label = {.source = *label,
                 .name = names.Of(name),
                 .reason = absl::StrCat("label: ", guess.positives.reason())};
  return absl::OkStatus();
}

// Returns an error that names the first row of interactions whose time cannot be read.
Status UnreadTime(const RetrievalOptions& options, const DataSample& sample, size_t column) {
  const std::string name = sample.header[column];
  const std::string remedy =
      absl::StrCat("; times are ", TimeRule::kForms, "; convert them, or leave --time out");
  uint64_t row = 0;
  const auto check = [&](const std::vector<std::string_view>& cells) -> Status {
    ++row;
    if (MeansMissing(cells[column]) || TimeRule().TimeOf(cells[column])) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(options.interactions, ": row ", row, ": column ",
                                                   Quoted(name), " has ", Quoted(cells[column]),
                                                   ", which is no time", remedy));
  };
  SIMURGH_RETURN_IF_ERROR(ForEachRow(sample.table, options.interactions, check).status());
  return absl::InvalidArgumentError(absl::StrCat("--time ", name, ": no row has a time", remedy));
}

// Sets the time. time: column that --time names.
Status GuessTime(const RetrievalOptions& options, const DataSample& sample,
                 std::optional<size_t> time, Roles& roles, RetrievalGuess& guess) {
  if (time) {
    const std::optional<TimeRule> rule = TimeRule::Find(sample, *time);
    if (!rule) return UnreadTime(options, sample, *time);
    guess.times = *rule;
  }
  for (const size_t c : roles.Free()) {
    if (time) break;
    const std::string& name = sample.header[c];
    // A date of birth or of release says nothing of the row.
    if (!HasWord(name, kTimeWords) || NamesHistory(name) ||
        IsPropertyOf(sample.kept, guess.user.source, c) ||
        IsPropertyOf(sample.kept, guess.item.source, c)) {
      continue;
    }
    if (const std::optional<TimeRule> rule = TimeRule::Find(sample, c)) {
      time = c;
      guess.times = *rule;
      roles.Take(c);
    } else {
      guess.warnings.push_back(absl::StrCat("column ", Quoted(name),
                                            " is not used as the time: ", ExampleOf(sample, c),
                                            " cannot be read; times are ", TimeRule::kForms));
    }
  }
  if (!time) return absl::OkStatus();
  guess.time = {.source = *time, .name = {}, .reason = "time: decides which rows are the last"};
  for (std::string& one : TimeWarnings(sample.header[*time], sample.columns[*time])) {
    guess.warnings.push_back(std::move(one));
  }
  return absl::OkStatus();
}

// Returns whether the cells are a few texts, such as kinds of events.
bool HasFewTexts(const ColumnProfile& profile) {
  constexpr size_t kMost = 10;
  return !profile.is_numeric() && !profile.has_many_values && profile.values.size() <= kMost;
}

// Returns the text that means yes, or any. Requires a text.
const std::string& LikelyPositive(const ColumnProfile& profile) {
  const auto yes = std::ranges::find_if(
      profile.values, [](const auto& value) { return MeaningOf(value.first).value_or(false); });
  return (yes == profile.values.end() ? profile.values.begin() : yes)->first;
}

// Returns why a column of interactions has no role.
std::string WhyLeftOut(const DataSample& sample, size_t column, bool has_items,
                       const RetrievalGuess& guess) {
  const std::string& name = sample.header[column];
  const ColumnProfile& profile = sample.columns[column];
  if (profile.filled == 0) return "left out: no row has a value";
  if (NamesHistory(name)) return "left out: its values are no items";
  if (RankOf(name, kUserWords)) {
    return absl::StrCat("left out; as the user: --user ", ShellWord(name));
  }
  if (!has_items && RankOf(name, kItemWords)) {
    return absl::StrCat("left out; as the item: --item ", ShellWord(name));
  }
  if (HasWord(name, kTimeWords) && !TimeRule::Find(sample, column)) {
    return "left out: its values cannot be read as times";
  }
  if (HasWord(name, kTimeWords) || GuessDates(name, profile)) {
    return absl::StrCat("left out; as the time: --time ", ShellWord(name));
  }
  if (profile.distinct.count() > 1 && has_items &&
      IsPropertyOf(sample.kept, guess.item.source, column)) {
    return "left out: it describes the items; their file can have it";
  }
  const std::string why = "left out: it differs between the rows of a user";
  if (HasFewTexts(profile) && !CanBeLabel(profile)) {
    return absl::StrCat(why, "; as the label: --label ", ShellWord(name), " --positive ",
                        ShellWord(LikelyPositive(profile)));
  }
  if (!CanBeLabel(profile) || NamesIds(name)) return why;
  return absl::StrCat(why, "; as the label: --label ", ShellWord(name));
}

// Returns whether a column that is left out looks as if it told which rows are positives.
bool MayBeLabel(const std::string& name, const ColumnProfile& profile) {
  const bool is_event = HasWord(name, kEventWords);
  if (NamesIds(name) || HasWord(name, kTimeWords) || NamesHistory(name) ||
      (NamesProperty(name) && !is_event)) {
    return false;
  }
  if (profile.has_many_values || profile.values.size() < 2) return false;
  if (profile.is_numeric()) return profile.least <= 0 && profile.greatest > 0;
  if (profile.values.size() == 2) {
    return YesOf(profile.values.begin()->first, std::next(profile.values.begin())->first)
        .has_value();
  }
  return HasFewTexts(profile) && (is_event || MeaningOf(LikelyPositive(profile)).value_or(false));
}

// Sets what options make of columns, of the interactions, the items or both.
Status SetWishes(const RetrievalOptions& options, const DataSample& sample,
                 const std::optional<DataSample>& items, Roles& roles,
                 std::vector<Wish>& item_wishes) {
  std::vector<std::string> header = sample.header;
  if (items) header.insert(header.end(), items->header.begin(), items->header.end());
  const auto set = [&](const std::string& option, const std::vector<std::string>& texts,
                       Wish wish) -> Status {
    for (const std::string& text : texts) {
      for (const std::string& name : NamesIn(text, header)) {
        const auto own = FindColumn(sample.header, option, name);
        if (own.ok()) {
          SIMURGH_RETURN_IF_ERROR(wish == Wish::kSkip ? roles.TakeNamed(option, name).status()
                                                      : absl::OkStatus());
          roles.SetWish(*own, wish);
        }
        const auto of_items = items ? FindColumn(items->header, option, name) : own;
        if (items && of_items.ok()) item_wishes[*of_items] = wish;
        if (!own.ok() && !of_items.ok()) return FindColumn(header, option, name).status();
      }
    }
    return absl::OkStatus();
  };
  SIMURGH_RETURN_IF_ERROR(set("--skip", options.skip, Wish::kSkip));
  SIMURGH_RETURN_IF_ERROR(set("--id", options.ids, Wish::kId));
  return set("--dense", options.dense, Wish::kDense);
}

// Sets the features of users and items in the interactions, and a note for each column.
Status GuessFeatures(const DataSample& sample, bool has_items, uint64_t items, const Roles& roles,
                     Names& names, RetrievalGuess& guess) {
  const uint64_t users = sample.columns[guess.user.source].distinct.count();
  for (size_t c = 0; c < sample.header.size(); ++c) {
    const std::string& name = sample.header[c];
    ColumnNote note{.name = name};
    const auto is = [&](const auto& role) { return role && role->source == c; };
    const std::optional<RetrievalColumn> user = guess.user;
    const std::optional<RetrievalColumn> item = guess.item;
    for (const auto& role : {user, item, guess.label, guess.weight, guess.time}) {
      if (is(role)) note = {.name = name, .written = role->name, .reason = role->reason};
    }
    if (!guess.makes_history && is(guess.history)) note.reason = guess.history->reason;
    if (note.reason.empty()) {
      const Wish wish = roles.WishOf(c);
      const bool is_of_user = IsPropertyOf(sample.kept, guess.user.source, c);
      const bool is_of_item = !has_items && IsPropertyOf(sample.kept, guess.item.source, c);
      if (wish == Wish::kSkip) {
        note.reason = "left out: --skip";
      } else if ((is_of_user || is_of_item) && !LabelNameOf(name) && !NamesHistory(name)) {
        SIMURGH_ASSIGN_OR_RETURN(Property property,
                                 PropertyOf(sample, c, wish, is_of_user ? users : items,
                                            is_of_user ? "users" : "items", names));
        note.reason = property.why;
        if (property.column) {
          note.written = property.column->name;
          (is_of_user ? guess.user_features : guess.features)
              .push_back(*std::move(property.column));
        }
      } else if (wish != Wish::kGuess) {
        return absl::InvalidArgumentError(absl::StrCat(
            wish == Wish::kId ? "--id " : "--dense ", name,
            ": it differs between the rows of a user and of an item, so it describes none"));
      } else {
        note.reason = WhyLeftOut(sample, c, has_items, guess);
        if (!guess.label && MayBeLabel(name, sample.columns[c])) {
          guess.warnings.push_back(absl::StrCat("each row counts as a positive; if column ",
                                                Quoted(name), " tells which ones are, use --label ",
                                                ShellWord(name)));
        }
      }
    }
    guess.notes.push_back(std::move(note));
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<RetrievalGuess> GuessRetrieval(const RetrievalOptions& options) {
  SIMURGH_ASSIGN_OR_RETURN(const DataSample sample,
                           SampleData(options.interactions, options.sample_rows));
  RetrievalGuess guess;
  guess.interactions = sample.table;
  Names names;
  Roles roles(sample);
  std::optional<DataSample> items;
  if (!options.items.empty()) {
    SIMURGH_ASSIGN_OR_RETURN(items, SampleData(options.items, options.sample_rows, Columns::kOne));
  }
  SIMURGH_ASSIGN_OR_RETURN(std::optional<size_t> item, roles.TakeNamed("--item", options.item));
  SIMURGH_ASSIGN_OR_RETURN(std::optional<size_t> user, roles.TakeNamed("--user", options.user));
  SIMURGH_ASSIGN_OR_RETURN(const auto label, roles.TakeNamed("--label", options.label));
  SIMURGH_ASSIGN_OR_RETURN(std::optional<size_t> weight,
                           roles.TakeNamed("--weight", options.weight));
  SIMURGH_ASSIGN_OR_RETURN(const auto time, roles.TakeNamed("--time", options.time));
  std::vector<Wish> item_wishes(items ? items->header.size() : 0);
  SIMURGH_RETURN_IF_ERROR(SetWishes(options, sample, items, roles, item_wishes));

  if (items) {
    SIMURGH_ASSIGN_OR_RETURN(items, GuessItems(options, sample, *std::move(items), item_wishes,
                                               item, roles, names, guess));
  } else {
    if (!item) item = roles.BestNamed(kItemWords);
    if (!item) return NotFound("item", "--item", sample.header);
    roles.Take(*item);
    guess.item = {.source = *item, .name = names.Of(sample.header[*item]), .reason = "item"};
  }
  if (!user) user = roles.BestNamed(kUserWords);
  if (!user) user = OnlyIds(sample, roles.Free(), guess.item.source);
  if (!user) return NotFound("user", "--user", sample.header);
  roles.Take(*user);
  guess.user = {
      .source = *user,
      .name = names.Of(sample.header[*user]),
      .reason = absl::StrFormat("user, %d values", sample.columns[*user].distinct.count())};
  const DistinctCounter& item_ids =
      items ? items->columns[guess.item_id].distinct : sample.columns[guess.item.source].distinct;
  for (const size_t c : roles.Free()) {
    const char separator =
        NamesHistory(sample.header[c]) ? HistorySeparator(sample.columns[c], item_ids) : '\0';
    if (separator == '\0') continue;
    guess.history = {.source = c,
                     .name = names.Of(sample.header[c]),
                     .separator = separator,
                     .reason = "history: items that the user has seen"};
    roles.Take(c);
    break;
  }
  SIMURGH_RETURN_IF_ERROR(GuessTime(options, sample, time, roles, guess));
  if (guess.time && !guess.history && options.makes_history) {
    guess.makes_history = true;
    guess.history = {
        .name = names.Of("history"),
        .reason = absl::StrFormat("history: the user's earlier items, %d at most, made of the rows",
                                  UserHistories::kMost)};
  }
  for (const size_t c : roles.Free()) {
    if (!weight && HasWord(sample.header[c], kWeightWords)) weight = c;
  }
  if (weight) {
    roles.Take(*weight);
    guess.weight = {
        .source = *weight, .name = names.Of(sample.header[*weight]), .reason = "weight of the row"};
  }
  SIMURGH_RETURN_IF_ERROR(GuessPositives(options, sample, label, roles, names, guess));
  SIMURGH_RETURN_IF_ERROR(
      GuessFeatures(sample, items.has_value(), item_ids.count(), roles, names, guess));
  guess.label_name = guess.label ? guess.label->name : names.Of("label");
  return guess;
}

}  // namespace simurgh
