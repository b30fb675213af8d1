// Users, items and their columns in files of interactions: roles, histories, the written parts.

#include "data/guess/retrieval_guess.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <tuple>
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

  // Writes the parts and a valid configuration, which it returns.
  std::string Split() const {
    const RetrievalGuess guess = Guess();
    const RetrievalFiles files{.train = folder.Path("train.csv"),
                               .validation = folder.Path("valid.csv"),
                               .test = folder.Path("test.csv"),
                               .items = folder.Path("out.csv")};
    const StatusOr<RetrievalCounts> counts = SplitRetrieval(guess, options, files);
    INFO(counts.status().ToString());
    REQUIRE(counts.ok());
    std::string yaml = RetrievalConfig(guess, *counts, files, "shop", "rows.csv", "model");
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

}  // namespace
}  // namespace simurgh
