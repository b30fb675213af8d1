// Users, items and their columns in files of interactions: roles, histories, the written parts.

#include "data/guess/retrieval_guess.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include <catch2/catch.hpp>

#include "config/cluster_config.h"
#include "tests/support/temporary_folder.h"

namespace simurgh {
namespace {

using Catch::Contains;
using Catch::Equals;

// Interactions, and items if there is a text of them.
struct Files {
  explicit Files(const std::string& rows, const std::string& items = "") {
    options.interactions = folder.Write("rows.csv", rows);
    if (!items.empty()) options.items = folder.Write("items.csv", items);
  }

  RetrievalGuess Guess() const {
    const StatusOr<RetrievalGuess> guess = GuessRetrieval(options);
    INFO(guess.status().ToString());
    REQUIRE(guess.ok());
    return *guess;
  }

  std::string Error() const {
    const StatusOr<RetrievalGuess> guess = GuessRetrieval(options);
    REQUIRE_FALSE(guess.ok());
    return std::string(guess.status().message());
  }

  RetrievalFiles Parts() const {
    return {.train = folder.Path("train.csv"),
            .validation = folder.Path("valid.csv"),
            .test = folder.Path("test.csv"),
            .items = folder.Path("out.csv")};
  }

  // Writes the parts and a valid configuration, which it returns.
  std::string Split() const {
    const RetrievalGuess guess = Guess();
    const StatusOr<RetrievalCounts> written = SplitRetrieval(guess, options, Parts());
    INFO(written.status().ToString());
    REQUIRE(written.ok());
    counts = *written;
    std::string yaml = RetrievalConfig(guess, counts, Parts(), "shop", "rows.csv", "model");
    const auto config = ParseClusterConfig(yaml, folder.Path("shop.yaml"), {});
    INFO(yaml << config.status().ToString());
    REQUIRE(config.ok());
    return yaml;
  }

  // Returns the cells of a written file without quotes; the first row is the header.
  std::vector<std::vector<std::string>> Cells(const std::string& file) const {
    std::ifstream stream(folder.Path(file));
    std::vector<std::vector<std::string>> rows;
    for (std::string line; std::getline(stream, line);) rows.push_back(absl::StrSplit(line, ','));
    return rows;
  }

