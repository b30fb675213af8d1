#include "data/guess/retrieval_guess.h"

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "base/hash.h"
#include "data/guess/column_name.h"
#include "data/guess/data_sample.h"
#include "data/guess/part_file.h"
#include "data/guess/quoted_yaml.h"
#include "data/guess/table_rows.h"
#include "data/guess/user_histories.h"
#include "data/processing/numbers.h"
#include "data/processing/times.h"
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

bool HasWord(const std::string& name, const Words& words) {
  return std::ranges::any_of(WordsOf(name), [&](const std::string& word) {
    return std::ranges::find(words, word) != words.end();
  });
}

std::string_view Trimmed(std::string_view text) {
  const absl::string_view stripped =
      absl::StripAsciiWhitespace(absl::string_view(text.data(), text.size()));
  return {stripped.data(), stripped.size()};
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

// Returns a column that describes users or items. Nothing: hardly any of them share a value of it,
// such as a title.
// count: number of users or items.
std::optional<RetrievalColumn> PropertyOf(const DataSample& sample, size_t column, uint64_t count,
                                          const std::string& whose, Names& names) {
  constexpr uint64_t kMaxCategories = 200;
  constexpr uint32_t kRanges = 16;
  const ColumnProfile& profile = sample.columns[column];
  const std::string& header = sample.header[column];
  if (profile.filled == 0) return std::nullopt;
  const std::optional<size_t> lists =
      profile.is_numeric() ? std::nullopt : FindListSeparator(profile);
  const uint64_t distinct =
      lists ? profile.lists[*lists].distinct.count() : profile.distinct.count();
  const bool has_ranges = profile.is_numeric() && profile.format == NumberFormat() &&
                          distinct > kMaxCategories && !profile.has_leading_zeros &&
                          !profile.is_consecutive && !NamesIds(header);
  if (distinct < 2 || (!has_ranges && 2 * distinct > count)) return std::nullopt;
  RetrievalColumn property{.source = column, .name = names.Of(header)};
  if (lists) property.separator = ColumnProfile::kListSeparators[*lists];
  if (has_ranges) property.quantiles = kRanges;
  property.reason = has_ranges
                        ? absl::StrFormat("feature of %s, %d ranges of numbers", whose, kRanges)
                        : absl::StrFormat("feature of %s, %d values", whose, distinct);
  return property;
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
  Roles(const DataSample& sample) : sample_(sample), is_taken_(sample.header.size()) {}

  // Returns the column that an option names, or the first free one that fits; none if none does.
  template <typename Fits>
  StatusOr<std::optional<size_t>> Take(const std::string& option, const std::string& name,
                                       const Fits& fits) {
    std::optional<size_t> found;
    if (!name.empty()) {
      SIMURGH_ASSIGN_OR_RETURN(found, FindColumn(sample_.header, option, name));
    }
    for (size_t c = 0; !found && c < sample_.header.size(); ++c) {
      if (!is_taken_[c] && fits(sample_.header[c], sample_.columns[c])) found = c;
    }
    if (found) is_taken_[*found] = true;
    return found;
  }

  // Returns the columns without a role.
  std::vector<size_t> Free() const {
    std::vector<size_t> columns;
    for (size_t c = 0; c < is_taken_.size(); ++c) {
      if (!is_taken_[c]) columns.push_back(c);
    }
    return columns;
  }

 private:
  const DataSample& sample_;
  std::vector<bool> is_taken_;
};

// Finds the column of ids in the items, and that of the interactions with the same values.
struct Overlap {
  size_t of_items = 0;
  size_t of_interactions = 0;
  double share = 0;  // Share of the interactions' values that the items have.
};

Overlap BestOverlap(const DataSample& interactions, const DataSample& items,
                    std::optional<size_t> wanted) {
  constexpr double kDistinct = 0.95;  // Counts of many values are about 2 % off.
  Overlap best;
  for (size_t i = 0; i < items.columns.size(); ++i) {
    const auto distinct = static_cast<double>(items.columns[i].distinct.count());
    if (distinct < kDistinct * static_cast<double>(items.rows)) continue;
    for (size_t c = 0; c < interactions.columns.size(); ++c) {
      if (wanted && *wanted != c) continue;
      double share = interactions.columns[c].distinct.ShareIn(items.columns[i].distinct);
      // Equal names decide between numbers that both count from 1.
      if (share > 0 && interactions.header[c] == items.header[i]) share += 1;
      if (share > best.share) best = {i, c, share};
    }
  }
  return best;
}

// Returns the items that were looked at.
StatusOr<DataSample> GuessItems(const RetrievalOptions& options, const DataSample& sample,
                                Roles& roles, Names& names, RetrievalGuess& guess) {
  constexpr double kLeast = 0.5;
  SIMURGH_ASSIGN_OR_RETURN(DataSample items,
                           SampleData(options.items, options.sample_rows, Columns::kOne));
  guess.has_items = true;
  guess.items = items.table;
  std::optional<size_t> wanted;
  if (!options.item.empty()) {
    SIMURGH_ASSIGN_OR_RETURN(wanted, FindColumn(sample.header, "--item", options.item));
  }
  const Overlap overlap = BestOverlap(sample, items, wanted);
  if (overlap.share < kLeast) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.items, ": no column has distinct values that a column of ", options.interactions,
        " has, too; give the items the ids that the interactions have, one row an item"));
  }
  SIMURGH_RETURN_IF_ERROR(roles
                              .Take("--item", sample.header[overlap.of_interactions],
                                    [](auto&, auto&) { return false; })
                              .status());
  guess.item = {.source = overlap.of_interactions,
                .name = names.Of(sample.header[overlap.of_interactions]),
                .reason = absl::StrFormat("item: its values are those of '%s' of the items",
                                          items.header[overlap.of_items])};
  guess.item_id = overlap.of_items;
  for (size_t c = 0; c < items.columns.size(); ++c) {
    if (c == overlap.of_items) continue;
    const auto property = PropertyOf(items, c, items.rows, "items", names);
    if (property) guess.features.push_back(*property);
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

// Sets the label, and which of its values are positives.
Status GuessPositives(const RetrievalOptions& options, const DataSample& sample, Roles& roles,
                      Names& names, RetrievalGuess& guess) {
  const auto is_label = [](const std::string& name, const ColumnProfile& profile) {
    const bool has_two = profile.distinct.count() == 2;
    return LabelNameOf(name).has_value() && (has_two || profile.is_numeric());
  };
  SIMURGH_ASSIGN_OR_RETURN(const std::optional<size_t> label,
                           roles.Take("--label", options.label, is_label));
  if (!label) return absl::OkStatus();
  const ColumnProfile& profile = sample.columns[*label];
  guess.label = {.source = *label, .name = names.Of(sample.header[*label]), .reason = {}};
  if (profile.is_numeric()) {
    guess.least = profile.distinct.count() <= 2 ? profile.greatest : profile.moments.mean();
    guess.label->reason = absl::StrFormat("label: %g and more are positives", guess.least);
    return absl::OkStatus();
  }
  SIMURGH_ASSIGN_OR_RETURN(const ColumnGuess texts, GuessLabel(profile, /*positive=*/""));
  if (texts.config.positive.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("column '", sample.header[*label], "' is no label; name another by --label"));
  }
  guess.positive = texts.config.positive.front();
  guess.label->reason = absl::StrCat("label: '", guess.positive, "' is the positive");
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
  const auto has = [](const Words& words) {
    return [&words](const std::string& name, const ColumnProfile& /*profile*/) {
      return HasWord(name, words) && !NamesHistory(name);
    };
  };
  std::optional<DataSample> items;
  if (!options.items.empty()) {
    SIMURGH_ASSIGN_OR_RETURN(items, GuessItems(options, sample, roles, names, guess));
  } else {
    SIMURGH_ASSIGN_OR_RETURN(const std::optional<size_t> item,
                             roles.Take("--item", options.item, has(kItemWords)));
    if (!item) return NotFound("item", "--item", sample.header);
    guess.item = {.source = *item, .name = names.Of(sample.header[*item]), .reason = "item"};
  }
  SIMURGH_ASSIGN_OR_RETURN(std::optional<size_t> user,
                           roles.Take("--user", options.user, has(kUserWords)));
  if (!user) user = OnlyIds(sample, roles.Free(), guess.item.source);
  if (!user) return NotFound("user", "--user", sample.header);
  SIMURGH_RETURN_IF_ERROR(roles.Take("--user", sample.header[*user], has({})).status());
  guess.user = {
      .source = *user,
      .name = names.Of(sample.header[*user]),
      .reason = absl::StrFormat("user, %d values", sample.columns[*user].distinct.count())};
  const DistinctCounter& item_ids =
      items ? items->columns[guess.item_id].distinct : sample.columns[guess.item.source].distinct;
  const auto is_history = [&](const std::string& name, const ColumnProfile& profile) {
    return NamesHistory(name) && HistorySeparator(profile, item_ids) != '\0';
  };
  SIMURGH_ASSIGN_OR_RETURN(const std::optional<size_t> history, roles.Take("", "", is_history));
  if (history) {
    guess.history = {.source = *history,
                     .name = names.Of(sample.header[*history]),
                     .separator = HistorySeparator(sample.columns[*history], item_ids),
                     .reason = "history: items that the user has seen"};
  }
  const auto is_time = [](const std::string& name, const ColumnProfile& profile) {
    return HasWord(name, kTimeWords) && (profile.is_numeric() || profile.are_dates());
  };
  SIMURGH_ASSIGN_OR_RETURN(const std::optional<size_t> time,
                           roles.Take("--time", options.time, is_time));
  if (time) {
    guess.time = {.source = *time, .name = {}, .reason = "time: decides which rows are the last"};
    if (!history && options.makes_history) {
      guess.makes_history = true;
      guess.history = {.name = names.Of("history"),
                       .reason = absl::StrFormat(
                           "history: the user's earlier items, %d at most, made of the rows",
                           UserHistories::kMost)};
    }
  }
  SIMURGH_ASSIGN_OR_RETURN(const std::optional<size_t> weight,
                           roles.Take("--weight", options.weight, has(kWeightWords)));
  if (weight) {
    guess.weight = {
        .source = *weight, .name = names.Of(sample.header[*weight]), .reason = "weight of the row"};
  }
  SIMURGH_RETURN_IF_ERROR(GuessPositives(options, sample, roles, names, guess));
  for (const size_t c : roles.Free()) {
    const std::string& name = sample.header[c];
    if (LabelNameOf(name) || NamesHistory(name)) continue;
    if (IsPropertyOf(sample.kept, *user, c)) {
      const uint64_t users = sample.columns[*user].distinct.count();
      const auto property = PropertyOf(sample, c, users, "users", names);
      if (property) guess.user_features.push_back(*property);
    } else if (!items && IsPropertyOf(sample.kept, guess.item.source, c)) {
      const auto property = PropertyOf(sample, c, item_ids.count(), "items", names);
      if (property) guess.features.push_back(*property);
    }
  }
  return guess;
}

