// Guesses from CSV files: columns, labels, missing values, separators, splits.

#include "data/guess/data_guess.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include <catch2/catch.hpp>

#include "config/cluster_config.h"
#include "data/guess/data_sample.h"
#include "data/guess/row_split.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/data/guessed.h"

namespace simurgh {
namespace {

using Catch::Contains;
using Kind = ColumnConfig::Kind;
using testing::ErrorOf;
using testing::Guessed;

// A file whose rows are made by number.
std::string Rows(const std::string& header, size_t rows,
                 const std::function<std::string(size_t)>& row) {
  std::string text = header + "\n";
  for (size_t i = 0; i < rows; ++i) absl::StrAppend(&text, row(i), "\n");
  return text;
}

std::vector<std::string> LinesOf(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

TEST_CASE("Columns get kinds by their cells", "[guess]") {
  std::mt19937 random(1);
  const Guessed guessed(
      Rows("constant,empty,row,id,user_id,zip,uuid,city,words,amount,count,skewed,flag,label",
           3'000, [&](size_t i) {
             const auto pick = [&](size_t n) { return random() % n; };
             std::string words = absl::StrCat("w", pick(20));
             for (size_t n = pick(4); n > 0; --n) absl::StrAppend(&words, "|w", pick(20));
             return absl::StrCat("x,,", i + 7, ",", random(), ",", pick(500), ",0", pick(9000),
                                 ",u", i * 7919, ",c", pick(50), ",", words, ",",
                                 pick(100'000) / 7.0, ",", pick(10), ",",
                                 std::exp(pick(1000) / 100.0), ",", pick(2), ",", pick(2));
           }));
  CHECK(guessed.guess.rows == 3'000);
  CHECK(guessed.guess.is_whole);
  CHECK(guessed.kind(0) == Kind::kSkip);
  CHECK(guessed.kind(1) == Kind::kSkip);
  CHECK(guessed.kind(2) == Kind::kSkip);
  CHECK(guessed[2].reason == "row numbers");
  CHECK(guessed.kind(3) == Kind::kSkip);
  CHECK(guessed.kind(4) == Kind::kId);
  CHECK(guessed.kind(5) == Kind::kId);
  CHECK(guessed.kind(6) == Kind::kSkip);
  CHECK(guessed.kind(7) == Kind::kId);
  CHECK(guessed[7].distinct == 50);
  CHECK(guessed.kind(8) == Kind::kId);
  CHECK(guessed[8].config.separator == '|');
  CHECK(guessed[8].distinct == 20);
  CHECK(guessed.kind(9) == Kind::kDense);
  CHECK(guessed[9].config.fit);
  CHECK(guessed[9].config.transform == ColumnConfig::Transform::kNone);
  CHECK(guessed[9].quantiles > 0);
  CHECK(guessed.kind(10) == Kind::kDense);
  CHECK(guessed[10].is_also_id);
  CHECK(guessed.kind(11) == Kind::kDense);
  CHECK(guessed[11].config.transform == ColumnConfig::Transform::kLog1p);
  CHECK(guessed.kind(12) == Kind::kId);
  CHECK(guessed.kind(13) == Kind::kLabel);
}

TEST_CASE("A column that begins equal and a zero-inflated one have no ranges", "[guess]") {
  // 60 % zeros: the boundaries of equal ranges would coincide.
  const Guessed guessed(Rows("a,label", 2'000, [](size_t i) {
    return absl::StrCat(i % 5 < 3 ? 0.0 : static_cast<double>(i) + 0.5, ",", i % 2);
  }));
  CHECK(guessed.kind(0) == Kind::kDense);
  CHECK(guessed[0].quantiles == 0);
  const Guessed rare(Rows("a,b,label", 2'000, [](size_t i) {
    return absl::StrCat(i < 5 ? i : 9, ",", i % 3, ",", i % 2);
  }));
  CHECK(rare.kind(0) == Kind::kSkip);
}

TEST_CASE("The label is found by its name, then by its values", "[guess]") {
  const auto text = [](const std::string& header, const char* yes, const char* no) {
    return Rows(header, 30, [&](size_t i) {
      return absl::StrCat(i % 2, ",", i % 7, ",", i % 3 == 0 ? yes : no);
    });
  };
  const Guessed named(text("Click,n,other", "1", "0"));
  CHECK(named.kind(0) == Kind::kLabel);
  CHECK(named[0].config.positive.empty());
  CHECK(named.kind(2) == Kind::kId);

  // Without a name of a label it is the only column with two values. A gender is seldom one.
  const Guessed only(text("gender,n,b", "1", "0"));
  CHECK(only.kind(0) == Kind::kId);
  CHECK(only.kind(2) == Kind::kLabel);
  CHECK(ErrorOf(text("a,n,b", "1", "0")) ==
        "a.csv: no column has the name of a label, such as click: choose the label, by one of\n"
        "  --label a  # 2 values, '0', '1'\n"
        "  --label b  # 2 values, '0', '1'");
  CHECK_THAT(
      ErrorOf(text("male,n,gender", "m", "f")),
      Contains("\n  --label male  #") && Contains("\n  --label gender  # 2 values, 'f', 'm'"));

  const Guessed asked(text("a,n,label", "1", "0"), "a");
  CHECK(asked.kind(0) == Kind::kLabel);
  CHECK(asked.kind(2) == Kind::kSkip);
  CHECK(asked[2].reason ==
        "looks like a second label; as a feature: --id label; as a task: see 'Several labels' in "
        "config/README.md");

  const auto positive = [&](const char* yes, const char* no) {
    const Guessed guessed(text("a,n,target", yes, no));
    REQUIRE(guessed.kind(2) == Kind::kLabel);
    REQUIRE(guessed[2].config.negative.size() == 1);
    return guessed[2].config.positive;
  };
  using Texts = std::vector<std::string>;
  CHECK(positive("yes", "no") == Texts{"yes"});
  CHECK(positive("No", "Yes") == Texts{"Yes"});
  CHECK(positive("True", "False") == Texts{"True"});
  CHECK(positive("false", "true") == Texts{"true"});
  CHECK(positive("-1", "1") == Texts{"1"});
  CHECK(positive("1", "2") == Texts{"2"});
  CHECK(positive("not clicked", "clicked") == Texts{"clicked"});
  CHECK(positive(">50K", "<=50K") == Texts{">50K"});  // The rarer one.
  CHECK(positive("zebra", "ape") == Texts{"zebra"});
  CHECK(positive("ape", "zebra") == Texts{"ape"});
  // 0 and 1 in other notations are numbers.
  CHECK(Guessed(text("a,n,target", "1.0", "0"))[2].config.positive.empty());
}

TEST_CASE("A label of many numbers is one of a regression", "[guess]") {
  const auto rows = [](const char* name) {
    return Rows(absl::StrCat("a,", name, ",b"), 200, [](size_t i) {
      return absl::StrCat(i % 7, ",", 0.25 * static_cast<double>(i % 90), ",", i % 3);
    });
  };
  using Values = ColumnConfig::LabelValues;
  const Guessed target(rows("target"));
  CHECK(target.kind(1) == Kind::kLabel);
  CHECK(target[1].config.label_values == Values::kNumbers);
  CHECK(target[1].config.positive.empty());
  CHECK(Guessed(rows("price"), "price")[1].config.label_values == Values::kNumbers);
  CHECK(Guessed(rows("price"), "a")[0].config.label_values == Values::kNumbers);
  // Few numbers may be classes, unless the name or an option tells.
  const auto few = [](const char* name, size_t values) {
    return Rows(absl::StrCat("a,", name, ",b"), 200,
                [&](size_t i) { return absl::StrCat(i % 7, ",", i % values + 2, ",x", i % 3); });
  };
  for (const size_t values : {3, 4}) {
    const Guessed asked(few("target", values), "target");
    CHECK(asked[1].config.label_values == Values::kNumbers);
    CHECK(Guessed(few("rating", values))[1].config.label_values == Values::kNumbers);
    CHECK(ErrorOf(few("target", values)) ==
          absl::StrCat("a.csv: column 'target' has ", values, " values, '2', '3', '4'",
                       values == 4 ? ", '5'" : "",
                       "; a label has two, such as 0 and 1, or yes and no, or at least three "
                       "numbers. Convert it, or choose the label, by one of\n"
                       "  --label a  # 7 values, '0', '1', '2', '3', '4', ...\n"
                       "  --label target  # ",
                       values, " values, '2', '3', '4'", values == 4 ? ", '5'" : ""));
  }
  // A column of texts is no choice.
  CHECK_THAT(ErrorOf(few("price", 3), "b"), Contains("column 'b' has 3 values, 'x0', 'x1', 'x2'") &&
                                                Contains("\n  --label a  #") &&
                                                !Contains("--label b"));
}

TEST_CASE("A guess from a part of the rows says so, and keeps ids that could repeat", "[guess]") {
  const auto text = [](const std::string& name) {
    return Rows(absl::StrCat(name, ",b,label"), 500, [](size_t i) {
      return absl::StrCat("u", i * 7, ",", i % 3, ",", i < 300 ? 0 : 1);
    });
  };
  CHECK(Guessed(text("user_id")).kind(0) == Kind::kSkip);
  CHECK(Guessed(text("user_id"), {.max_rows = 400}).kind(0) == Kind::kId);
  CHECK(Guessed(text("title"), {.max_rows = 400}).kind(0) == Kind::kSkip);
  const TemporaryFolder folder;
  const auto guess = GuessData(folder.Write("a.csv", text("user_id")), {.max_rows = 200});
  CHECK_THAT(
      std::string(guess.status().message()),
      Contains("a.csv: of the first 200 rows (--sample N reads more): column 'label' has one "
               "value, '0'"));
}

TEST_CASE("Texts of missing cells are found", "[guess]") {
  const Guessed guessed(Rows("city,amount,label", 900, [](size_t i) {
    return absl::StrCat(i % 9 == 0 ? "NA" : absl::StrCat("c", i % 40), ",",
                        i % 4 == 0   ? "?"
                        : i % 4 == 1 ? ""
                                     : absl::StrCat(i % 90 + 10),
                        ",", i % 2);
  }));
  CHECK(guessed.guess.missing_values == std::vector<std::string>{"", "?", "NA"});
  CHECK(guessed.kind(0) == Kind::kId);
  REQUIRE(guessed.kind(1) == Kind::kDense);
  double sum = 0;
  double count = 0;
  for (size_t i = 0; i < 900; ++i) {
    if (i % 4 < 2) continue;
    sum += static_cast<double>(i % 90 + 10);
    ++count;
  }
  CHECK(guessed[1].config.missing == Approx(sum / count));

  // Among texts, a question mark is one of them.
  const Guessed category(Rows(
      "city,label", 90, [](size_t i) { return absl::StrCat(i % 3 == 0 ? "?" : "x", ",", i % 2); }));
  CHECK(category.guess.missing_values == std::vector<std::string>{""});
  CHECK(category.kind(0) == Kind::kId);
}

TEST_CASE("Numbers are found as people write them", "[guess]") {
  struct Written {
    const char* name;
    std::function<std::string(double)> cell;
    NumberFormat format;
  };
  const auto two = [](double number) { return absl::StrFormat("%.2f", number); };
  const auto european = [&](double number) {
    std::string text = two(std::fmod(number, 1'000));
    text = absl::StrCat(std::string(6 - text.size(), '0'), text);
    text[3] = ',';
    return absl::StrCat(static_cast<int>(number / 1'000), ".", text);
  };
  const std::vector<Written> all = {
      {"plain", two, {}},
      {"comma", [](double n) { return absl::StrCat("\"", static_cast<int>(n), ",5\""); }, {',', 0}},
      {"european",
       [&](double n) { return absl::StrCat("\"", european(n + 1'000), "\""); },
       {',', '.'}},
      {"thousands",
       [](double n) {
         return absl::StrFormat("\"%d,%03d\"", static_cast<int>(n / 1'000) + 1,
                                static_cast<int>(n) % 1'000);
       },
       {'.', ','}},
      {"currency", [&](double n) { return "$" + two(n); }, {}},
      {"percent", [&](double n) { return two(n) + "%"; }, {}},
      {"plus", [&](double n) { return "+" + two(n); }, {}},
  };
  for (const Written& written : all) {
    CAPTURE(written.name);
    std::mt19937 random(5);
    const Guessed guessed(Rows("price,label", 1'000, [&](size_t i) {
      const char* const words[] = {"<NA>", "NaT", "inf", "(null)", "\u2014", "k. A."};
      const std::string cell = written.cell(static_cast<double>(random() % 900'000) / 100);
      return absl::StrCat(i % 10 == 0 ? words[i / 10 % 6] : cell, ",", i % 2);
    }));
    REQUIRE(guessed.kind(0) == Kind::kDense);
    CHECK(guessed[0].config.numbers == written.format);
    CHECK(guessed.guess.missing_values ==
          std::vector<std::string>{"", "(null)", "<NA>", "NaT", "inf", "k. A.", "\u2014"});
    CHECK_THAT(guessed[0].reason, Contains("'k. A.' means a missing one"));
  }
}

TEST_CASE("Integers that a program has rewritten stay ids", "[guess]") {
  const auto guess = [](const std::function<std::string(size_t)>& cell) {
    return Guessed(
        Rows("uid,label", 1'000, [&](size_t i) { return absl::StrCat(cell(i), ",", i % 2); }));
  };
  const Guessed floats = guess([](size_t i) { return absl::StrCat(i % 90, ".0"); });
  CHECK(floats.kind(0) == Kind::kId);
  CHECK(floats[0].config.integers);
  CHECK(floats[0].distinct == 90);
  const Guessed mangled = guess([](size_t i) {
    return i % 50 == 0 ? "1.35217E+17" : absl::StrCat(135217135789158401 + i % 90);
  });
  CHECK(mangled.kind(0) == Kind::kId);
  CHECK(mangled[0].config.integers);
  CHECK_THAT(mangled[0].reason, Contains("20 like 1.35217E+17 have lost digits and are missing"));
  const Guessed few = guess([](size_t i) { return i % 3 == 0 ? "1.0" : "2"; });
  CHECK(few[0].config.integers);
  // These are no integers.
  const Guessed versions = guess([](size_t i) { return absl::StrCat("v", i % 9, ".0"); });
  CHECK_FALSE(versions[0].config.integers);
}

TEST_CASE("Dates, Unix times, lists and vectors are found", "[guess]") {
  std::mt19937 random(9);
  const Guessed guessed(Rows("day,time,epoch,tags,names,point,label", 2'000, [&](size_t i) {
    const auto pick = [&](size_t n) { return random() % n; };
    const char* const names[] = {"New York", "Berlin", "Salt Lake City", "Los Angeles"};
    std::string tags = absl::StrCat("\"['t", pick(30), "'");
    for (size_t n = pick(5); n > 0; --n) absl::StrAppend(&tags, ", 't", pick(30), "'");
    return absl::StrCat(i % 9 == 0 ? "" : absl::StrFormat("2024-02-%02d", 1 + pick(28)), ",",
                        absl::StrFormat("2024-02-%02dT%02d:00:00Z", 1 + pick(28), pick(24)), ",",
                        1'700'000'000'000 + pick(1'000'000'000), ",", tags, "]\",", names[pick(4)],
                        " ", pick(300), ",",
                        absl::StrFormat("%.3f|%.3f", random() / 4e9, random() / 4e9), ",", pick(2));
  }));
  CHECK(guessed[0].config.date);
  CHECK_FALSE(guessed[0].has_times);
  CHECK_THAT(guessed[0].reason, Contains("dates from 2024-02-01 to 2024-02-28"));
  CHECK(guessed[0].config.missing == Approx(19'768).margin(2));  // 2024-02-15.
  CHECK(guessed[1].config.date);
  CHECK(guessed[1].has_times);
  CHECK(guessed[2].config.date);
  CHECK_THAT(guessed[2].reason, Contains("Unix times from 2023-11-14 to 2023-11-2"));
  CHECK(guessed[3].config.separator == ',');
  CHECK(guessed[3].distinct == 30);
  CHECK(guessed[4].config.separator == '\0');  // Names are no lists.
  CHECK(guessed[5].config.width == 2);
  CHECK(guessed[5].config.separator == '|');
  const std::string text = StarterConfig(guessed.guess, {.cluster = "a",
                                                         .source = "a.csv",
                                                         .train = "a.csv",
                                                         .validation = "a.csv",
                                                         .test = "a.csv",
                                                         .model = "a.model",
                                                         .train_rows = 2'000,
                                                         .has_bad_rows = false,
                                                         .ports = {1, 2, 3, 4, 5, 6}});
  const StatusOr<ClusterConfig> config =
      ParseClusterConfig(text, guessed.folder.Path("a.yaml"), {});
  INFO(config.status().ToString());
  INFO(text);
  REQUIRE(config.ok());
  for (size_t i = 0; i < config->data.columns.size(); ++i) {
    const ColumnConfig& column = config->data.columns[i];
    CHECK(column.date == guessed[i].config.date);
    CHECK(column.width == guessed[i].config.width);
    CHECK(column.separator == guessed[i].config.separator);
  }
}

TEST_CASE("Separators and names are found", "[guess]") {
  for (const char separator : {',', ';', '\t', '|'}) {
    const std::string between(1, separator);
    const Guessed guessed(
        Rows(absl::StrJoin({"user name", "\"a,b;c\"", "", "label"}, between), 40, [&](size_t i) {
          return absl::StrJoin({absl::StrCat("u", i % 5), absl::StrCat("\"x", i % 4, ",5\""),
                                absl::StrCat("x", i % 3), absl::StrCat(i % 2)},
                               between);
        }));
    CAPTURE(separator);
    CHECK(guessed.guess.separator == separator);
    REQUIRE(guessed.guess.columns.size() == 4);
    CHECK(guessed[0].config.name == "user_name");
    CHECK(guessed[1].config.name == "a_b_c");
    CHECK(guessed[2].config.name == "column_3");
    CHECK(guessed[1].distinct == 4);
  }
  // A colon separates cells if nothing else does.
  CHECK(Guessed("a:label\nx:0\ny:1\nx:1\n").guess.separator == ':');
  CHECK(Guessed("a:b,label\nx:x,0\ny:x,1\nx:x,1\n").guess.separator == ',');
  // Names can be numbers or repeat, if one is above numbers.
  const Guessed numbered(Rows("0,1,1,label", 40, [](size_t i) {
    return absl::StrCat(i % 3, ",", i % 5, ",", i % 7, ",", i % 2);
  }));
  CHECK(numbered[1].config.name == "1");
  CHECK(numbered[2].config.name == "1_2");
  // Training could not tell the two apart, nor find one without a name.
  CHECK(numbered.kind(0) == Kind::kDense);
  CHECK(numbered.kind(1) == Kind::kSkip);
  CHECK(numbered.kind(2) == Kind::kSkip);
  CHECK(numbered[2].reason == "its name is in the header twice");
  const Guessed unnamed(Rows(
      ",b,label", 40, [](size_t i) { return absl::StrCat("x", i % 3, ",y", i % 5, ",", i % 2); }));
  CHECK(unnamed.kind(0) == Kind::kSkip);
  CHECK(unnamed[0].reason == "no name");
  const Guessed twice(Rows("a b,a-b,a_b,\xc3\xa9,label", 40, [](size_t i) {
    return absl::StrCat("x", i % 3, ",y", i % 3, ",z", i % 3, ",v", i % 3, ",", i % 2);
  }));
  std::set<std::string> names;
  for (const ColumnGuess& column : twice.guess.columns) names.insert(column.config.name);
  CHECK(names == std::set<std::string>{"a_b", "a-b", "a_b_2", "column_4", "label"});
  CHECK(twice[0].config.header_name == "a b");
  CHECK(twice[1].config.header_name.empty());
  CHECK(twice[2].config.header_name == "a_b");
  CHECK(twice[3].config.header_name == "\xc3\xa9");
}

TEST_CASE("Errors name the file, the line and a remedy", "[guess]") {
  CHECK(ErrorOf("") == "a.csv: empty; give a CSV file with a header and rows");
  CHECK(ErrorOf("a,label\n") == "a.csv: no rows below the header; give some with both labels");
  CHECK_THAT(ErrorOf("label\n0\n1\n"),
             Catch::StartsWith("a.csv:1: one column; separate the cells"));
  CHECK_THAT(ErrorOf("39,0\n40,1\n"),
             Catch::StartsWith("a.csv:1: no header: the first line has the number 39"));
  CHECK_THAT(
      ErrorOf("red,yes\nblue,no\nred,yes\nred,no\n"),
      Contains("a.csv:1: no header: 2 cells of the first line are values of the rows below"));
  CHECK_THAT(ErrorOf("\na,label\nx,1\ny,0\n"), Contains("no header: the first line is empty"));
  CHECK_THAT(ErrorOf("a,a,label\nx,x,yes\ny,z,no\n"), Contains("'a' twice"));
  CHECK(ErrorOf("n,b,b\n1,0,1\n2,1,0\n3,0,1\n4,1,0\n") ==
        "a.csv: the label column has no name, or that of another; correct the header, or choose "
        "another "
        "label with --label");
  // The first row lacks a number.
  CHECK_THAT(ErrorOf("?,5,no\n39,6,yes\n40,7,no\n"), Contains("no header: the first line has"));
  CHECK_THAT(ErrorOf(std::string("a,\0b\n1,2\n", 9)),
             Contains("a.csv:1: this is no text in UTF-8"));
  CHECK_THAT(ErrorOf("a,label\n\"x,1\nz,0\n"),
             Catch::StartsWith("a.csv:2: cell 1: the quote is not closed; close it"));
  CHECK_THAT(ErrorOf("a,label\nx,1\ny,0,5\n"),
             Catch::StartsWith("a.csv:3: 3 cells, but the header has 2 columns; correct the row"));
  CHECK_THAT(
      ErrorOf("a,b\nx,u\ny,v\nz,w\n"),
      Contains("no label found, and no column has two values: add a column of 0 and 1, or of "
               "numbers"));
  CHECK(ErrorOf("rating,a,rating\n1,x,1\n2,y,2\n5,z,5\n2,y,2\n") ==
        "a.csv: the header has the label 'rating' twice; rename or remove one of them");
  CHECK_THAT(
      ErrorOf("a,label,b\nx,1,u\ny,2,v\nz,3,u\n"),
      Contains("column 'label' has 3 values, '1', '2', '3'; a label has two, such as 0 and 1, "
               "or yes and no, or at least three numbers. Convert it, or choose the "
               "label, by one of\n  --label label  # 3 values, '1', '2', '3'\n"
               "  --label b  # 2 values, 'u', 'v'"));
  CHECK_THAT(ErrorOf("a,label\nx,1\ny,1\n"), Contains("column 'label' has one value, '1'"));
  CHECK_THAT(ErrorOf("a,label\nx,1\ny,0\n", "b"),
             Contains("--label b: the header has no such column; use one of a, label"));
  CHECK_THAT(ErrorOf("a,label\nx,1\nx,0\n"), Contains("no column to learn from"));
  const StatusOr<DataGuess> absent = GuessData("/nonexistent/a.csv", {});
  CHECK(absl::IsNotFound(absent.status()));
}

// Guesses from a file of this name.
StatusOr<DataGuess> GuessOf(const std::string& name, const std::string& text) {
  const TemporaryFolder folder;
  return GuessData(folder.Write(name, text), {});
}

TEST_CASE("Formats are found by their rows", "[guess]") {
  using Format = DataConfig::Format;
  const auto format = [](const std::string& text) {
    const auto guess = GuessOf("a.txt", text);
    INFO(guess.status());
    REQUIRE(guess.ok());
    return guess->table.format;
  };
  CHECK(format("1 3:1 9:1\n-1 1:.5 # a\n\n# b\n1\n") == Format::kLibsvm);
  CHECK(format("+1 qid:3 3:1\n0 4:1\n") == Format::kLibsvm);
  CHECK(format("1 0:3:1 1:9:1\n0 0:1:1 1:9:0.5\n") == Format::kLibffm);
  std::string json;
  std::string criteo;
  for (int k = 0; k < 40; ++k) {
    absl::StrAppend(&json, "{\"a\": \"x", k % 4, "\", \"y\": ", k % 2, "}\n");
    absl::StrAppend(&criteo, k % 2);
    for (int i = 0; i < 13; ++i)
      absl::StrAppend(&criteo, "\t", i % 3 == 0 ? "" : absl::StrCat(i * k));
    for (int i = 0; i < 26; ++i)
      absl::StrAppend(&criteo, "\t", i % 5 == 0 ? "" : absl::StrCat("00ff12a", k % 8));
    criteo += "\n";
  }
  CHECK(format(json) == Format::kJson);
  CHECK(format(criteo) == Format::kCriteo);
}

TEST_CASE("JSON lines, libsvm and libffm have columns of their own", "[guess]") {
  std::string json;
  std::string ffm;
  for (int k = 0; k < 200; ++k) {
    // The key "late" is not in the first rows, and "where" is no cell.
    absl::StrAppend(&json, "{\"user\": \"u", k % 20, "\", \"tags\": [\"t", k % 5, "\"",
                    k % 3 == 0 ? "" : ", \"a|b\"", "], \"\u00fc\": ", k * 37 % 101, ".5",
                    k > 100 ? absl::StrCat(", \"late\": ", k % 7) : "",
                    ", \"where\": {\"x\": 1}, \"clicked\": ", k % 2 == 0 ? "true" : "false", "}\n");
    absl::StrAppend(&ffm, k % 2, " 0:", k % 20, ":1 2:", k % 7, ":0.5", k == 199 ? " 5:1:1" : "",
                    "\n");
  }
  const auto guess = GuessOf("a.jsonl", json);
  REQUIRE(guess.ok());
  CHECK(guess->header ==
        std::vector<std::string>{"user", "tags", "\xc3\xbc", "where", "clicked", "late"});
  const auto kind = [&](size_t column) { return guess->columns[column].config.kind; };
  CHECK(kind(0) == Kind::kId);
  CHECK(kind(1) == Kind::kId);
  CHECK(guess->columns[1].config.separator == '\0');
  CHECK(guess->columns[1].distinct == 6);
  CHECK(kind(2) == Kind::kDense);
  CHECK(guess->columns[2].config.header_name == "\xc3\xbc");
  CHECK(kind(3) == Kind::kSkip);
  CHECK(kind(4) == Kind::kLabel);
  CHECK(guess->columns[4].config.positive == std::vector<std::string>{"true"});
  CHECK(kind(5) != Kind::kSkip);

  const TemporaryFolder folder;
  GuessOptions options;
  options.max_rows = 50;
  const auto pairs = GuessData(folder.Write("a.ffm", ffm), options);
  REQUIRE(pairs.ok());
  CHECK(pairs->table.libffm_fields == 6);
  REQUIRE(pairs->columns.size() == 7);
  CHECK(pairs->columns[1].config.name == "field0");
  CHECK(pairs->columns[1].distinct == 20);
  CHECK(pairs->columns[2].config.kind == Kind::kSkip);
  const auto text = StarterConfig(
      *pairs,
      {.cluster = "a", .source = "a", .train = "a", .validation = "a", .test = "a", .model = "a"});
  CHECK_THAT(text, Contains("format: libffm") && Contains("fields: 6") && !Contains("columns:"));
}

TEST_CASE("Another file than text, or one of other rows, is refused with a remedy", "[guess]") {
  const auto error = [](const std::string& name, const std::string& text) {
    return std::string(GuessOf(name, text).status().message());
  };
  for (const char* name : {"a.parquet", "a.feather"}) {
    CHECK_THAT(error(name, "PAR1"),
               Contains("build it: scripts/bootstrap.sh --arrow") || Contains(name));
  }
  CHECK_THAT(error("a.xlsx", "PK\x03\x04"), Contains("a spreadsheet; save it as CSV"));
  CHECK_THAT(error("a.pkl", "\x80\x04"), Contains("write the rows as CSV"));
  CHECK_THAT(error("a.json", "[{\"a\": 1}]\n"), Contains("jq -c '.[]' in.json > out.jsonl"));
  CHECK_THAT(error("a.dat", "1::10::5\n2::11::4\n"), Contains("sed 's/::/\\t/g' in.dat > out.tsv"));
  CHECK_THAT(error("a.svm", "1 3:1\n2 4:1\n"), Contains("awk '{$1 = $1 == \"2\"} 1' in > out"));
  CHECK_THAT(error("a.csv", "caf\xe9,label\nx,1\ny,0\n"),
             Contains("a.csv:1: the text is not UTF-8; convert the file: iconv -f LATIN1 -t UTF-8 "
                      "in.csv > out.csv"));
  CHECK_THAT(error("a.csv", "a,label\n\xc4\xe3\xba\xc3,1\ny,0\n"),
             Contains("a.csv:2: the text is not UTF-8; convert the file: iconv -f GBK -t UTF-8"));
}

TEST_CASE("A split has each good row once, and both labels in all files", "[guess]") {
  const size_t rows = GENERATE(15, 1'003);
  const bool has_test = GENERATE(true, false);
  // One row of a thousand is bad, and every fifth is positive.
  const auto row = [](size_t i) {
    return i == 500 ? std::string("x,y,z,1")
                    : absl::StrCat("\"c,", i % 11, "\",", i, ",", i % 5 == 0 ? "yes" : "no");
  };
  const Guessed guessed(Rows("c;x,row,label", rows, row));
  const TemporaryFolder& folder = guessed.folder;
  const SplitFiles files{.train = folder.Path("train.csv"),
                         .validation = folder.Path("valid.csv"),
                         .test = has_test ? folder.Path("test.csv") : ""};
  const auto split = [&] { return SplitCsv(guessed.guess, folder.Path("a.csv"), files, 5); };
  const StatusOr<SplitCounts> counts = split();
  REQUIRE(counts.ok());
  CHECK(counts->all.bad_rows == (rows > 500 ? 1 : 0));
  CHECK(counts->all.rows + counts->all.bad_rows == rows);
  std::vector<std::string> lines = {"c;x,row,label"};
  const auto add = [&](const std::string& file, uint64_t count) {
    const std::vector<std::string> part = LinesOf(file);
    CHECK(part.size() == count + 1);
    CHECK(part.front() == "c;x,row,label");
    for (const char* label : {",yes", ",no"}) {
      CHECK(std::ranges::any_of(part, [&](const auto& line) { return line.ends_with(label); }));
    }
    lines.insert(lines.end(), part.begin() + 1, part.end());
    return part;
  };
  const auto fifth = Approx(static_cast<double>(rows) / 5).margin(2);
  add(files.train, counts->train);
  const std::vector<std::string> validation = add(files.validation, counts->validation);
  CHECK(static_cast<double>(counts->validation) == fifth);
  if (has_test) {
    add(files.test, counts->test);
    CHECK(static_cast<double>(counts->test) == fifth);
  }
  std::vector<std::string> expected = {"c;x,row,label"};
  for (size_t i = 0; i < rows; ++i) {
    if (i != 500) expected.push_back(row(i));
  }
  std::ranges::sort(lines);
  std::ranges::sort(expected);
  CHECK(lines == expected);
  REQUIRE(split().ok());
  CHECK(LinesOf(files.validation) == validation);

  // Without validation, its rows are for training.
  const SplitFiles joined{.train = folder.Path("joined.csv"), .validation = {}, .test = files.test};
  const auto less = SplitCsv(guessed.guess, folder.Path("a.csv"), joined, 5);
  REQUIRE(less.ok());
  CHECK(less->train == counts->train + counts->validation);
  CHECK(less->validation == 0);
  CHECK(LinesOf(joined.train).size() == less->train + 1);
}

TEST_CASE("Rows after those looked at are checked", "[guess]") {
  const auto text = [](size_t bad) {
    return Rows("a,label", 1'000, [&](size_t i) {
      return absl::StrCat(i > 1'000 - bad ? "x" : absl::StrCat(i * 37 % 101), ",", i % 2);
    });
  };
  const auto read = [&](size_t bad) {
    const Guessed guessed(text(bad), {.max_rows = 100});
    CHECK_FALSE(guessed.guess.is_whole);
    CHECK(guessed.kind(0) == Kind::kDense);
    return ReadGuessed(guessed.guess, guessed.folder.Path("a.csv"),
                       [](std::string_view, bool) { return absl::OkStatus(); });
  };
  CHECK(read(0)->rows == 1'000);
  const auto few = read(5);
  REQUIRE(few.ok());
  CHECK(few->bad_rows == 4);
  CHECK_THAT(few->first_bad, Contains("a.csv:998: column 'a': 'x' is no number, unlike those of"));
  CHECK(absl::IsInvalidArgument(read(50).status()));
}

TEST_CASE("The configuration is valid, for any names and texts", "[guess]") {
  const Guessed guessed(Rows("y,no,1st,\"say \"\"hi\"\"\",target", 60, [](size_t i) {
    return absl::StrCat("\"a\\b", i % 3, "\",\"say \"\"", i % 3, "\"\" # x: y\",", i % 9, ",",
                        i % 8 * 0.5, ",", i % 2 == 0 ? "\"it's\"" : "\"it: {isn't}\"");
  }));
  const std::string text = StarterConfig(guessed.guess, {.cluster = "a",
                                                         .source = "a.csv",
                                                         .train = "a.csv",
                                                         .validation = "a.csv",
                                                         .test = "a.csv",
                                                         .model = "a.model",
                                                         .train_rows = 60,
                                                         .has_bad_rows = true,
                                                         .ports = {1, 2, 3, 4, 5, 6}});
  const StatusOr<ClusterConfig> config =
      ParseClusterConfig(text, guessed.folder.Path("a.yaml"), {});
  INFO(config.status().ToString());
  INFO(text);
  REQUIRE(config.ok());
  CHECK(config->data.columns.size() == guessed.guess.columns.size());
  for (size_t i = 0; i < config->data.columns.size(); ++i) {
    const ColumnConfig& column = config->data.columns[i];
    CHECK(column.name == guessed[i].config.name);
    CHECK(column.kind == guessed.kind(i));
    CHECK(column.positive == guessed[i].config.positive);
    CHECK(column.negative == guessed[i].config.negative);
  }
  // New categories of later rows get rows, too.
  CHECK(config->features[0].processing.vocabulary.empty());
  CHECK(config->data.on_bad_row == DataConfig::OnBadRow::kSkip);
  CHECK(config->embedding_ps.instances[0].address == "127.0.0.1:1");
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::StartsWith(line, "  - ")) CHECK(line.size() <= 100);
  }
}

TEST_CASE("Optimizers and rates follow the number of training rows", "[guess]") {
  using Optimizer = SparseOptimizerConfig::Kind;
  const auto [rows, kind, rate, weight_rate, dense_rate] =
      GENERATE(table<uint64_t, Optimizer, float, float, float>({
          {9'999, Optimizer::kAdagrad, 0.025F, 0.05F, 0.0005F},
          {10'000, Optimizer::kAdam, 0.005F, 0.1F, 0.001F},
          {49'999, Optimizer::kAdam, 0.005F, 0.1F, 0.001F},
          {50'000, Optimizer::kAdagrad, 0.05F, 0.1F, 0.001F},
          {90, Optimizer::kAdam, 0.003F, 0.1F, 0.001F},  // Less than ten rows per value.
      }));
  CAPTURE(rows);
  const Guessed guessed(
      Rows("site,label", 60, [](size_t i) { return absl::StrCat("s", i % 10, ",", i % 2); }));
  const std::string text = StarterConfig(guessed.guess, {.cluster = "a",
                                                         .source = "a.csv",
                                                         .train = "a.csv",
                                                         .validation = "a.csv",
                                                         .test = "a.csv",
                                                         .model = "a.model",
                                                         .train_rows = rows,
                                                         .has_bad_rows = false,
                                                         .ports = {1, 2, 3, 4, 5, 6}});
  const StatusOr<ClusterConfig> config =
      ParseClusterConfig(text, guessed.folder.Path("a.yaml"), {});
  INFO(config.status().ToString());
  REQUIRE(config.ok());
  REQUIRE(config->tables.size() == 2);
  CHECK(config->tables[0].optimizer.kind == kind);
  CHECK(config->tables[0].optimizer.learning_rate == rate);
  CHECK(config->tables[1].optimizer.kind == Optimizer::kFtrl);
  CHECK(config->tables[1].optimizer.learning_rate == weight_rate);
  CHECK(config->training.dense_optimizer.learning_rate == dense_rate);
}

TEST_CASE("Rare ids of few rows let the dense rate fall", "[guess]") {
  struct Case {
    uint64_t rows;
    size_t sites;
    bool falls;
  };
  const auto one = GENERATE(Case{1'999, 500, false}, Case{2'000, 500, true}, Case{2'000, 20, false},
                            Case{49'999, 6'000, true}, Case{50'000, 6'000, false});
  CAPTURE(one.rows, one.sites);
  const Guessed guessed(Rows("site,label", 12'000, [&](size_t i) {
    return absl::StrCat("s", i % one.sites, ",", i % 2);
  }));
  const std::string text = StarterConfig(guessed.guess, {.cluster = "a",
                                                         .source = "a.csv",
                                                         .train = "a.csv",
                                                         .validation = "a.csv",
                                                         .test = "a.csv",
                                                         .model = "a.model",
                                                         .train_rows = one.rows,
                                                         .has_bad_rows = false,
                                                         .ports = {1, 2, 3, 4, 5, 6}});
  const StatusOr<ClusterConfig> config =
      ParseClusterConfig(text, guessed.folder.Path("a.yaml"), {});
  INFO(config.status().ToString());
  REQUIRE(config.ok());
  const LearningRateSchedule& schedule = config->training.dense_optimizer.schedule;
  REQUIRE((schedule.kind == LearningRateSchedule::Kind::kExponential) == one.falls);
  if (!one.falls) return;
  CHECK(schedule.decay_steps == one.rows / config->training.batch_size);
  CHECK(schedule.decay_factor == 0.5F);
  CHECK(schedule.end_factor == 0.2F);
}

TEST_CASE("Distinct texts are counted, and numbers have moments", "[guess]") {
  for (const size_t count : {1, 100, 4'096, 20'000, 300'000}) {
    DistinctCounter counter;
    for (size_t i = 0; i < count * 2; ++i) counter.Add(absl::StrCat("text ", i % count));
    CAPTURE(count);
    if (count <= DistinctCounter::kExact) CHECK(counter.count() == count);
    CHECK(static_cast<double>(counter.count()) == Approx(static_cast<double>(count)).epsilon(0.06));
  }
  // Two passes.
  std::mt19937 random(3);
  std::lognormal_distribution<double> numbers(0, 0.7);
  std::vector<double> values;
  ColumnProfile profile;
  for (int i = 0; i < 1'000; ++i) {
    const std::string text = absl::StrCat(numbers(random));
    values.push_back(std::stod(text));
    profile.Add(text);
  }
  double mean = 0;
  for (const double value : values) mean += value / 1'000;
  double squares = 0;
  double cubes = 0;
  for (const double value : values) {
    squares += std::pow(value - mean, 2) / 1'000;
    cubes += std::pow(value - mean, 3) / 1'000;
  }
  CHECK(profile.moments.mean() == Approx(mean));
  CHECK(profile.skewness() == Approx(cubes / std::pow(squares, 1.5)));
}

}  // namespace
}  // namespace simurgh
