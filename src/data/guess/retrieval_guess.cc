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

// Returns the separator of a column of lists; 0: its cells are no lists.
char ListSeparator(const ColumnProfile& profile) {
  for (size_t i = 0; i < profile.lists.size(); ++i) {
    const char separator = ColumnProfile::kListSeparators[i];
    const bool is_in_names = separator == ' ' || separator == '_' || separator == '/';
    if (is_in_names) continue;
    if (2 * profile.lists[i].lists > profile.filled) return separator;
  }
  return '\0';
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

Status GuessItems(const RetrievalOptions& options, const DataSample& sample, Roles& roles,
                  Names& names, RetrievalGuess& guess) {
  constexpr double kLeast = 0.5;
  SIMURGH_ASSIGN_OR_RETURN(const DataSample items, SampleData(options.items, options.sample_rows));
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
    const ColumnProfile& profile = items.columns[c];
    if (c == overlap.of_items || profile.filled == 0) continue;
    const char separator = ListSeparator(profile);
    const uint64_t distinct =
        separator == '\0'
            ? profile.distinct.count()
            : profile.lists[ColumnProfile::kListSeparators.find(separator)].distinct.count();
    // Values of few items each, such as titles, tell nothing of other items.
    if (2 * distinct > items.rows || distinct < 2) continue;
    guess.features.push_back({.source = c,
                              .name = names.Of(items.header[c]),
                              .separator = separator,
                              .reason = absl::StrFormat("feature of items, %d values", distinct)});
  }
  return absl::OkStatus();
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
  if (!options.items.empty()) {
    SIMURGH_RETURN_IF_ERROR(GuessItems(options, sample, roles, names, guess));
  } else {
    SIMURGH_ASSIGN_OR_RETURN(const std::optional<size_t> item,
                             roles.Take("--item", options.item, has(kItemWords)));
    if (!item) return NotFound("item", "--item", sample.header);
    guess.item = {.source = *item, .name = names.Of(sample.header[*item]), .reason = "item"};
  }
  SIMURGH_ASSIGN_OR_RETURN(const std::optional<size_t> user,
                           roles.Take("--user", options.user, has(kUserWords)));
  if (!user) return NotFound("user", "--user", sample.header);
  guess.user = {
      .source = *user,
      .name = names.Of(sample.header[*user]),
      .reason = absl::StrFormat("user, %d values", sample.columns[*user].distinct.count())};
  const auto is_history = [](const std::string& name, const ColumnProfile& profile) {
    return NamesHistory(name) && ListSeparator(profile) != '\0';
  };
  SIMURGH_ASSIGN_OR_RETURN(const std::optional<size_t> history, roles.Take("", "", is_history));
  if (history) {
    guess.history = {.source = *history,
                     .name = names.Of(sample.header[*history]),
                     .separator = ListSeparator(sample.columns[*history]),
                     .reason = "history: items that the user has seen"};
  }
  const auto is_time = [](const std::string& name, const ColumnProfile& profile) {
    return HasWord(name, kTimeWords) && (profile.is_numeric() || profile.are_dates());
  };
  SIMURGH_ASSIGN_OR_RETURN(const std::optional<size_t> time,
                           roles.Take("--time", options.time, is_time));
  if (time) {
    guess.time = {.source = *time, .name = {}, .reason = "time: decides which rows are the last"};
  }
  SIMURGH_ASSIGN_OR_RETURN(const std::optional<size_t> weight,
                           roles.Take("--weight", options.weight, has(kWeightWords)));
  if (weight) {
    guess.weight = {
        .source = *weight, .name = names.Of(sample.header[*weight]), .reason = "weight of the row"};
  }
  SIMURGH_RETURN_IF_ERROR(GuessPositives(options, sample, roles, names, guess));
  return guess;
}

namespace {

// The items, with the cells of their features, in the order of their first appearance.
struct ItemTable {
  std::unordered_map<std::string, uint32_t> places;
  std::vector<std::string> lines;  // The id and cells of each item, as CSV.

