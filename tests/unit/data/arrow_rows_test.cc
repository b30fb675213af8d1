// Cells of Arrow arrays made by hand, without Arrow.

#include "data/reading/arrow_rows.h"

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "data/processing/feature_ids.h"
#include "tests/support/arrow_arrays.h"
#include "tests/unit/data/reader_test_support.h"

namespace simurgh {
namespace {

using testing::BytesOf;
using testing::HandMade;
using Kind = ColumnConfig::Kind;

HandMade Rows(int64_t rows, std::vector<HandMade> columns) {
  return {
      .format = "+s", .length = rows, .buffers = {std::nullopt}, .children = std::move(columns)};
}

template <typename Struct>
ArrowOwner<Struct> Owned(const HandMade& made) {
  ArrowOwner<Struct> owner;
  *owner.get() = testing::Export<Struct>(made);
  return owner;
}

// A cell as text: "-" if it is missing, "#" before numbers, "[a b]" of lists, "*2" after weights.
std::string Shown(const Cell& cell) {
  switch (cell.kind) {
    case Cell::Kind::kMissing:
      return "-";
    case Cell::Kind::kText:
      return std::string(cell.text);
    case Cell::Kind::kNumber:
      return absl::StrCat("#", cell.number);
    case Cell::Kind::kList:
      break;
  }
  std::string text = "[";
  for (size_t i = 0; i < cell.list.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : " ", std::string(cell.list[i]));
    if (!cell.weights.empty()) absl::StrAppend(&text, "*", cell.weights[i]);
  }
  return text + "]";
}

// The cells of one column, in all rows.
StatusOr<std::vector<std::string>> Read(const HandMade& column, const ColumnConfig& config) {
  const HandMade rows = Rows(column.length, {column});
  SIMURGH_ASSIGN_OR_RETURN(ArrowRows reader,
                           ArrowRows::Create(*Owned<ArrowSchema>(rows).get(), {config}));
  const auto batch = std::make_shared<const ArrowOwner<ArrowArray>>(Owned<ArrowArray>(rows));
  SIMURGH_RETURN_IF_ERROR(reader.Take(batch, 0, static_cast<size_t>(batch->get()->length)));
  std::vector<std::string> shown;
  Cell cell;
  Cell* const cells[] = {&cell};
  for (size_t row = 0; row < reader.rows(); ++row) {
    SIMURGH_RETURN_IF_ERROR(reader.Read(row, cells));
    shown.push_back(Shown(cell));
  }
  return shown;
}

StatusOr<std::vector<std::string>> Read(const HandMade& column, Kind kind = Kind::kId) {
  return Read(column, Column("x", kind));
}

using Texts = std::vector<std::string>;

template <typename Number>
HandMade Numbers(const char* format, const std::vector<Number>& numbers) {
  return {.format = format,
          .length = static_cast<int64_t>(numbers.size()),
          .buffers = {std::nullopt, BytesOf(numbers)}};
}

HandMade Strings(const std::vector<int32_t>& offsets, const std::string& bytes) {
  return {.format = "u",
          .length = static_cast<int64_t>(offsets.size()) - 1,
          .buffers = {std::nullopt, BytesOf(offsets), bytes}};
}

template <typename Number>
void CheckIntegers(const char* format) {
  const std::vector<Number> numbers{0, 7, std::numeric_limits<Number>::min(),
                                    std::numeric_limits<Number>::max()};
  CAPTURE(format);
  Texts texts, as_numbers;
  for (const Number number : numbers) {
    texts.push_back(std::to_string(number));
    // A double does not hold larger integers, which can also be ids: they stay texts.
    const bool is_large = std::abs(static_cast<double>(number)) > 0x1p53;
    as_numbers.push_back(is_large ? std::to_string(number)
                                  : absl::StrCat("#", static_cast<double>(number)));
  }
  CHECK(Read(Numbers(format, numbers)).value() == texts);
  CHECK(Read(Numbers(format, numbers), Kind::kDense).value() == as_numbers);
}

TEST_CASE("Floats that are integers have the ids of integers") {
  const std::vector<double> numbers{100'000, 1e15, 9'007'199'254'740'992, -3, 0.5};
  CHECK(Read(Numbers("g", numbers)).value() ==
        Texts{"100000", "1000000000000000", "9007199254740992", "-3", "0.5"});
  CHECK(Read(Numbers("f", std::vector<float>{100'000, 0.1F})).value() == Texts{"100000", "0.1"});
}

TEST_CASE("Half floats and decimals are numbers, or ids") {
  const HandMade halves = Numbers("e", std::vector<uint16_t>{0x3c00, 0xc100, 0x7e00, 0x3555});
  CHECK(Read(halves, Kind::kDense).value() == Texts{"#1", "#-2.5", "-", "#0.333252"});
  CHECK(Read(halves).value() == Texts{"1", "-2.5", "-", "0.333251953125"});
  // 128 bits, the low ones first.
  const auto decimals = [](const char* format) {
    return HandMade{
        .format = format,
        .length = 3,
        .buffers = {std::nullopt, BytesOf(std::vector<uint64_t>{150, 0, ~uint64_t{4}, ~uint64_t{0},
                                                                12'345'678'901'234'567'890U, 0})}};
  };
  CHECK(Read(decimals("d:20,2"), Kind::kDense).value() == Texts{"#1.5", "#-0.05", "#1.23457e+17"});
  CHECK(Read(decimals("d:20,0")).value() == Texts{"150", "-5", "12345678901234567890"});
  CHECK(Read(decimals("d:20,0"), Kind::kDense).value() ==
        Texts{"#150", "#-5", "12345678901234567890"});
  CHECK(Read(decimals("d:20,2")).value().front() == "1.5");
  CHECK(Read(Numbers("d:9,1,32", std::vector<int32_t>{-25, 30})).value() == Texts{"-2.5", "3"});
  CHECK(Read(Numbers("d:18,1,64", std::vector<int64_t>{-25, 30}), Kind::kDense).value() ==
        Texts{"#-2.5", "#3"});
  const Status refused = Read(Numbers("d:76,2,256", std::vector<int64_t>{1})).status();
  CHECK(refused.message() ==
        "column 'x': has the Arrow type decimal of more than 128 bits ('d:76,2,256'), which is not "
        "read; cast it to integers, floats, strings or lists");
}

TEST_CASE("Times of a column of dates are seconds, and lists of a wide one its numbers") {
  ColumnConfig date = Column("x", Kind::kDense);
  date.date = true;
  CHECK(Read(Numbers("tdD", std::vector<int32_t>{1, 20}), date).value() ==
        Texts{"#86400", "#1.728e+06"});
  CHECK(Read(Numbers("tsm:", std::vector<int64_t>{5'000}), date).value() == Texts{"#5"});
  CHECK(Read(Numbers("l", std::vector<int64_t>{5'000}), date).value() == Texts{"#5000"});
  const HandMade lists{.format = "+l",
                       .length = 2,
                       .buffers = {std::nullopt, BytesOf(std::vector<int32_t>{0, 2, 4})},
                       .children = {Numbers("f", std::vector<float>{0.5F, -1, 2, 0.1F})}};
  ColumnConfig vectors = Column("x", Kind::kDense);
  vectors.width = 2;
  CHECK(Read(lists, vectors).value() == Texts{"[0.5 -1]", "[2 0.1]"});
  CHECK(Read(lists, Kind::kDense).status().message() ==
        "column 'x': it has lists, but is no id column; give it kind: id or, for vectors of "
        "numbers, the width");
}

TEST_CASE("Integers of every width are decimal texts or numbers") {
  CheckIntegers<int8_t>("c");
  CheckIntegers<uint8_t>("C");
  CheckIntegers<int16_t>("s");
  CheckIntegers<uint16_t>("S");
  CheckIntegers<int32_t>("i");
  CheckIntegers<uint32_t>("I");
  CheckIntegers<int64_t>("l");
  CheckIntegers<uint64_t>("L");
  CheckIntegers<int32_t>("tdD");
  CheckIntegers<int64_t>("tsu:Europe/Oslo");
}

TEST_CASE("Floats are numbers, or the shortest texts of ids; no number is missing") {
  const std::vector<double> numbers{0.1, 7.0, std::nan(""), -2.5e300};
  CHECK(Read(Numbers("g", numbers)).value() == Texts{"0.1", "7", "-", "-2.5e+300"});
  CHECK(Read(Numbers("g", numbers), Kind::kDense).value() ==
        Texts{"#0.1", "#7", "-", "#-2.5e+300"});
  CHECK(Read(Numbers("f", std::vector<float>{0.1F, 8.0F})).value() == Texts{"0.1", "8"});
}

TEST_CASE("Booleans are 0 and 1, and bits of validity make cells missing") {
  HandMade bits{.format = "b", .length = 4, .buffers = {"\x0b", "\x0e"}};
  CHECK(Read(bits).value() == Texts{"0", "1", "-", "1"});
  CHECK(Read(bits, Kind::kLabel).value() == Texts{"#0", "#1", "-", "#1"});
  bits.offset = 1;
  bits.length = 3;
  CHECK(Read(bits).value() == Texts{"1", "-", "1"});
  CHECK(Read({.format = "n", .length = 2}).value() == Texts{"-", "-"});
}

TEST_CASE("Texts of every layout") {
  CHECK(Read(Strings({0, 2, 2, 5}, "abcde")).value() == Texts{"ab", "", "cde"});
  CHECK(Read({.format = "Z",
              .length = 2,
              .buffers = {std::nullopt, BytesOf<int64_t>({1, 3, 4}), "xabc"}})
            .value() == Texts{"ab", "c"});
  CHECK(Read({.format = "w:3", .length = 2, .buffers = {std::nullopt, "abcdef"}}).value() ==
        Texts{"abc", "def"});
  // Texts of up to 12 bytes are in the view itself.
  const std::string first = BytesOf<int32_t>({3}) + "abc" + std::string(9, '\0');
  const std::string second = BytesOf<int32_t>({14}) + "0123" + BytesOf<int32_t>({0, 2});
  CHECK(
      Read({.format = "vu",
            .length = 2,
            .buffers = {std::nullopt, first + second, "..0123456789abcd", BytesOf<int64_t>({16})}})
          .value() == Texts{"abc", "0123456789abcd"});
}

TEST_CASE("Dictionaries, also of integers, with missing places and values") {
  HandMade places = Numbers("C", std::vector<uint8_t>{2, 0, 1, 0});
  places.buffers[0] = "\x07";
  places.dictionary = {Strings({0, 1, 2, 3}, "abc")};
  CHECK(Read(places).value() == Texts{"c", "a", "b", "-"});
  places.dictionary = {Numbers("l", std::vector<int64_t>{10, 20, 30})};
  places.dictionary[0].buffers[0] = "\x05";
  CHECK(Read(places).value() == Texts{"30", "10", "-", "-"});
  CHECK(Read(places, Kind::kDense).value() == Texts{"#30", "#10", "-", "-"});
}

HandMade Lists(const std::vector<int32_t>& offsets, HandMade values) {
  return {.format = "+l",
          .length = static_cast<int64_t>(offsets.size()) - 1,
          .buffers = {std::nullopt, BytesOf(offsets)},
          .children = {std::move(values)}};
}

TEST_CASE("Lists leave out missing values; a missing list is a missing cell") {
  HandMade numbers = Numbers("l", std::vector<int64_t>{5, -6, 7, 8});
  numbers.buffers[0] = "\x0b";
  HandMade lists = Lists({0, 2, 2, 4}, numbers);
  CHECK(Read(lists).value() == Texts{"[5 -6]", "[]", "[8]"});
  lists.buffers[0] = "\x05";
  CHECK(Read(lists).value() == Texts{"[5 -6]", "-", "[8]"});
  lists.offset = 1;
  lists.length = 2;
  CHECK(Read(lists).value() == Texts{"-", "[8]"});
  CHECK(Read({.format = "+L",
              .length = 1,
              .buffers = {std::nullopt, BytesOf<int64_t>({1, 3})},
              .children = {Strings({0, 1, 2, 3}, "abc")}})
            .value() == Texts{"[b c]"});
  CHECK(Read({.format = "+w:2", .length = 2, .buffers = {std::nullopt}, .children = {numbers}})
            .value() == Texts{"[5 -6]", "[8]"});
}

TEST_CASE("Hashed ids of lists keep their blanks, as cells of lists do") {
  const HandMade rows = Rows(2, {Lists({0, 2, 3}, Strings({0, 1, 4, 6}, "a b\nc "))});
  ArrowRows reader =
      ArrowRows::Create(*Owned<ArrowSchema>(rows).get(), {Column("x", Kind::kId)}).value();
  REQUIRE(reader.CanHash(0));
  HashedDictionaries dictionaries(1);
  reader.Hash(0, /*seed=*/7, {""}, dictionaries);
  const auto batch = std::make_shared<const ArrowOwner<ArrowArray>>(Owned<ArrowArray>(rows));
  REQUIRE(reader.Take(batch, 0, 2) == absl::OkStatus());
  CHECK(reader.Hashes(0).hashes ==
        std::vector<uint64_t>{HashText("a", 7), HashText(" b\n", 7), HashText("c ", 7)});
  CHECK(reader.Hashes(0).ends == std::vector<uint32_t>{2, 3});
}

TEST_CASE("Structs of two are values and weights") {
  HandMade weights = Numbers("f", std::vector<float>{0.5F, 2.0F, 3.0F});
  weights.buffers[0] = "\x03";
  HandMade structs{.format = "+s",
                   .length = 3,
                   .buffers = {std::nullopt},
                   .children = {Strings({0, 1, 2, 3}, "abc"), weights}};
  CHECK(Read(Lists({0, 1, 3}, structs)).value() == Texts{"[a*0.5]", "[b*2 c*1]"});
  structs.buffers[0] = "\x05";
  CHECK(Read(Lists({0, 1, 3}, structs)).value() == Texts{"[a*0.5]", "[c*1]"});
  structs.buffers[0] = std::nullopt;
  structs.offset = 1;
  structs.length = 2;
  CHECK(Read(Lists({0, 2}, structs)).value() == Texts{"[b*2 c*1]"});
}

std::string ErrorOf(const HandMade& column, Kind kind = Kind::kId) {
  const Status status = Read(column, kind).status();
  REQUIRE_FALSE(status.ok());
  CHECK(status.message().find("column 'x'") == 0);
  return std::string(status.message());
}

TEST_CASE("Types that are not read are refused with the remedy") {
  using Catch::Contains;
  for (const char* format : {"d:76,2,256", "d:x", "d:10", "+r", "", "+vl", "w:x", "tiM"}) {
    CAPTURE(format);
    CHECK_THAT(ErrorOf({.format = format}), Contains("is not read; cast it to"));
  }
  const HandMade lists = Lists({0}, Numbers("l", std::vector<int64_t>{}));
  CHECK_THAT(ErrorOf(lists, Kind::kDense), Contains("give it kind: id"));
  CHECK_THAT(ErrorOf(Lists({0}, lists)), Contains("is not read"));
}

TEST_CASE("Counts, offsets and places beyond an array are errors") {
  using Catch::Contains;
  CHECK_THAT(ErrorOf(Strings({0, 3, 2}, "ab")), Contains("do not ascend"));
  CHECK_THAT(ErrorOf(Strings({-1, 2}, "ab")), Contains("do not ascend"));
  HandMade places = Numbers("c", std::vector<int8_t>{0, 3});
  places.dictionary = {Strings({0, 1, 2, 3}, "abc")};
  CHECK_THAT(ErrorOf(places), Contains("outside of its dictionary"));
  places.buffers[1] = BytesOf<int8_t>({0, -1});
  CHECK_THAT(ErrorOf(places), Contains("outside of its dictionary"));
  const HandMade numbers = Numbers("l", std::vector<int64_t>{1, 2});
  CHECK_THAT(ErrorOf(Lists({0, 3}, numbers)), Contains("do not ascend"));
  CHECK_THAT(ErrorOf(Lists({1, 0}, numbers)), Contains("do not ascend"));
  CHECK_THAT(ErrorOf({.format = "l", .length = 1, .buffers = {std::nullopt}}), Contains("buffers"));
  CHECK_THAT(ErrorOf({.format = "l", .length = 1, .buffers = {std::nullopt, std::nullopt}}),
             Contains("a buffer is missing"));
  HandMade negative = numbers;
  negative.offset = -1;
  CHECK_THAT(ErrorOf(negative), Contains("rows"));
  const std::string view = BytesOf<int32_t>({20}) + "0123" + BytesOf<int32_t>({0, 0});
  CHECK_THAT(ErrorOf({.format = "vu",
                      .length = 1,
                      .buffers = {std::nullopt, view, "0123456789", BytesOf<int64_t>({10})}}),
             Contains("outside of its buffer"));
}

TEST_CASE("Columns are found by name; a missing one names the nearest") {
  DataConfig config;
  config.format = DataConfig::Format::kParquet;
  config.columns = {Column("y", Kind::kLabel), Column("city", Kind::kId), Column("z", Kind::kSkip)};
  config.columns[1].header_name = "town";
  const auto find = [&](const std::vector<std::string>& names, bool needs_labels = true) {
    HandMade schema{.format = "+s"};
    for (const std::string& name : names) schema.children.push_back({.format = "l", .name = name});
    return FindArrowColumns(config, *Owned<ArrowSchema>(schema).get(), needs_labels);
  };
  constexpr size_t kAbsent = FileColumns::kAbsent;
  CHECK(find({"town", "more", "y"}).value() == std::vector<size_t>{2, 0, kAbsent});
  CHECK(find({"town"}, false).value() == std::vector<size_t>{kAbsent, 0, kAbsent});
  CHECK_THAT(std::string(find({"y", "tovn"}).status().message()),
             Catch::Contains("no column 'town'; the nearest column is 'tovn'"));
  CHECK_THAT(std::string(find({"y", "town", "town"}).status().message()),
             Catch::Contains("column 'town' is there twice"));
  CHECK_FALSE(FindArrowColumns(config, *Owned<ArrowSchema>({.format = "l"}).get(), true).ok());
}

}  // namespace
}  // namespace simurgh
