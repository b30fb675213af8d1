#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/hash.h"
#include "base/text.h"
#include "data/guess/data_sample.h"
#include "data/guess/part_file.h"
#include "data/guess/quoted_yaml.h"
#include "data/guess/retrieval_guess.h"
#include "data/guess/table_rows.h"
#include "data/guess/user_histories.h"
#include "data/processing/numbers.h"
#include "data/reading/row_text.h"

namespace simurgh {
namespace {

std::string_view Trimmed(std::string_view text) {
  const absl::string_view stripped =
      absl::StripAsciiWhitespace(absl::string_view(text.data(), text.size()));
  return {stripped.data(), stripped.size()};
}

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

  // Returns nothing if the label is missing.
  std::optional<bool> IsPositive(const std::vector<std::string_view>& cells) const {
    if (!guess_.label) return true;
    return guess_.positives.IsPositive(Trimmed(cells[guess_.label->source]));
  }

  // Returns what orders the rows of a user. Rows without a time are the oldest.
  double TimeOf(const std::vector<std::string_view>& cells, uint64_t row) const {
    if (!guess_.time) return static_cast<double>(Mix64(row) >> 12U);
    return ReadTime(cells).value_or(std::numeric_limits<double>::lowest());
  }

  std::optional<double> ReadTime(const std::vector<std::string_view>& cells) const {
    return guess_.times.TimeOf(Trimmed(cells[guess_.time->source]));
  }

  // Returns whether the row has no weight, or a valid one.
  bool HasGoodWeight(const std::vector<std::string_view>& cells) const {
    if (!guess_.weight) return true;
    const std::optional<double> weight = ParseNumberCell(Trimmed(cells[guess_.weight->source]));
    return weight && *weight >= 0;
  }

 private:
  const RetrievalGuess& guess_;
};

std::string ItemHeader(const RetrievalGuess& guess) {
  std::string header = guess.item.name;
  for (const RetrievalColumn& feature : guess.features) absl::StrAppend(&header, ",", feature.name);
  return header;
}

// Returns an error if most rows have items that the file of items lacks.
// unknown: the first such item.
Status CheckItemsAreKnown(const RetrievalCounts& counts, const RetrievalOptions& options,
                          const std::string& unknown, const ItemTable& items) {
  if (2 * counts.unknown_items <= counts.rows || items.ids.empty()) return absl::OkStatus();
  const auto equal = std::ranges::find(items.ids, NumberOf(unknown), NumberOf);
  const std::string_view shown = equal == items.ids.end() ? items.ids.front() : *equal;
  return absl::InvalidArgumentError(
      absl::StrCat(options.interactions, ": ", counts.unknown_items, " of ", counts.rows,
                   " rows have an item that ", options.items, " lacks: ", Quoted(unknown),
                   " is not in it, and ", Quoted(shown), " is; write the ids of both files alike"));
}

// Returns a size of batches. A training without a full batch fails, so few rows have small ones.
uint64_t BatchSize(uint64_t rows) {
  constexpr uint64_t kFewBatches = 4;
  constexpr uint64_t kUsual = 128;
  if (rows >= 200'000) return 1'024;
  if (rows >= 20'000) return 512;
  return std::clamp<uint64_t>(rows / kFewBatches, 1, kUsual);
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
  // Returns whether a row is used: it has a user, a label and a known item.
  const auto is_used = [&](const std::vector<std::string_view>& cells) {
    const std::string_view item = Trimmed(cells[guess.item.source]);
    return !item.empty() && !Trimmed(cells[guess.user.source]).empty() &&
           interactions.IsPositive(cells).has_value() &&
           (!guess.has_items || items.places.contains(std::string(item)));
  };
  std::string unknown;                  // The first item that the items lack.
  std::unordered_set<uint32_t> chosen;  // Items with a positive row.
  uint64_t row = 0;
  const auto look = [&](const std::vector<std::string_view>& cells) -> Status {
    const uint64_t number = row++;
    const std::string_view item = Trimmed(cells[guess.item.source]);
    const std::string_view user = Trimmed(cells[guess.user.source]);
    if (!interactions.HasGoodWeight(cells)) {
      return absl::InvalidArgumentError(
          absl::StrCat(options.interactions, ": row ", number + 1, ": the weight ",
                       Quoted(cells[guess.weight->source]),
                       " is no number of at least 0; correct it, or leave them out by --skip ",
                       ShellWord(guess.notes[guess.weight->source].name)));
    }
    if (item.empty() || user.empty()) {
      ++(user.empty() ? counts.without_user : counts.without_item);
      return absl::OkStatus();
    }
    ++counts.rows;
    if (!guess.has_items) {
      items.Add(item, guess.features, cells);
    } else if (!items.places.contains(std::string(item))) {
      if (counts.unknown_items++ == 0) unknown = item;
      return absl::OkStatus();
    }
    const std::optional<bool> is_positive = interactions.IsPositive(cells);
    if (!is_positive) {
      ++counts.without_label;
      return absl::OkStatus();
    }
    const uint64_t key = HashBytes(user);
    if (pairs.size() < kMostPairs) {
      ++looked_at;
      if (!pairs.insert(Mix64(key) ^ HashBytes(item)).second) ++repeats;
    }
    LastRows& last = users[key];
    if (!*is_positive) return absl::OkStatus();
    ++counts.positives;
    const uint32_t place = items.places.find(std::string(item))->second;
    chosen.insert(place);
    if (guess.time && !interactions.ReadTime(cells)) ++counts.without_time;
    const double time = interactions.TimeOf(cells, number);
    last.Add(time, number);
    if (guess.makes_history) {
      histories.Add(key, time, number, place);
    }
    return absl::OkStatus();
  };
  SIMURGH_ASSIGN_OR_RETURN(const uint64_t bad,
                           ForEachRow(guess.interactions, options.interactions, look));
  counts.bad_rows = bad;
  counts.users = users.size();
  counts.items = items.lines.size();
  counts.items_without_rows = counts.items - chosen.size();
  SIMURGH_RETURN_IF_ERROR(CheckItemsAreKnown(counts, options, unknown, items));
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
  absl::StrAppend(&header, ",", ItemHeader(guess), ",", guess.label_name);
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
                    interactions.IsPositive(cells).value_or(false) ? ",1" : ",0");
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
  absl::StrAppend(&columns, "    - {name: ", QuotedYaml(guess.label_name), ", kind: label}\n");
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
      "]\n  # All items, a copy. Evaluations rank them for each user.\n  items: {files: [",
      QuotedYaml(files.items), "], id: ", QuotedYaml(guess.item.name),
      ", user: ", QuotedYaml(guess.user.name),
      ", exclude_seen: ", counts.has_repeats ? "false" : "true", "}\n  columns:\n", columns);
  absl::StrAppend(&yaml, "\nmodel:\n  two_tower: {user: [", absl::StrJoin(user_features, ", "),
                  "], item: [", absl::StrJoin(item_features, ", "),
                  "], layers: [], dim: 32}\n\ntraining:\n  batch_size: ", BatchSize(counts.train),
                  "\n  # Training ends when ndcg@20 of the validation rows gets no better.\n"
                  "  epochs: 30\n  evaluate_every_epochs: 1\n"
                  "  early_stopping: {patience: 3}\n"
                  "  dense_optimizer: {kind: adam, learning_rate: 0.002}\n\n"
                  "checkpoint: {directory: ",
                  QuotedYaml(model), "}\n");
  return yaml;
}

}  // namespace simurgh