  // Returns whether the item is new.
  bool Add(std::string_view id, std::string line) {
    const bool is_new = places.emplace(id, static_cast<uint32_t>(lines.size())).second;
    if (is_new) lines.push_back(std::move(line));
    return is_new;
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
    std::string line;
    AppendCsvCell(id, line);
    for (const RetrievalColumn& feature : guess.features) {
      line.push_back(',');
      AppendCsvCell(Trimmed(cells[feature.source]), line);
    }
    if (!id.empty() && table.Add(id, std::move(line))) return absl::OkStatus();
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
      std::string line;
      AppendCsvCell(item, line);
      items.Add(item, std::move(line));
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
    if (interactions.IsPositive(cells)) last.Add(interactions.TimeOf(cells, number), number);
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

  std::string header = guess.user.name;
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
    line.push_back(',');
    if (guess.history) {
      AppendCsvCell(Trimmed(cells[guess.history->source]), line);
      line.push_back(',');
    }
    const auto item = items.places.find(std::string(Trimmed(cells[guess.item.source])));
    if (item == items.places.end()) {
      return absl::FailedPreconditionError(
          absl::StrCat(options.interactions, ": the file changes; run the command again"));
    }
    absl::StrAppend(&line, items.lines[item->second], interactions.IsPositive(cells) ? ",1" : ",0");
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
  std::vector<std::string> tables = {QuotedYaml(guess.user.name), QuotedYaml(guess.item.name)};
  std::vector<std::string> item_features = {QuotedYaml(guess.item.name)};
  std::vector<std::string> user_features = {QuotedYaml(guess.user.name)};
  for (const RetrievalColumn& feature : guess.features) {
    tables.push_back(QuotedYaml(feature.name));
    item_features.push_back(QuotedYaml(feature.name));
  }
  const auto id_column = [&](const RetrievalColumn& column) {
    return absl::StrCat("    - {name: ", QuotedYaml(column.name), ", kind: id",
                        column.separator == '\0'
                            ? std::string()
                            : absl::StrCat(", separator: ", QuotedYaml({&column.separator, 1})),
                        "}\n");
  };
  std::string yaml = absl::StrCat(
      "# Two towers that find items for users, written by simurgh init --retrieval from ", source,
      ".\ncluster: {name: ", QuotedYaml(cluster), "}\n\ntables:\n  - {names: [",
      absl::StrJoin(tables, ", "),
      "], dim: 32, initializer: {kind: normal, stddev: 0.1}, optimizer: {kind: adam, "
      "learning_rate: 0.005}}\n\n");
  if (guess.history) {
    user_features.push_back(QuotedYaml(guess.history->name));
    absl::StrAppend(&yaml, "features:\n  - {name: ", QuotedYaml(guess.history->name),
                    ", table: ", QuotedYaml(guess.item.name), ", pooling: mean}\n\n");
  }
  absl::StrAppend(&yaml, "data:\n  format: csv\n  csv: {header: true}\n  train: [",
                  QuotedYaml(files.train),
                  "]\n  # The last interaction of each user, and the one before it.\n  test: [",
                  QuotedYaml(files.test), "]\n  validation: [", QuotedYaml(files.validation),
                  "]\n  # All items. Evaluations rank them for each user.\n  items: {files: [",
                  QuotedYaml(files.items), "], id: ", QuotedYaml(guess.item.name),
                  ", user: ", QuotedYaml(guess.user.name),
                  ", exclude_seen: ", counts.has_repeats ? "false" : "true", "}\n  columns:\n",
                  id_column(guess.user));
  if (guess.history) absl::StrAppend(&yaml, id_column(*guess.history));
  absl::StrAppend(&yaml, id_column(guess.item));
  for (const RetrievalColumn& feature : guess.features) absl::StrAppend(&yaml, id_column(feature));
  absl::StrAppend(&yaml, "    - {name: ", QuotedYaml(NameOfLabel(guess)), ", kind: label}\n");
  if (guess.weight) {
    absl::StrAppend(&yaml, "    - {name: ", QuotedYaml(guess.weight->name), ", kind: weight}\n");
  }
  const uint64_t batch = counts.train >= 200'000 ? 1'024 : counts.train >= 20'000 ? 512 : 128;
  absl::StrAppend(&yaml, "\nmodel:\n  two_tower: {user: [", absl::StrJoin(user_features, ", "),
                  "], item: [", absl::StrJoin(item_features, ", "),
                  "], layers: [{linear: 64}, relu], dim: 32}\n\ntraining:\n  batch_size: ", batch,
                  "\n  # Training ends when ndcg@20 of the validation rows gets no better.\n"
                  "  epochs: 30\n  evaluate_every_epochs: 1\n"
                  "  early_stopping: {patience: 3}\n"
                  "  dense_optimizer: {kind: adam, learning_rate: 0.002}\n\n"
                  "checkpoint: {directory: ",
                  QuotedYaml(model), "}\n");
  return yaml;
}

}  // namespace simurgh