namespace {

// Appends the cells of features, each after a comma.
void AppendCells(const std::vector<RetrievalColumn>& features,
                 const std::vector<std::string_view>& cells, std::string& line) {
  for (const RetrievalColumn& feature : features) {
    std::string_view cell = Trimmed(cells[feature.source]);
    // Ranges have no other text for a missing number than an empty one.
    if (feature.quantiles > 0 && !ParseNumberCell(cell)) cell = {};
    line.push_back(',');
    AppendCsvCell(cell, line);
  }
}

// The items, with the cells of their features, in the order of their first appearance.
struct ItemTable {
  std::unordered_map<std::string, uint32_t> places;
  std::vector<std::string> lines;  // The id and cells of each item, as CSV.
  std::vector<std::string_view> ids;

  // Adds a row with an item's id and features. Returns whether the item is new.
  bool Add(std::string_view id, const std::vector<RetrievalColumn>& features,
           const std::vector<std::string_view>& cells) {
    const auto [entry, is_new] = places.emplace(id, static_cast<uint32_t>(lines.size()));
    if (!is_new) return false;
    ids.push_back(entry->first);
    std::string& line = lines.emplace_back();
    AppendCsvCell(id, line);
    AppendCells(features, cells, line);
    return true;
  }
};

// Calls visit(cells) for each row of a file. Returns the number of rows that cannot be split.
template <typename Visit>
StatusOr<uint64_t> ForEachRow(const DataConfig& table, const std::string& path,
                              const Visit& visit) {
  SIMURGH_ASSIGN_OR_RETURN(TableLines lines, TableLines::Open(table, path));
  TableCells cells(table);
  uint64_t bad = 0;
  bool is_header = HasHeader(table);
  for (;;) {
    SIMURGH_ASSIGN_OR_RETURN(const std::optional<Line> line, lines.Next());
    if (!line) return bad;
    if (std::exchange(is_header, false)) continue;
    const auto split = line->whole ? cells.Split(line->text) : LongLineError();
    if (!split.ok()) {
      ++bad;
      continue;
    }
    SIMURGH_RETURN_IF_ERROR(visit(**split));
  }
}

StatusOr<ItemTable> ReadItems(const RetrievalGuess& guess, const std::string& path) {
  ItemTable table;
  uint64_t row = 0;
  const auto add = [&](const std::vector<std::string_view>& cells) -> Status {
    ++row;
    const std::string_view id = Trimmed(cells[guess.item_id]);
    if (!id.empty() && table.Add(id, guess.features, cells)) return absl::OkStatus();
    return absl::InvalidArgumentError(
        id.empty() ? absl::StrCat(path, ": row ", row, ": the item has no id; give each item one")
                   : absl::StrCat(path, ": rows ", table.places[std::string(id)] + 1, " and ", row,
                                  " have the id '", std::string(id), "'; keep one row an item"));
  };
  SIMURGH_RETURN_IF_ERROR(ForEachRow(guess.items, path, add).status());
  return table;
}

// The last two positives of a user.
struct LastRows {
  static constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();

