#include <cmath>
#include <limits>

#include <catch2/catch.hpp>

#include "config/diagnostics.h"
#include "config/map_reader.h"

namespace simurgh {

using std::chrono::milliseconds;

TEST_CASE("Unsigned integers", "[config]") {
  uint64_t value = 0;
  CHECK(ParseUnsigned("18446744073709551615", &value) == NumberFault::kNone);
  CHECK(value == std::numeric_limits<uint64_t>::max());
  CHECK(ParseUnsigned("007", &value) == NumberFault::kNone);
  CHECK(value == 7);
  for (const char* text : {"-1", "18446744073709551616", "99999999999999999999999"}) {
    CHECK(ParseUnsigned(text, &value) == NumberFault::kOutOfRange);
  }
  for (const char* text : {"", "-", "+1", "1.0", "1e3", "0x10", " 1", "1 ", "1_000", "--1"}) {
    CHECK(ParseUnsigned(text, &value) == NumberFault::kNotANumber);
  }
}

TEST_CASE("Floats read back as they are written", "[config]") {
  for (const float number : {0.0F, 1.0F, -0.01F, 1e-10F, 1.0F / 3.0F, 3.4e38F, 1.2e-38F}) {
    float value = -1.0F;
    REQUIRE(ParseNumber(FormatNumber(number), &value) == NumberFault::kNone);
    CHECK(value == number);
  }
  for (const double number :
       {0.0, -0.01, 1.0 / 3.0, 16'777'217.0, 1'600'000'000.5, 1e39, 1.7e308}) {
    double value = -1.0;
    REQUIRE(ParseNumber(FormatNumber(number), &value) == NumberFault::kNone);
    CHECK(value == number);
    CHECK(ParseNumber("1e309", &value) == NumberFault::kOutOfRange);
  }
  float value = 0.0F;
  CHECK(FormatNumber(0.01F) == "0.01");
  CHECK(ParseNumber("1e39", &value) == NumberFault::kOutOfRange);
  CHECK(ParseNumber("1e-60", &value) == NumberFault::kOutOfRange);
  for (const char* text : {"", "nan", "inf", "-inf", "1,5", "0x1p3", "1e", "+1", "1f", "."}) {
    INFO(text);
    CHECK(ParseNumber(text, &value) == NumberFault::kNotANumber);
  }
}

TEST_CASE("Durations", "[config]") {
  CHECK(ParseDuration("50us") == std::chrono::microseconds(50));
  CHECK(ParseDuration("500ms") == milliseconds(500));
  CHECK(ParseDuration("10s") == milliseconds(10'000));
  CHECK(ParseDuration("2m") == milliseconds(120'000));
  for (const char* text : {"", "5", "ms", "1.5s", "-1s", "1 s", "1h", "1S", "9999999999999s"}) {
    INFO(text);
    CHECK_FALSE(ParseDuration(text).has_value());
  }
  for (const char* text : {"50us", "1ms", "1500ms", "90s", "2m", "61s"}) {
    CHECK(FormatDuration(*ParseDuration(text)) == text);
  }
}

TEST_CASE("Names", "[config]") {
  CHECK(IsName("a"));
  CHECK(IsName("Hours-per_week2"));
  CHECK(IsName(std::string(63, 'x')));
  for (const std::string& text :
       {std::string(), std::string(64, 'x'), std::string("a b"), std::string("a.b"),
        std::string("\xc3\xa4"), std::string("a\0", 2)}) {
    CHECK_FALSE(IsName(text));
  }
}

TEST_CASE("The nearest word by edits, the first of equals", "[config]") {
  CHECK(Nearest("batchsize", {"epochs", "batch_size", "staleness"}) == "batch_size");
  CHECK(Nearest("b", {"ab", "bc", "b"}) == "b");
  CHECK(Nearest("abx", {"aby", "abz"}) == "aby");
  CHECK(Nearest("kitten", {"sitting", "mitten"}) == "mitten");
  CHECK(Nearest("TRAINING", {"cluster", "training"}) == "training");
  CHECK(Nearest("nosuch", {"rpc"}).empty());
  CHECK(Nearest("x", {}).empty());
}

TEST_CASE("The remedy of a name that resembles no known one lists these", "[config]") {
  CHECK(NearestRemedy("table", "itme", {"city", "item"}) == "the nearest table is 'item'");
  CHECK(NearestRemedy("table", "nope", {"city", "item"}) == "use one of city, item");
  CHECK(NearestRemedy("table", "nope", std::vector<std::string>(13, "a")) ==
        "use one of a, a, a, a, a, a, a, a, a, a, a, a, ...");
  CHECK(NearestRemedy("table", "nope", {}) == "there is no table");
}

}  // namespace simurgh
