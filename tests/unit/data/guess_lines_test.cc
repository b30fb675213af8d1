// What init says of a column, and options that choose the label.

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include <catch2/catch.hpp>

#include "data/guess/data_guess.h"
#include "data/guess/label_texts.h"
#include "data/guess/row_split.h"
#include "data/processing/numbers.h"
#include "data/processing/times.h"
#include "tests/support/temporary_folder.h"

namespace simurgh {
namespace {

using Catch::Contains;
using Catch::EndsWith;

// A file of a column and a label that is 1 in every fourth row.
template <typename Cell>
std::string TextOf(const char* name, size_t rows, const Cell& cell) {
  std::string text = absl::StrCat(name, ",item,Click\n");
  for (size_t i = 0; i < rows; ++i) {
    absl::StrAppend(&text, cell(i), ",i", i % 7, ",", i % 4 == 0 ? "like" : "dislike", "\n");
  }
  return text;
}

StatusOr<DataGuess> GuessOf(const std::string& text, const GuessOptions& options = {}) {
  const TemporaryFolder folder;
  return GuessData(folder.Write("a.csv", text), options);
}

template <typename Cell>
std::string ReasonOf(const Cell& cell) {
  const StatusOr<DataGuess> guess = GuessOf(TextOf("column", 1'000, cell));
  REQUIRE(guess.ok());
  return guess->columns[0].reason;
}

TEST_CASE("A day above 12 decides the order of dates", "[guess]") {
  const auto guess_of = [](const char* format, int days, int months) {
    const auto parsed = absl::ParsedFormat<'d', 'd', 'd'>::New(format);
    const StatusOr<DataGuess> guess = GuessOf(TextOf("column", 1'000, [&](size_t i) {
      const int n = static_cast<int>(i / 4);  // Without influence on the label.
      return absl::StrFormat(*parsed, n % days + 1, n / 3 % months + 1, 2010 + n % 9);
    }));
    REQUIRE(guess.ok());
    return guess->columns[0];
  };
  const auto order_of = [&](const char* format, int days, int months) {
    const ColumnGuess guess = guess_of(format, days, months);
    CHECK(guess.config.kind == ColumnConfig::Kind::kDense);
    CHECK(guess.config.date);
    return guess.config.date_order;
  };
  CHECK(order_of("%02d.%02d.%d", 28, 12) == DateOrder::kDayFirst);
  CHECK(order_of("%d/%d/%d 9:05", 28, 12) == DateOrder::kDayFirst);
  CHECK(order_of("%02d/%02d/%d 01:05 PM", 12, 28) == DateOrder::kMonthFirst);
  CHECK(guess_of("%d.%d.%d", 28, 12).reason ==
        "dates, the day first, from 2010-01-01 to 2018-12-24, as days; also the day of the week");
  CHECK(guess_of("%02d-%02d-%d 18:45:59", 12, 28).has_times);
  const ColumnGuess either = guess_of("%02d/%02d/%d", 12, 12);
  CHECK(either.config.kind == ColumnConfig::Kind::kId);
  CHECK_THAT(
      either.reason,
      EndsWith(
          "; looks like dates, but no day above 12 tells the order; convert them to YYYY-MM-DD"));
  for (const char* format : {"%d/%d/%d", "%d of %d in %d"}) {
    CHECK(guess_of(format, 28, 28).config.kind == ColumnConfig::Kind::kId);
  }
}

TEST_CASE("Dates are read in the order of their column", "[guess]") {
  // Reference: date -ud '2019-12-31 18:03' +%s
  constexpr double kSeconds = 1'577'815'380;
  for (const char* text : {"31.12.2019 18:03", "31/12/2019 18:03:00", "31-12-2019 6:03 PM",
                           "31.12.2019 06:03pm", "2019-12-31 18:03"}) {
    CAPTURE(text);
    CHECK(ParseTimeCell(text, DateOrder::kDayFirst) == kSeconds);
    CHECK(ParseDateCell(text, DateOrder::kDayFirst) == kSeconds / 86'400);
  }
  CHECK(ParseTimeCell("12/31/2019 06:03 PM", DateOrder::kMonthFirst) == kSeconds);
  CHECK(ParseTimeCell("1/2/2019", DateOrder::kDayFirst) == 1'548'979'200);
  CHECK(ParseTimeCell("1/2/2019", DateOrder::kMonthFirst) == 1'546'387'200);
  CHECK(ParseTimeCell("1/2/2019 12:00 AM", DateOrder::kMonthFirst) == 1'546'387'200);
  CHECK(ParseTimeCell("1/2/2019 12:30 PM", DateOrder::kMonthFirst) == 1'546'387'200 + 45'000);
  CHECK_FALSE(ParseTimeCell("12/31/2019", DateOrder::kDayFirst));
  for (const char* text : {"31.12.2019", "30.02.2019", "1.1.19", "1.1/2019", "1.1.2019 13:00 PM",
                           "1.1.2019 0:30 AM", "1..2019", "1.1.2019 1:00 X"}) {
    CAPTURE(text);
    CHECK_FALSE(ParseTimeCell(text));
    if (std::string_view(text) != "31.12.2019") {
      CHECK_FALSE(ParseTimeCell(text, DateOrder::kDayFirst));
    }
  }
}

TEST_CASE("The share of missing cells is said if it is large", "[guess]") {
  const auto reason = [](size_t percent) {
    return ReasonOf(
        [=](size_t i) { return i % 100 < percent ? std::string() : absl::StrCat("c", i % 9); });
  };
  CHECK_THAT(reason(12), EndsWith("; 12 % are missing"));
  CHECK_THAT(reason(5), !Contains("missing"));
}

TEST_CASE("Options choose the label in any case, and its positive text", "[guess]") {
  const std::string text = TextOf("a", 400, [](size_t i) { return absl::StrCat("c", i % 5); });
  const auto label = [&](const GuessOptions& options) {
    const StatusOr<DataGuess> guess = GuessOf(text, options);
    REQUIRE(guess.ok());
    // A quarter is positive, or three.
    CHECK(guess->constant_loss == Approx(-0.25 * std::log(0.25) - 0.75 * std::log(0.75)));
    return guess->label().config;
  };
  CHECK(label({}).positive == std::vector<std::string>{"like"});
  CHECK(label({.label = "click"}).header_name.empty());
  const ColumnConfig other = label({.label = "CLICK", .positive = "dislike"});
  CHECK(other.name == "Click");
  CHECK(other.positive == std::vector<std::string>{"dislike"});
  CHECK(other.negative == std::vector<std::string>{"like"});
  const auto wrong = GuessOf(text, {.positive = "love"});
  CHECK_THAT(std::string(wrong.status().message()),
             EndsWith("--positive love: the label has 2 values, 'dislike', 'like'; name one of two "
                      "values"));
}

TEST_CASE("Rows of separators only are blank", "[guess]") {
  std::string text = TextOf("a", 100, [](size_t i) { return absl::StrCat("c", i % 5); });
  for (int i = 0; i < 50; ++i) text += ",,\n";
  const TemporaryFolder folder;
  const std::string path = folder.Write("a.csv", text);
  const StatusOr<DataGuess> guess = GuessData(path, {});
  REQUIRE(guess.ok());
  CHECK(guess->rows == 100);
  SplitFiles files = PartsOf(*guess, path, folder.path());
  const StatusOr<SplitCounts> counts = SplitData(*guess, path, files);
  REQUIRE(counts.ok());
  CHECK(counts->all.rows == 100);
  CHECK(counts->all.bad_rows == 0);
}

TEST_CASE("Texts of labels that are numbers are compared as numbers", "[guess]") {
  const std::vector<std::string> texts = {"4", "4.5", "5", "yes"};
  for (const char* cell : {"4", "4.0", "4.50", "5.0", "05", "yes", "+5"}) {
    CAPTURE(cell);
    CHECK(IsAmong(cell, texts, {}));
  }
  for (const char* cell : {"", "4.1", "Yes", "4x", "-4", "3.9999"}) {
    CAPTURE(cell);
    CHECK_FALSE(IsAmong(cell, texts, {}));
  }
  CHECK(IsAmong("4,0", texts, {.decimal = ','}));
  CHECK_FALSE(IsAmong("4.0", {}, {}));
}

TEST_CASE("A text of a label that no row has is named", "[guess]") {
  const TemporaryFolder folder;
  std::string text = "item,rating\n";
  for (int i = 0; i < 60; ++i) absl::StrAppend(&text, "i", i % 7, ",", i % 5, ".0\n");
  DataConfig data{.train = {folder.Write("a.csv", text)}};
  data.columns = {{.name = "item", .kind = ColumnConfig::Kind::kId},
                  {.name = "rating", .kind = ColumnConfig::Kind::kLabel}};
  CHECK(UnusedLabelTexts(data).empty());
  data.columns[1].positive = {"3", "4", "5"};
  data.columns[1].negative = {"0", "1.0", "two"};
  CHECK(UnusedLabelTexts(data) ==
        std::vector<std::string>{
            "label 'rating': '5' of `positive` is in none of the 60 rows that were looked at. "
            "Correct it, or remove it",
            "label 'rating': 'two' of `negative` is in none of the 60 rows that were looked at. "
            "Correct it, or remove it"});
  data.train.push_back(folder.Write("b.csv", "item,rating\ni1,5\ni2,two\ni3,0\n"));
  CHECK(UnusedLabelTexts(data).empty());
}

TEST_CASE("The text of a label decides before its number", "[guess]") {
  const ColumnConfig label{.positive = {"01"}, .negative = {"1"}};
  CHECK(IsPositive("01", label) == true);
  CHECK(IsPositive("1", label) == false);
  CHECK(IsPositive("1.0", label) == true);
  CHECK_FALSE(IsPositive("2", label).has_value());
}

}  // namespace
}  // namespace simurgh