  uint64_t positives = 0;
  std::array<std::pair<double, uint64_t>, 2> rows = {{{0, kNone}, {0, kNone}}};  // Time and row.

  void Add(double time, uint64_t row) {
    ++positives;
    const std::pair<double, uint64_t> own(time, row);
    if (rows[0].second == kNone || own > rows[0]) {
      rows[1] = std::exchange(rows[0], own);
    } else if (rows[1].second == kNone || own > rows[1]) {
      rows[1] = own;
    }
  }
};

// What a row of interactions means.
class Interactions {
 public:
  explicit Interactions(const RetrievalGuess& guess) : guess_(guess) {}

  bool IsPositive(const std::vector<std::string_view>& cells) const {
    if (!guess_.label) return true;
    const std::string_view cell = Trimmed(cells[guess_.label->source]);
    if (!guess_.positive.empty()) return cell == guess_.positive;
    const std::optional<double> number = ParseNumberCell(cell);
    return number && *number >= guess_.least;
  }

  // Returns what orders the rows of a user.
  double TimeOf(const std::vector<std::string_view>& cells, uint64_t row) const {
    if (!guess_.time) return static_cast<double>(Mix64(row) >> 12U);
    return ParseTimeCell(Trimmed(cells[guess_.time->source])).value_or(0);
  }

