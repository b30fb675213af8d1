// Rows that repeat one another: in the split, and in the guesses.

#include <algorithm>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "data/guess/data_guess.h"
#include "data/guess/row_split.h"
#include "tests/support/temporary_folder.h"

namespace simurgh {
namespace {

std::string TextOf(const std::string& header, const std::vector<std::string>& rows) {
  std::string text = header + "\n";
  for (const std::string& row : rows) absl::StrAppend(&text, row, "\n");
  return text;
}

struct Split {
  Split(const std::string& header, const std::vector<std::string>& rows) {
    const std::string path = folder.Write("a.csv", TextOf(header, rows));
    const StatusOr<DataGuess> found = GuessData(path, {});
    REQUIRE(found.ok());
    guess = *found;
    SplitFiles files = PartsOf(guess, path, folder.path());
    const StatusOr<SplitCounts> split = SplitData(guess, path, files);
    REQUIRE(split.ok());
    counts = *split;
    for (const std::string& name : {files.train, files.validation, files.test}) {
      std::ifstream file(name);
      std::string line;
      std::getline(file, line);
      while (std::getline(file, line)) ++rows_of[line][name];
    }
  }
  // Different rows that are in more than one part.
  size_t shared() const {
    return static_cast<size_t>(
        std::ranges::count_if(rows_of, [](const auto& entry) { return entry.second.size() > 1; }));
  }

  TemporaryFolder folder;
  DataGuess guess;
  SplitCounts counts;
  std::map<std::string, std::map<std::string, uint64_t>> rows_of;  // By row and file.
};

TEST_CASE("Copies of a row are in one part", "[guess]") {
  constexpr uint64_t kRows = 3'000;
  std::mt19937 random(2);
  std::vector<std::string> rows;
  for (uint64_t i = 0; i < kRows; ++i) {
    const std::string row = absl::StrCat(random() % 90, ",", random() % 700, ",",
                                         random() % 100'000, ",", random() % 2);
    rows.insert(rows.end(), i < kRows / 2 ? 2 : 1, row);
  }
  std::ranges::shuffle(rows, random);
  const Split split("user,item,price,click", rows);
  CHECK(split.guess.has_copies);
  CHECK(split.counts.copies == rows.size() - split.rows_of.size());
  CHECK(split.counts.copies >= kRows / 2);
  CHECK(split.shared() == 0);
  CHECK(split.counts.all.rows == rows.size());
  const auto fifth = Approx(static_cast<double>(rows.size()) / 5).epsilon(0.05);
  CHECK(static_cast<double>(split.counts.test) == fifth);
  CHECK(static_cast<double>(split.counts.validation) == fifth);
}

TEST_CASE("Rows of few values with random labels are no copies", "[guess]") {
  std::mt19937 random(3);
  std::vector<std::string> rows;
  for (size_t i = 0; i < 2'000; ++i) {
    rows.push_back(absl::StrCat("s", random() % 5, ",a", random() % 4, ",", random() % 2));
  }
  const Split split("site,ad,click", rows);
  CHECK_FALSE(split.guess.has_copies);
  CHECK(split.counts.copies == 0);
  CHECK(split.shared() == split.rows_of.size());
  CHECK(split.counts.test == Approx(400).margin(1));
}

TEST_CASE("Copies of a few rows are in all parts", "[guess]") {
  std::vector<std::string> rows;
  for (size_t i = 0; i < 200; ++i) {
    rows.push_back(absl::StrCat("s", i % 4, ",a", i % 6, ",", i % 4 < 2 ? 1 : 0));
  }
  const Split split("site,ad,click", rows);
  CHECK(split.guess.has_copies);
  CHECK(split.counts.copies == 0);
  CHECK(split.counts.test == 40);
  CHECK(split.counts.validation == 40);
}

TEST_CASE("A list that was written as rows is found", "[guess]") {
  std::mt19937 random(4);
  std::vector<std::string> spread;
  std::vector<std::string> of_users;
  std::vector<std::string> of_choices;
  for (size_t user = 0; user < 60; ++user) {
    for (size_t i = 0; i < 40; ++i) {
      const uint64_t item = (user * 7 + i * 11) % 500;
      const uint64_t rating = random() % 5 + 1;
      const uint64_t genres = item % 3 + 1;
      for (uint64_t g = 0; g < genres; ++g) {
        spread.push_back(absl::StrCat("u", user, ",i", item, ",g", (item + g) % 17, ",", rating));
      }
      of_users.push_back(absl::StrCat("u", user, ",i", item, ",", rating));
      // First those that a user chose, then others.
      of_choices.push_back(absl::StrCat("u", user, ",i", item, ",", i < 10 ? 1 : 0));
    }
  }
  const auto column = [](const std::string& header, const std::vector<std::string>& rows) {
    const TemporaryFolder folder;
    const StatusOr<DataGuess> guess = GuessData(folder.Write("a.csv", TextOf(header, rows)), {});
    REQUIRE(guess.ok());
    return guess->spread_column;
  };
  CHECK(column("user,item,genre,rating", spread) == "genre");
  CHECK(column("user,item,rating", of_users).empty());
  CHECK(column("user,item,click", of_choices).empty());
}

}  // namespace
}  // namespace simurgh