  TemporaryFolder folder;
  RetrievalOptions options;
  mutable RetrievalCounts counts;  // Result of Split().
};

const RetrievalColumn* Find(const std::vector<RetrievalColumn>& columns, const std::string& name) {
  const auto found = std::ranges::find(columns, name, &RetrievalColumn::name);
  return found == columns.end() ? nullptr : &*found;
}

constexpr int kItems = 400;
constexpr int kUsers = 30;
constexpr int kRows = 1'500;

// Titles have blanks, genres are lists with blanks, and prices differ.
std::string ItemRows() {
  static constexpr const char* kGenres[] = {"drama", "comedy", "action", "war", "noir", "crime"};
  std::mt19937 random(3);
  std::string items = "movie,title,genres,price,shop_id\n";
  for (int i = 0; i < kItems; ++i) {
    std::vector<std::string> genres;
    for (const char* const genre : kGenres) {
      if (random() % 3 == 0) genres.emplace_back(genre);
    }
    std::ranges::shuffle(genres, random);
    absl::StrAppend(&items, "The Film ", i, ",Tür ", i, ",", absl::StrJoin(genres, " "), ",",
                    i == 7 ? "NA" : absl::StrFormat("%.2f", 1 + 0.37 * (i * 7 % kItems)), ",",
                    i % 13, "\n");
  }
  return items;
}

TEST_CASE("Lists have their separators, and names with blanks stay one id", "[guess]") {
  std::mt19937 random(4);
  std::string rows = "user,movie,hist_movies,hist_genres\n";
  for (int row = 0; row < kRows; ++row) {
    std::vector<std::string> seen;
    for (size_t n = random() % 4; n > 0; --n) {
      seen.push_back(absl::StrCat("The Film ", random() % kItems));
    }
    absl::StrAppend(&rows, "u", random() % kUsers, ",The Film ", random() % kItems, ",",
                    absl::StrJoin(seen, "|"), ",war drama\n");
  }
  const Files files(rows, ItemRows());
  const RetrievalGuess guess = files.Guess();
  CHECK(guess.item.separator == '\0');
  REQUIRE(guess.history);
  CHECK(guess.history->name == "hist_movies");
  CHECK(guess.history->separator == '|');
  CHECK_FALSE(guess.makes_history);
  const RetrievalColumn* const genres = Find(guess.features, "genres");
  REQUIRE(genres != nullptr);
  CHECK(genres->separator == ' ');
  CHECK(genres->quantiles == 0);
  CHECK(Find(guess.features, "title") == nullptr);
  const RetrievalColumn* const shop = Find(guess.features, "shop_id");
  REQUIRE(shop != nullptr);
  CHECK(shop->quantiles == 0);
  const RetrievalColumn* const price = Find(guess.features, "price");
  REQUIRE(price != nullptr);
  CHECK(price->quantiles == 16);
  CHECK_THAT(price->reason, Contains("16 ranges"));
  const std::string yaml = files.Split();
  CHECK_THAT(yaml, Contains("{name: \"price\", quantiles: 16}"));
  CHECK_THAT(yaml, Contains("{name: \"genres\", kind: id, separator: \" \"}"));
  const auto items = files.Cells("out.csv");
  REQUIRE(items.size() == kItems + 1);
  CHECK(items[0] == std::vector<std::string>{"movie", "genres", "price", "shop_id"});
  CHECK(items[1 + 7][2].empty());
}

TEST_CASE("A file of items may have their ids alone", "[guess]") {
  std::mt19937 random(8);
  std::string rows = "user,item\n";
  std::string items = "item\n";
  for (int i = 0; i < kItems; ++i) absl::StrAppend(&items, "i", i, "\n");
  for (int row = 0; row < kRows; ++row) {
    absl::StrAppend(&rows, "u", random() % kUsers, ",i", random() % kItems, "\n");
  }
  const Files files(rows, items);
  CHECK_THAT(files.Split(), Contains("item: [\"item\"]"));
  CHECK(files.Cells("out.csv").size() == kItems + 1);
}

TEST_CASE("Few rows make small batches", "[guess]") {
  std::string rows = "user,item\n";
  for (int row = 0; row < 26; ++row) absl::StrAppend(&rows, "u", row % 3, ",i", row % 7, "\n");
  CHECK_THAT(Files(rows).Split(), Contains("batch_size: 5\n"));
}

TEST_CASE("A history of items that blanks separate is found by the items", "[guess]") {
  std::mt19937 random(5);
  std::string rows = "user_id,item_id,hist_genre,hist_item_id,click\n";
  for (int row = 0; row < kRows; ++row) {
    std::vector<std::string> seen;
    for (size_t n = random() % 6; n > 0; --n) seen.push_back(absl::StrCat("i", random() % kItems));
    absl::StrAppend(&rows, random() % kUsers, ",i", random() % kItems, ",war drama,",
                    absl::StrJoin(seen, " "), ",", random() % 2, "\n");
  }
  const RetrievalGuess guess = Files(rows).Guess();
  REQUIRE(guess.history);
  CHECK(guess.history->name == "hist_item_id");
  CHECK(guess.history->separator == ' ');
}

TEST_CASE("Histories have the items of a user's earlier positives, the last one first", "[guess]") {
  struct Row {
    std::string user;
    std::string item;
    int time;
    bool is_liked;
  };
  const bool have_blanks = GENERATE(false, true);
  std::mt19937 random(6);
  std::vector<Row> rows;
  std::string text = "user,item,time,like\n";
  for (int row = 0; row < kRows; ++row) {
    // Times and pairs of user and item repeat.
    rows.push_back({absl::StrCat("u", random() % 12),
                    absl::StrCat(have_blanks ? "The " : "i", random() % 60),
                    static_cast<int>(1'600'000'000 + random() % 300), random() % 5 > 0});
    const Row& last = rows.back();
    absl::StrAppend(&text, last.user, ",", last.item, ",", last.time, ",", last.is_liked ? 1 : 0,
                    "\n");
  }
  Files files(text);
  CHECK_THAT(files.Split(),
             Contains(have_blanks ? "{name: \"history\", kind: id, separator: \"|\"}"
                                  : "{name: \"history\", kind: id, separator: \" \"}"));
  using Written = std::tuple<std::string, std::string, std::string, std::string>;
  std::vector<Written> expected;
  bool has_own_item = false;
  size_t longest = 0;
  for (size_t row = 0; row < rows.size(); ++row) {
    std::vector<std::pair<int, size_t>> before;
    for (size_t other = 0; other < rows.size(); ++other) {
      const bool is_earlier = std::pair(rows[other].time, other) < std::pair(rows[row].time, row);
      if (rows[other].user != rows[row].user || !rows[other].is_liked || !is_earlier) continue;
      has_own_item |= rows[other].item == rows[row].item;
      if (rows[other].item != rows[row].item) before.emplace_back(rows[other].time, other);
    }
    std::ranges::sort(before, std::greater<>());
    before.resize(std::min<size_t>(before.size(), 50));
    std::vector<std::string> items;
    for (const auto& [time, other] : before) items.push_back(rows[other].item);
    longest = std::max(longest, items.size());
    expected.emplace_back(rows[row].user, absl::StrJoin(items, have_blanks ? "|" : " "),
                          rows[row].item, rows[row].is_liked ? "1" : "0");
  }
  CHECK(has_own_item);
  CHECK(longest == 50);
  std::vector<Written> found;
  for (const char* const file : {"train.csv", "valid.csv", "test.csv"}) {
    auto cells = files.Cells(file);
    CHECK(cells.front() == std::vector<std::string>{"user", "history", "item", "like"});
    for (size_t row = 1; row < cells.size(); ++row) {
      found.emplace_back(cells[row][0], cells[row][1], cells[row][2], cells[row][3]);
    }
  }
  std::ranges::sort(expected);
  std::ranges::sort(found);
  CHECK(found == expected);

  files.options.makes_history = false;
  CHECK_THAT(files.Split(), !Contains("history"));
  CHECK(files.Cells("test.csv").front() == std::vector<std::string>{"user", "item", "like"});
}

TEST_CASE("Columns that users or items have in all their rows become features", "[guess]") {
  std::mt19937 random(7);
  const auto rows = [&](const std::string& header, bool has_user) {
    std::string text = header;
    for (int row = 0; row < kRows; ++row) {
      const int user = static_cast<int>(random() % kUsers);
      const int item = static_cast<int>(random() % kItems);
      absl::StrAppend(&text, "s", user, ",The Film ", item, ",", has_user ? user % 9 : row % 9,
                      ",kind", item % 5, ",", 1 + random() % 5, "\n");
    }
    return text;
  };
  const Files files(rows("site,movie,age,kind,rating\n", true));
  const RetrievalGuess guess = files.Guess();
  CHECK_THAT(guess.user.reason, Contains("user, 30 values"));
  CHECK(guess.user.name == "site");
  REQUIRE(Find(guess.user_features, "age") != nullptr);
  CHECK(guess.user_features.size() == 1);
  CHECK(Find(guess.features, "kind") != nullptr);
  CHECK(guess.features.size() == 1);
  CHECK_THAT(files.Split(),
             Contains(R"(user: ["site", "age"], item: ["movie", "kind"], layers: [],)"));
  CHECK(files.Cells("train.csv").front() ==
        std::vector<std::string>{"site", "age", "movie", "kind", "rating"});
  CHECK(files.Cells("out.csv").front() == std::vector<std::string>{"movie", "kind"});

  // A file of items has the items' columns. A column of rows is no feature.
  Files both(rows("site,movie,hour,kind,rating\n", false), ItemRows());
  both.options.user = "site";
  CHECK(both.Guess().user_features.empty());
  CHECK(Find(both.Guess().features, "kind") == nullptr);

  const std::string error = Files(rows("site,movie,shop,kind,rating\n", false)).Error();
  CHECK_THAT(error, Contains("name it by --user"));
}

// Returns rows of users and items with one more column.
std::string RowsWith(const std::string& header, const std::function<std::string(int)>& cell) {
  std::mt19937 random(9);
  std::string rows = absl::StrCat("user,item,", header, "\n");
  for (int row = 0; row < kRows; ++row) {
    absl::StrAppend(&rows, "u", random() % kUsers, ",i", random() % 60, ",", cell(row), "\n");
  }
  return rows;
}

std::function<std::string(int)> Cycle(std::vector<std::string> texts) {
  return [texts = std::move(texts)](int row) {
    return texts[static_cast<size_t>(row * 7 / 3) % texts.size()];
  };
}

TEST_CASE("Labels without a positive are errors", "[guess]") {
  const std::string only = GENERATE("0", "-1", "0.0", "no", "False", "dislike");
  const std::string error = Files(RowsWith("label", Cycle({only}))).Error();
  CHECK_THAT(error, Contains("column 'label': no row has a positive label"));
  CHECK_THAT(error, Contains("--label") && Contains("--positive"));
}

TEST_CASE("Numbers above a limit are positives, and zero never is", "[guess]") {
  struct Case {
    std::string name;
    std::vector<std::string> cells;
    std::string wanted;
    std::vector<std::string> positives;
  };
  const Case one =
      GENERATE(values<Case>({{"label", {"1"}, "", {"1"}},
                             {"label", {"-1", "1"}, "", {"1"}},
                             {"rating", {"1", "2", "3", "4", "5"}, "", {"4", "5"}},
                             {"rating", {"1", "2", "3", "4", "5"}, "3", {"3", "4", "5"}},
                             {"stars", {"0.5", "3.5", "4.5", "5"}, "", {"4.5", "5"}},
                             {"rating", {"-9", "-8", "-1", "0", "2"}, "", {"2"}},
                             {"rating", {"10", "40", "80", "90"}, "", {"80", "90"}},
                             {"like", {"yes", "no"}, "", {"yes"}},
                             {"label", {"like", "dislike"}, "", {"like"}},
                             {"label", {"noclick", "click"}, "", {"click"}},
                             {"label", {"read", "unread"}, "", {"read"}},
                             {"label", {"a", "b"}, "a", {"a"}},
                             {"label", {"view", "cart", "buy"}, "cart", {"cart"}}}));
  Files files(RowsWith(one.name, Cycle(one.cells)));
  files.options.positive = one.wanted;
  const RetrievalGuess guess = files.Guess();
  REQUIRE(guess.label);
  INFO(guess.label->reason);
  for (const std::string& cell : one.cells) {
    const bool is_positive = std::ranges::find(one.positives, cell) != one.positives.end();
    CHECK(guess.positives.IsPositive(cell) == std::optional(is_positive));
  }
  for (const char* const missing : {"", "nan", "NA"})
    CHECK_FALSE(guess.positives.IsPositive(missing));
}

TEST_CASE("An error about labels tells how many rows were looked at", "[guess]") {
  Files files(RowsWith("label", [](int row) { return row < 1'000 ? "0" : "1"; }));
  CHECK(files.Guess().label);
  files.options.sample_rows = 500;
  CHECK_THAT(files.Error(), Contains("all are 0") && Contains("first 500 rows (--sample"));
}

TEST_CASE("Labels of an unknown meaning need --positive", "[guess]") {
  CHECK_THAT(Files(RowsWith("label", Cycle({"blue", "red"}))).Error(),
             Contains("'blue', 'red'") && Contains("--positive"));
  CHECK_THAT(Files(RowsWith("click", Cycle({"a", "b", "c"}))).Error(), Contains("--positive"));
  Files files(RowsWith("rating", Cycle({"1", "3", "5"})));
  files.options.positive = "6";
  CHECK_THAT(files.Error(), Contains("all are below 6"));
  files.options.positive = "1";
  CHECK_THAT(files.Error(), Contains("each row would be a positive"));
  files.options.positive = "good";
  CHECK_THAT(files.Error(), Contains("numbers from 1 to 5"));
  CHECK_THAT(Files(RowsWith("click,like", Cycle({"0,1", "1,0"}))).Guess().label->name,
             Equals("click"));
  CHECK_THAT(Files(RowsWith("like,buy", Cycle({"0,1", "1,0"}))).Error(),
             Contains("choose one by --label: like, buy"));
}

TEST_CASE("Rows without a label, a user or an item are left out and counted", "[guess]") {
  std::string rows = RowsWith("label", Cycle({"0", "1", "1", "", "nan"}));
  rows += ",i3,1\nu1,,1\nu2,,1\n";
  const Files files(rows);
  files.Split();
  const RetrievalCounts& counts = files.counts;
  CHECK(counts.without_user == 1);
  CHECK(counts.without_item == 2);
  CHECK(counts.rows == kRows);
  CHECK(counts.without_label > 0);
  CHECK(counts.train + counts.validation + counts.test == counts.rows - counts.without_label);
  CHECK(counts.positives < counts.rows - counts.without_label);
}

TEST_CASE("The item is the column that is named so, or an error tells both forms of ids",
          "[guess]") {
  const auto items_of = [](const std::string& end) {
    std::string items = "item,color\n";
    for (int i = 0; i < 50; ++i) absl::StrAppend(&items, i, end, ",c", i % 5, "\n");
    return items;
  };
  const auto rows_of = [](const std::string& begin) {
    std::mt19937 random(3);
    std::string rows = "user,item,time\n";
    for (int row = 0; row < kRows; ++row) {
      absl::StrAppend(&rows, random() % 50, ",", begin, random() % 50, ",", row, "\n");
    }
    return rows;
  };
  const Files padded(rows_of("0"), items_of(""));
  CHECK_THAT(padded.Error(), Contains("column 'item' has '0") && Contains("--item"));
  const std::string error = padded.Error();
  const std::string number = error.substr(error.find(" has '0") + 7, 2);
  CHECK_THAT(error, Contains("items.csv has '" + number.substr(0, number.find('\''))));

  // Counts of texts do not tell 7.0 from 7, and the rows do.
  const Files decimal(rows_of(""), items_of(".0"));
  const RetrievalGuess guess = decimal.Guess();
  CHECK(guess.item.name == "item");
  const auto counts = SplitRetrieval(guess, decimal.options, decimal.Parts());
  CHECK_THAT(std::string(counts.status().message()),
             Contains("is not in it, and") && Contains(".0' is"));

  Files same(rows_of(""));
  same.options.user = "item";
  same.options.item = "item";
  CHECK_THAT(same.Error(), Contains("--user item: --item names the same column"));
}

TEST_CASE("Names choose between columns of users", "[guess]") {
  const RetrievalGuess guess =
      Files(RowsWith("session_id,user_age,user_id", [](int row) {
        return absl::StrCat("s", row % 400, ",", row * 7 % 50, ",x", row % 40);
      })).Guess();
  CHECK(guess.user.name == "user_id");
  REQUIRE(guess.notes.size() == 5);
  CHECK_THAT(guess.notes[0].reason, Contains("--user user"));
  CHECK_THAT(guess.notes[2].reason, Contains("--user session_id"));
}

TEST_CASE("Times that cannot be read are errors or warnings", "[guess]") {
  const std::string times = GENERATE("03:00", "Jan 02 2021", "soon");
  Files files(RowsWith("time", Cycle({times})));
  const RetrievalGuess guess = files.Guess();
  CHECK_FALSE(guess.time);
  REQUIRE(guess.warnings.size() == 1);
  CHECK_THAT(guess.warnings[0], Contains("'time' is not used") && Contains(times));
  files.options.time = "time";
  CHECK_THAT(files.Error(),
             Contains("row 1: column 'time' has '" + times + "'") && Contains("29.02.2024"));
}

TEST_CASE("Times are read in the order of day and month that the rows have", "[guess]") {
  const bool is_month_first = GENERATE(false, true);
  // Texts would order these days by the day or month.
  const auto cell = [&](int row) {
    const int day = 1 + row % 28;
    const int month = 1 + row / 28 % 12;
    return is_month_first ? absl::StrFormat("%d/%d/%d", month, day, 2015 + row / 336)
                          : absl::StrFormat("%02d.%02d.%d", day, month, 2015 + row / 336);
  };
  const Files files(RowsWith("time", cell));
  const RetrievalGuess guess = files.Guess();
  REQUIRE(guess.time);
  CHECK(guess.warnings.empty());
  CHECK(guess.times.TimeOf(cell(20)).value() < guess.times.TimeOf(cell(40)).value());
  CHECK(guess.times.TimeOf(cell(300)).value() < guess.times.TimeOf(cell(400)).value());
}

TEST_CASE("Equal times, those of two units and missing ones are told", "[guess]") {
  CHECK_THAT(Files(RowsWith("time", Cycle({"7"}))).Guess().warnings.at(0), Contains("are equal"));
  CHECK_THAT(Files(RowsWith("time",
                            [](int row) {
                              return absl::StrCat(1'600'000'000 + row, row % 2 > 0 ? "000" : "");
                            }))
                 .Guess()
                 .warnings.at(0),
             Contains("milliseconds"));
  const Files files(
      RowsWith("time", [](int row) { return row % 5 > 0 ? absl::StrCat(row) : std::string(); }));
  files.Split();
  CHECK(files.counts.without_time == kRows / 5);
}

TEST_CASE("Each column has a note, and options choose features", "[guess]") {
  const auto row = [](int row) {
    return absl::StrCat(row % 3, ",", row % 2 > 0 ? "click" : "noclick", ",", row % 7);
  };
  Files files(RowsWith("plays,action,x", row));
  const RetrievalGuess guess = files.Guess();
  CHECK_FALSE(guess.label);
  REQUIRE(guess.notes.size() == 5);
  CHECK_THAT(guess.notes[2].reason, Contains("left out") && Contains("--label plays"));
  CHECK_THAT(guess.notes[3].reason, Contains("--label action"));
  REQUIRE(guess.warnings.size() == 3);
  CHECK_THAT(guess.warnings[1], Contains("--label action"));
  const RetrievalGuess events = Files(RowsWith("event", Cycle({"view", "cart", "buy"}))).Guess();
  CHECK_THAT(events.notes[2].reason, Contains("--label event --positive buy"));
  CHECK_THAT(events.warnings.at(0), Contains("--label event"));
  const RetrievalGuess kinds = Files(RowsWith("event_type", Cycle({"a", "b", "c"}))).Guess();
  CHECK_THAT(kinds.warnings.at(0), Contains("--label event_type"));
  files.options.skip = {"plays,action,x"};
  CHECK(files.Guess().warnings.empty());
  CHECK_THAT(files.Guess().notes[2].reason, Equals("left out: --skip"));
  files.options.skip = {"none"};
  CHECK_THAT(files.Error(), Contains("--skip none"));
  files.options.skip = {"user"};
  CHECK_THAT(files.Error(), Contains("name"));

  std::mt19937 random(8);
  std::string rows = "user,movie\n";
  for (int i = 0; i < kRows; ++i) {
    absl::StrAppend(&rows, "u", random() % kUsers, ",The Film ", random() % kItems, "\n");
  }
  Files both(rows, ItemRows());
  both.options.ids = {"title"};
  both.options.dense = {"shop_id"};
  both.options.skip = {"price"};
  const RetrievalGuess chosen = both.Guess();
  CHECK(Find(chosen.features, "title") != nullptr);
  REQUIRE(Find(chosen.features, "shop_id") != nullptr);
  CHECK(Find(chosen.features, "shop_id")->quantiles == 16);
  CHECK(Find(chosen.features, "price") == nullptr);
  REQUIRE(chosen.item_notes.size() == 5);
  CHECK_THAT(chosen.item_notes[3].reason, Equals("left out: --skip"));
  both.options.dense = {"title"};
  CHECK_THAT(both.Error(), Contains("--dense title"));
}

TEST_CASE("A column of items with the name of the label keeps it", "[guess]") {
  std::string rows = "user,item\n";
  for (int row = 0; row < 90; ++row) absl::StrAppend(&rows, row % 9, ",", row * 7 % 50, "\n");
  std::string items = "item,label\n";
  for (int i = 0; i < 50; ++i) absl::StrAppend(&items, i, ",l", i % 5, "\n");
  const Files files(rows, items);
  files.Split();
  CHECK(files.Cells("train.csv").front() ==
        std::vector<std::string>{"user", "item", "label", "label_2"});
  CHECK(files.counts.items_without_rows == 0);
}

TEST_CASE("Bad weights are errors", "[guess]") {
  const std::string bad = GENERATE("-1", "heavy");
  const Files files(RowsWith("weight", [&](int row) { return row == 4 ? bad : "2"; }));
  const auto counts = SplitRetrieval(files.Guess(), files.options, files.Parts());
  CHECK_THAT(std::string(counts.status().message()),
             Contains("row 5: the weight '" + bad + "'") && Contains("--skip weight"));
}

}  // namespace
}  // namespace simurgh