 private:
  const RetrievalGuess& guess_;
};

std::string ItemHeader(const RetrievalGuess& guess) {
  std::string header = guess.item.name;
  for (const RetrievalColumn& feature : guess.features) absl::StrAppend(&header, ",", feature.name);
  return header;
}

std::string NameOfLabel(const RetrievalGuess& guess) {
  return guess.label ? guess.label->name : "label";
}

}  // namespace

StatusOr<RetrievalCounts> SplitRetrieval(const RetrievalGuess& guess,
                                         const RetrievalOptions& options,
                                         const RetrievalFiles& files) {
  constexpr uint64_t kLeastPositives = 3;
  constexpr size_t kMostPairs = 1'000'000;
  RetrievalCounts counts;
  const Interactions interactions(guess);
  ItemTable items;
  if (guess.has_items) {
    SIMURGH_ASSIGN_OR_RETURN(items, ReadItems(guess, options.items));
  }
  std::unordered_map<uint64_t, LastRows> users;
  UserHistories histories;
  std::unordered_set<uint64_t> pairs;
  uint64_t repeats = 0;
  uint64_t looked_at = 0;
  // Returns whether a row is used: it has a user and a known item.
  const auto is_used = [&](const std::vector<std::string_view>& cells) {
    const std::string_view item = Trimmed(cells[guess.item.source]);
    return !item.empty() && !Trimmed(cells[guess.user.source]).empty() &&
           (!guess.has_items || items.places.contains(std::string(item)));
  };
  uint64_t row = 0;
  const auto look = [&](const std::vector<std::string_view>& cells) -> Status {
    const uint64_t number = row++;
    const std::string_view item = Trimmed(cells[guess.item.source]);
    const std::string_view user = Trimmed(cells[guess.user.source]);
    if (item.empty() || user.empty()) {
      ++counts.bad_rows;
      return absl::OkStatus();
    }
    ++counts.rows;
    if (!guess.has_items) {
      items.Add(item, guess.features, cells);
    } else if (!is_used(cells)) {
      ++counts.unknown_items;
      return absl::OkStatus();
    }
    const uint64_t key = HashBytes(user);
    if (pairs.size() < kMostPairs) {
      ++looked_at;
      if (!pairs.insert(Mix64(key) ^ HashBytes(item)).second) ++repeats;
    }
    LastRows& last = users[key];
    if (!interactions.IsPositive(cells)) return absl::OkStatus();
    const double time = interactions.TimeOf(cells, number);
    last.Add(time, number);
    if (guess.makes_history) {
      histories.Add(key, time, number, items.places.find(std::string(item))->second);
    }
    return absl::OkStatus();
  };
  SIMURGH_ASSIGN_OR_RETURN(const uint64_t bad,
                           ForEachRow(guess.interactions, options.interactions, look));
  counts.bad_rows += bad;
  counts.users = users.size();
  counts.items = items.lines.size();
  counts.has_repeats = 10 * repeats > looked_at;
  const bool has_test = std::ranges::any_of(
      users, [](const auto& user) { return user.second.positives >= kLeastPositives; });
  if (!has_test) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.interactions, ": no user has ", kLeastPositives,
                     " positive rows, which a test needs; check --user, --item and --label"));
  }

  histories.Sort();
  if (guess.makes_history) counts.separator = SeparatorOf(items.ids);

  std::string header = guess.user.name;
  for (const RetrievalColumn& feature : guess.user_features) {
    absl::StrAppend(&header, ",", feature.name);
  }
  if (guess.history) absl::StrAppend(&header, ",", guess.history->name);
  absl::StrAppend(&header, ",", ItemHeader(guess), ",", NameOfLabel(guess));
  if (guess.weight) absl::StrAppend(&header, ",", guess.weight->name);
  header.push_back('\n');
  using Order = PartFile::Order;
  SIMURGH_ASSIGN_OR_RETURN(PartFile train, PartFile::Create(files.train, header, Order::kRandom));
  SIMURGH_ASSIGN_OR_RETURN(PartFile validation,
                           PartFile::Create(files.validation, header, Order::kKept));
  SIMURGH_ASSIGN_OR_RETURN(PartFile test, PartFile::Create(files.test, header, Order::kKept));
  row = 0;
  const auto copy = [&](const std::vector<std::string_view>& cells) -> Status {
    const uint64_t number = row++;
    if (!is_used(cells)) return absl::OkStatus();
    const std::string_view user = Trimmed(cells[guess.user.source]);
    std::string line;
    AppendCsvCell(user, line);
    AppendCells(guess.user_features, cells, line);
    const auto item = items.places.find(std::string(Trimmed(cells[guess.item.source])));
    if (item == items.places.end()) {
      return absl::FailedPreconditionError(
          absl::StrCat(options.interactions, ": the file changes; run the command again"));
    }
    if (guess.makes_history) {
      std::string earlier;
      for (const uint32_t one : histories.Before(
               HashBytes(user), interactions.TimeOf(cells, number), number, item->second)) {
        if (!earlier.empty()) earlier.push_back(counts.separator);
        earlier.append(items.ids[one]);
      }
      line.push_back(',');
      AppendCsvCell(earlier, line);
    } else if (guess.history) {
      line.push_back(',');
      AppendCsvCell(Trimmed(cells[guess.history->source]), line);
    }
    absl::StrAppend(&line, ",", items.lines[item->second],
                    interactions.IsPositive(cells) ? ",1" : ",0");
    if (guess.weight) {
      line.push_back(',');
      AppendCsvCell(Trimmed(cells[guess.weight->source]), line);
    }
    const LastRows& last = users[HashBytes(user)];
    const bool is_tested = last.positives >= kLeastPositives;
    if (is_tested && last.rows[0].second == number) {
      ++counts.test;
      return test.Add(line);
    }
    if (is_tested && last.rows[1].second == number) {
      ++counts.validation;
      return validation.Add(line);
    }
    ++counts.train;
    return train.Add(line);
  };
  SIMURGH_RETURN_IF_ERROR(ForEachRow(guess.interactions, options.interactions, copy).status());
  for (PartFile* const part : {&train, &validation, &test}) {
    SIMURGH_RETURN_IF_ERROR(part->Commit());
  }
  SIMURGH_ASSIGN_OR_RETURN(PartFile item_file,
                           PartFile::Create(files.items, ItemHeader(guess) + "\n", Order::kKept));
  for (const std::string& line : items.lines) SIMURGH_RETURN_IF_ERROR(item_file.Add(line));
  SIMURGH_RETURN_IF_ERROR(item_file.Commit());
  return counts;
}

