// How cells are written: numbers, integers as ids, dates, lists and vectors.

#include <cmath>
#include <cstdlib>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "base/random.h"
#include "data/processing/feature_ids.h"
#include "data/processing/numbers.h"
#include "data/processing/times.h"
#include "data/reading/csv_cells.h"
#include "data/reading/row_batcher.h"
#include "tests/unit/data/reader_test_support.h"

namespace simurgh {
namespace {

using Kind = ColumnConfig::Kind;
using Texts = std::vector<std::string>;

TEST_CASE("Numbers may have signs, currencies and percent signs", "[cells]") {
  const std::vector<std::pair<std::string, double>> good = {
      {"3.71", 3.71},  {"+3.71", 3.71},  {"-3", -3},         {"+2e3", 2'000},
      {"$3.50", 3.5},  {"-$3.50", -3.5}, {"$-3.50", -3.5},   {"3.50 \u20ac", 3.5},
      {"\u20ac3", 3},  {"\u00a35", 5},   {"12.5%", 12.5},    {"12.5 %", 12.5},
      {"(3.5)", -3.5}, {"\u22125", -5},  {"USD 7", 7},       {"7\u00a0EUR", 7},
      {".5", 0.5},     {"5.", 5},        {"($1.25)", -1.25}, {"+.5", 0.5},
      {"1e-400", 0},   {"-1e-400", 0}};
  for (const auto& [text, number] : good) {
    CAPTURE(text);
    REQUIRE(ParseNumberCell(text));
    CHECK(*ParseNumberCell(text) == number);
  }
  for (const char* const text :
       {"",      "+",    "$",          "%",     "+-3",   "--3",   "3+",   "1,299", "2,8",
        "1.2.3", "(-3)", "nan",        "inf",   "+inf",  "1e999", "0x10", "$$3",   "3%%",
        "$3%",   "u3",   "2024-01-31", "10:20", "1 299", "e5",    "$",    "1e"}) {
    CAPTURE(text);
    CHECK_FALSE(ParseNumberCell(text));
  }
}

TEST_CASE("Numbers have the decimals and groups of their column", "[cells]") {
  const NumberFormat comma{',', '\0'};
  const NumberFormat european{',', '.'};
  const NumberFormat english{'.', ','};
  const NumberFormat french{',', ' '};
  const NumberFormat swiss{'.', '\''};
  CHECK(ParseNumberCell("2,8", comma) == 2.8);
  CHECK(ParseNumberCell("-1234,5", comma) == -1234.5);
  CHECK(ParseNumberCell("1.299,99", european) == 1299.99);
  CHECK(ParseNumberCell("1.299", european) == 1299.0);
  CHECK(ParseNumberCell("12.345.678", european) == 12'345'678.0);
  CHECK(ParseNumberCell("2,800", english) == 2'800.0);
  CHECK(ParseNumberCell("$1,234,567.5", english) == 1'234'567.5);
  CHECK(ParseNumberCell("345", english) == 345.0);
  CHECK(ParseNumberCell("12345", english) == 12'345.0);
  CHECK(ParseNumberCell("1 299,5 \u20ac", french) == 1299.5);
  CHECK(ParseNumberCell("1\u202f299\u00a0000", french) == 1'299'000.0);
  CHECK(ParseNumberCell("1'299.5", swiss) == 1299.5);
  CHECK(ParseNumberCell("1\u2019299", swiss) == 1299.0);
  // A group has three digits, and the first is not 0.
  CHECK_FALSE(ParseNumberCell("2.8", comma));
  CHECK_FALSE(ParseNumberCell("2.8", european));
  CHECK_FALSE(ParseNumberCell("2,80", english));
  CHECK_FALSE(ParseNumberCell("1234,567", english));
  CHECK_FALSE(ParseNumberCell("0,345", english));
  CHECK_FALSE(ParseNumberCell("1,299,99", english));
  // As the C library writes random numbers, with other signs.
  Random random(7);
  for (int i = 0; i < 2'000; ++i) {
    const double number =
        std::round((random.Uniform() - 0.5) * std::pow(10, random.Uniform() * 12)) / 100;
    char digits[64];
    snprintf(digits, sizeof(digits), "%.2f", std::abs(number));
    std::string text(digits);
    for (size_t end = text.find('.'); end > 3; end -= 3) text.insert(end - 3, 1, '#');
    for (char& c : text) c = c == '.' ? ',' : c == '#' ? '.' : c;
    if (number < 0) text.insert(0, 1, '-');
    CAPTURE(text);
    CHECK(ParseNumberCell(text, european) ==
          std::strtod(absl::StrCat(number < 0 ? "-" : "", digits).c_str(), nullptr));
  }
}

TEST_CASE("Ids of integers have one text", "[cells]") {
  const auto text = [](const char* cell) {
    return std::string(IntegerText(cell).value_or("lost"));
  };
  CHECK(text("3") == "3");
  CHECK(text("3.0") == "3");
  CHECK(text("-3.00") == "-3");
  CHECK(text("3.") == "3");
  CHECK(text("007") == "007");
  CHECK(text("18446744073709551615.0") == "18446744073709551615");
  CHECK(text("9007199254740993") == "9007199254740993");
  CHECK(text("1.35217E+17") == "lost");
  CHECK(text("1e17") == "lost");
  for (const char* const other : {"", "3.5", "u3.0", "-", ".0", "1.0.0", "3.0a", "1e", "3 .0"}) {
    CHECK(text(other) == other);
  }
}

TEST_CASE("Dates are days, as the C library has them", "[cells]") {
  Random random(11);
  for (int i = 0; i < 2'000; ++i) {
    const auto seconds = static_cast<time_t>((random.Uniform() - 0.2) * 5e9);
    tm parts;
    gmtime_r(&seconds, &parts);
    char text[64];
    strftime(text, sizeof(text),
             random.Uniform() < 0.5 ? "%Y-%m-%d %H:%M:%S" : "%Y/%m/%dT%H:%M:%SZ", &parts);
    CAPTURE(text);
    const auto days = ParseDateCell(text);
    REQUIRE(days);
    CHECK(*days == Approx(static_cast<double>(seconds) / 86'400).epsilon(1e-14));
    CHECK(HourOf(*days) == parts.tm_hour);
    CHECK(WeekdayOf(*days) == (parts.tm_wday + 6) % 7);
  }
  const double day = 19'753;  // 2024-01-31, a Wednesday.
  CHECK(ParseDateCell("2024-01-31") == day);
  CHECK(ParseDateCell("20240131") == day);
  CHECK(ParseDateCell("2024-01-31 06:00") == day + 0.25);
  CHECK(ParseDateCell("2024-01-31T23:30:00+05:30") == day + 0.75);
  CHECK(ParseDateCell("2024-01-31 18:00:00.000 +00:00") == day + 0.75);
  CHECK(ParseDateCell("1706659200") == day);
  CHECK(ParseDateCell("1706659200.0") == day);
  CHECK(ParseDateCell("1706659200000") == day);
  CHECK(ParseDateCell("1706659200000000") == day);
  CHECK(ParseDateCell("1706659200000000000") == day);
  CHECK(WeekdayOf(day) == 2);
  CHECK(HourOf(*ParseDateCell("2024-01-31 23:59:59.9")) == 23);
  for (const char* const text : {"", "2024-02-30", "2024-13-01", "0000-00-00", "2024-01-31 25:00",
                                 "2024-01-31x", "31.01.2024", "2024-01", "2024-01-31 10:20 XYZ"}) {
    CAPTURE(text);
    CHECK_FALSE(ParseDateCell(text));
  }
}

Texts ValuesOf(std::string_view cell, char separator) {
  Texts values;
  ForEachValue(cell, separator, [&](std::string_view value) { values.emplace_back(value); });
  return values;
}

TEST_CASE("Lists may be those of Python, NumPy and JSON", "[cells]") {
  CHECK(ValuesOf("34^23", '^') == Texts{"34", "23"});
  CHECK(ValuesOf("34,23 , 1", ',') == Texts{"34", "23", "1"});
  CHECK(ValuesOf("34\x01"
                 "23",
                 '\x01') == Texts{"34", "23"});
  CHECK(ValuesOf("[34, 23, 1]", ',') == Texts{"34", "23", "1"});
  CHECK(ValuesOf("[34]", ',') == Texts{"34"});
  CHECK(ValuesOf("[]", ',').empty());
  CHECK(ValuesOf("[ ]", ',').empty());
  CHECK(ValuesOf("(1, 2)", ',') == Texts{"1", "2"});
  CHECK(ValuesOf(R"(["i34", "a,b", "c\"d"])", ',') == Texts{"i34", "a,b", R"(c\"d)"});
  CHECK(ValuesOf("['i34','it''s']", ',') == Texts{"i34", "it", "s"});
  CHECK(ValuesOf("[34 23\n   1]", ' ') == Texts{"34", "23", "1"});
  CHECK(ValuesOf("['a' 'b']", ' ') == Texts{"a", "b"});
  // Other separators have no brackets.
  CHECK(ValuesOf("[a]|[b]", '|') == Texts{"[a]", "[b]"});
  CHECK(ValuesOf("[a, b", ',') == Texts{"[a", "b"});
  for (const char* const text : {"[\"", "['", "[\"a\\", "[", "]", "[,]", "[\"a\"b]"}) {
    for (const char separator : {',', ' '}) ValuesOf(text, separator);
  }
}

struct Parsed {
  std::vector<float> dense;
  std::vector<std::vector<uint64_t>> ids;
};

// Parses one row.
StatusOr<Parsed> Parse(const DataConfig& config, const std::vector<FeatureConfig>& features,
                       const std::string& line) {
  SIMURGH_ASSIGN_OR_RETURN(RowBatcher batcher,
                           RowBatcher::Create(config, features, /*ignore_labels=*/true));
  SIMURGH_RETURN_IF_ERROR(batcher.AddLine(line));
  SIMURGH_ASSIGN_OR_RETURN(const Batch batch, batcher.Build());
  Parsed parsed{.dense = batch.dense.values, .ids = {}};
  for (size_t f = 0; f < features.size(); ++f) {
    const FeatureView view = batch.sparse->feature(f);
    auto& ids = parsed.ids.emplace_back();
    for (const uint32_t occurrence : view.sample(0)) ids.push_back(view.ids[occurrence]);
  }
  return parsed;
}

TEST_CASE("Columns are read as they are written", "[cells]") {
  DataConfig config;
  config.csv.separator = ';';
  ColumnConfig user = Column("user", Kind::kId);
  user.integers = true;
  ColumnConfig price = Column("price", Kind::kDense);
  price.numbers = {',', '.'};
  ColumnConfig time = Column("time", Kind::kDense);
  time.date = true;
  ColumnConfig vector = Column("vector", Kind::kDense);
  vector.width = 3;
  vector.separator = ',';
  ColumnConfig seen = Column("seen", Kind::kId);
  seen.separator = ',';
  seen.integers = true;
  config.columns = {Column("label", Kind::kLabel), user, price, vector, seen, time};
  FeatureConfig hour = Feature("hour");
  hour.column = "time";
  hour.processing.date = ProcessingConfig::Date::kHour;
  FeatureConfig weekday = hour;
  weekday.name = "weekday";
  weekday.processing.date = ProcessingConfig::Date::kWeekday;
  FeatureConfig range = Feature("range");
  range.column = "price";
  range.processing.boundaries = {1'000, 2'000};
  const std::vector<FeatureConfig> features = {Feature("user"), Feature("seen"), hour, weekday,
                                               range};
  const auto hash = [](const char* text) { return HashText(text, 0); };
  const auto row =
      Parse(config, features, "3.0;1.299,99;[0.5, -1, 2e-1];[7, 8.0];2024-01-31 18:00");
  REQUIRE(row.ok());
  CHECK(row->dense == std::vector<float>{1299.99F, 0.5F, -1.0F, 0.2F, 19753.75F});
  CHECK(row->ids ==
        std::vector<std::vector<uint64_t>>{{hash("3")}, {hash("7"), hash("8")}, {18}, {2}, {1}});
  const auto missing = Parse(config, features, "1.35E+17;;;;");
  REQUIRE(missing.ok());
  CHECK(missing->dense == std::vector<float>(5, 0.0F));
  CHECK(missing->ids == std::vector<std::vector<uint64_t>>(5));
  const auto error = [&](const char* line) {
    const auto parsed = Parse(config, features, line);
    return parsed.ok() ? "ok" : std::string(parsed.status().message());
  };
  CHECK(error("3;2.8;1,2,3;7;2024-01-31") ==
        "column 'price': '2.8' is not a finite number; correct it, or add it to "
        "data.missing_values");
  CHECK(error("3;2,8;1,2;7;2024-01-31") ==
        "column 'vector': '1,2' has 2 numbers, not the 3 of its width; correct one of them");
  CHECK(error("3;2,8;1,x,3;7;2024-01-31") ==
        "column 'vector': 'x' is not a finite number; correct it");
  CHECK(error("3;2,8;1,2,3;7;31.01.2024") ==
        "column 'time': '31.01.2024' is not a date, such as 2024-01-31 10:20, nor a Unix time; "
        "correct it, or add it to data.missing_values");
}

TEST_CASE("Of several labels, some may be missing", "[cells]") {
  DataConfig config;
  config.missing_values = {"", "-1"};
  ColumnConfig bought = Column("bought", Kind::kLabel);
  bought.positive = {"yes"};
  config.columns = {Column("click", Kind::kLabel), bought, Column("user", Kind::kId)};
  const auto labels = [&](const std::string& line) -> StatusOr<std::vector<float>> {
    SIMURGH_ASSIGN_OR_RETURN(RowBatcher batcher, RowBatcher::Create(config, {Feature("user")},
                                                                    /*ignore_labels=*/false));
    SIMURGH_RETURN_IF_ERROR(batcher.AddLine(line));
    SIMURGH_ASSIGN_OR_RETURN(const Batch batch, batcher.Build());
    return batch.dense.labels;
  };
  CHECK(*labels("1,yes,u") == std::vector<float>{1, 1});
  CHECK(*labels("0,no,u") == std::vector<float>{0, 0});
  const auto without_second = labels("1,,u");
  REQUIRE(without_second.ok());
  CHECK(without_second->front() == 1);
  CHECK(std::isnan(without_second->back()));
  const auto without_first = labels("-1,yes,u");
  REQUIRE(without_first.ok());
  CHECK(std::isnan(without_first->front()));
  CHECK(without_first->back() == 1);
  CHECK(labels(",-1,u").status().message() ==
        "all labels are missing; correct one, or remove the row");
  CHECK_FALSE(labels("2,yes,u").ok());
  // One label must be there.
  config.columns.erase(config.columns.begin() + 1);
  CHECK_FALSE(labels(",u").ok());
  CHECK_FALSE(labels("-1,u").ok());
}

}  // namespace
}  // namespace simurgh