std::string RetrievalConfig(const RetrievalGuess& guess, const RetrievalCounts& counts,
                            const RetrievalFiles& files, const std::string& cluster,
                            const std::string& source, const std::string& model) {
  std::vector<std::string> tables;
  std::vector<std::string> user_features;
  std::vector<std::string> item_features;
  std::string features;
  std::string columns;
  const auto add_column = [&](const RetrievalColumn& column, char separator) {
    absl::StrAppend(&columns, "    - {name: ", QuotedYaml(column.name), ", kind: id",
                    separator == '\0' ? std::string()
                                      : absl::StrCat(", separator: ", QuotedYaml({&separator, 1})),
                    "}\n");
  };
  const auto add = [&](const RetrievalColumn& column, std::vector<std::string>& tower) {
    tower.push_back(QuotedYaml(column.name));
    tables.push_back(QuotedYaml(column.name));
    add_column(column, column.separator);
    if (column.quantiles == 0) return;
    absl::StrAppend(&features, "  - {name: ", QuotedYaml(column.name),
                    ", quantiles: ", column.quantiles, "}\n");
  };
  add(guess.user, user_features);
  for (const RetrievalColumn& feature : guess.user_features) add(feature, user_features);
  if (guess.history) {
    user_features.push_back(QuotedYaml(guess.history->name));
    add_column(*guess.history, guess.makes_history ? counts.separator : guess.history->separator);
    absl::StrAppend(&features, "  - {name: ", QuotedYaml(guess.history->name),
                    ", table: ", QuotedYaml(guess.item.name), ", pooling: mean}\n");
  }
  add(guess.item, item_features);
  for (const RetrievalColumn& feature : guess.features) add(feature, item_features);
  absl::StrAppend(&columns, "    - {name: ", QuotedYaml(NameOfLabel(guess)), ", kind: label}\n");
  if (guess.weight) {
    absl::StrAppend(&columns, "    - {name: ", QuotedYaml(guess.weight->name), ", kind: weight}\n");
  }
  std::string yaml = absl::StrCat(
      "# Two towers that find items for users, written by simurgh init --retrieval from ", source,
      ".\ncluster: {name: ", QuotedYaml(cluster), "}\n\ntables:\n  - {names: [",
      absl::StrJoin(tables, ", "),
      "], dim: 32, initializer: {kind: normal, stddev: 0.1}, optimizer: {kind: adam, "
      "learning_rate: 0.005}}\n\n");
  if (!features.empty()) absl::StrAppend(&yaml, "features:\n", features, "\n");
  absl::StrAppend(
      &yaml, "data:\n  format: csv\n  csv: {header: true}\n  train: [", QuotedYaml(files.train),
      "]\n  # The last interaction of each user, and the one before it.\n  test: [",
      QuotedYaml(files.test), "]\n  validation: [", QuotedYaml(files.validation),
      "]\n  # All items. Evaluations rank them for each user.\n  items: {files: [",
      QuotedYaml(files.items), "], id: ", QuotedYaml(guess.item.name),
      ", user: ", QuotedYaml(guess.user.name),
      ", exclude_seen: ", counts.has_repeats ? "false" : "true", "}\n  columns:\n", columns);
  constexpr uint64_t kFewBatches = 4;  // A training without a full batch fails.
  const uint64_t batch = counts.train >= 200'000  ? 1'024
                         : counts.train >= 20'000 ? 512
                         : counts.train >= 128 * kFewBatches
                             ? 128
                             : std::max<uint64_t>(1, counts.train / kFewBatches);
  absl::StrAppend(&yaml, "\nmodel:\n  two_tower: {user: [", absl::StrJoin(user_features, ", "),
                  "], item: [", absl::StrJoin(item_features, ", "),
                  "], layers: [], dim: 32}\n\ntraining:\n  batch_size: ", batch,
                  "\n  # Training ends when ndcg@20 of the validation rows gets no better.\n"
                  "  epochs: 30\n  evaluate_every_epochs: 1\n"
                  "  early_stopping: {patience: 3}\n"
                  "  dense_optimizer: {kind: adam, learning_rate: 0.002}\n\n"
                  "checkpoint: {directory: ",
                  QuotedYaml(model), "}\n");
  return yaml;
}

}  // namespace simurgh
