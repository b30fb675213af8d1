#include "report/segments.h"

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "base/random.h"

namespace simurgh {
namespace {

std::vector<PredictionSums> SumsOf(float label, float prediction) {
  std::vector<PredictionSums> sums(1);
  sums[0].Add(LossConfig(), label, prediction);
  return sums;
}

TEST_CASE("Each value of a column is a segment, with its sums") {
  SegmentCounter counter("site", {});
  for (int i = 0; i < 30; ++i) {
    counter.Add(i % 3 == 0 ? "a" : i % 5 == 0 ? "" : "b", SumsOf(i % 2 == 0 ? 1 : 0, 0.25F), i);
  }
  const std::vector<Segment> segments = counter.Finish(10);
  REQUIRE(segments.size() == 3);
  CHECK(segments[0].name == "b");
  CHECK(segments[0].rows == 16);
  CHECK(segments[1].name == "a");
  CHECK(segments[1].rows == 10);
  CHECK(segments[1].sums[0].labels == 5);
  CHECK(segments[1].sums[0].predicted == Approx(2.5));
  CHECK(segments[2].name == "(empty)");
  CHECK(counter.SegmentOf(0) == 1);
  CHECK(counter.SegmentOf(1) == 0);
  CHECK(counter.SegmentOf(5) == 2);
  CHECK_FALSE(counter.has_dropped());
}

TEST_CASE("Segments beyond the shown ones are the rest") {
  SegmentCounter counter("site", {});
  for (int i = 0; i < 100; ++i) {
    counter.Add(absl::StrCat(i < 60 ? i % 2 : i), SumsOf(1, 0.5F), static_cast<size_t>(i));
  }
  const std::vector<Segment> segments = counter.Finish(2);
  REQUIRE(segments.size() == 3);
  CHECK(segments[0].rows == 30);
  CHECK(segments[1].rows == 30);
  CHECK(segments[2].is_rest);
  CHECK(segments[2].rows == 40);
  CHECK(segments[2].sums[0].samples == 40);
  CHECK(counter.SegmentOf(99) == 2);
}

TEST_CASE("Frequent values survive any number of rare ones") {
  SegmentCounter counter("user", {.most_values = 64});
  Random random(1);
  std::map<std::string, uint64_t> counts;
  constexpr size_t kSample = 1'000;
  std::vector<std::string> sampled(kSample);
  for (size_t row = 0; row < 200'000; ++row) {
    const bool is_frequent = random.Uniform() < 0.5;
    const std::string value =
        is_frequent ? absl::StrCat("often", random.Below(5)) : absl::StrCat("rare", row);
    ++counts[value];
    const size_t place = row % kSample;
    sampled[place] = value;
    counter.Add(value, SumsOf(1, 0.5F), place);
  }
  const std::vector<Segment> segments = counter.Finish(5);
  REQUIRE(segments.size() == 6);
  CHECK(counter.has_dropped());
  uint64_t rows = 0;
  for (size_t i = 0; i < 5; ++i) {
    CHECK(segments[i].name.starts_with("often"));
    CHECK(segments[i].rows == counts[segments[i].name]);
    CHECK(segments[i].sums[0].samples == static_cast<double>(segments[i].rows));
    rows += segments[i].rows;
  }
  CHECK(segments[5].is_rest);
  CHECK(rows + segments[5].rows == 200'000);
  for (size_t place = 0; place < kSample; ++place) {
    const size_t segment = counter.SegmentOf(place);
    CHECK((segment == 5 ? "rare" : segments[segment].name) ==
          (sampled[place].starts_with("rare") ? "rare" : sampled[place]));
  }
}

TEST_CASE("Numbers of segments that are forgotten do not change the others") {
  SegmentCounter counter("user", {.most_values = 4'096});
  // More values than are remembered.
  constexpr size_t kValues = (size_t{1} << 20) + 100'000;
  counter.Add("often", SumsOf(1, 0.5F), 0);
  for (size_t i = 0; i < 10; ++i) counter.Add("often", SumsOf(1, 0.5F), std::nullopt);
  counter.Add("once", SumsOf(1, 0.5F), 1);
  for (size_t i = 0; i < kValues; ++i) counter.Add(absl::StrCat(i), SumsOf(0, 0.5F), std::nullopt);
  const std::vector<Segment> segments = counter.Finish(1);
  REQUIRE(segments.size() == 2);
  CHECK(segments[0].name == "often");
  CHECK(segments[0].rows == 11);
  CHECK(segments[1].rows == kValues + 1);
  CHECK(counter.SegmentOf(0) == 0);
  CHECK(counter.SegmentOf(1) == 1);
}

TEST_CASE("Many numbers become ranges with about equal numbers of rows") {
  SegmentCounter counter("age", {.most_values = 100, .are_numbers = true});
  Random random(2);
  std::vector<double> ages;
  for (size_t row = 0; row < 8'000; ++row) {
    ages.push_back(static_cast<double>(random.Below(100'000)) / 1'000);
    counter.Add(absl::StrCat(ages.back()), SumsOf(1, 0.5F), row);
  }
  counter.Add("unknown", SumsOf(1, 0.5F), std::nullopt);
  const std::vector<Segment> segments = counter.Finish(20);
  REQUIRE(segments.size() == 9);
  uint64_t rows = 0;
  for (size_t i = 0; i < 8; ++i) {
    CHECK(segments[i].rows > 300);
    CHECK(segments[i].rows < 2'500);
    rows += segments[i].rows;
  }
  CHECK(rows == 8'000);
  CHECK(segments[0].name.starts_with("below "));
  CHECK(segments[7].name.starts_with("from "));
  CHECK(segments[8].name == "no number");
  // Segments of the sample are in the order of the numbers.
  for (size_t row = 1; row < ages.size(); ++row) {
    if (ages[row] < ages[row - 1]) CHECK(counter.SegmentOf(row) <= counter.SegmentOf(row - 1));
  }
}

TEST_CASE("A few numbers stay values") {
  SegmentCounter counter("children", {.most_values = 100, .are_numbers = true});
  for (int i = 0; i < 100; ++i) counter.Add(absl::StrCat(i % 4), SumsOf(1, 0.5F), std::nullopt);
  const std::vector<Segment> segments = counter.Finish(20);
  REQUIRE(segments.size() == 4);
  CHECK(segments[0].rows == 25);
}

TEST_CASE("A column with too many values is given up unless it is wanted") {
  SegmentCounter counter("user", {.most_values = 50, .gives_up = true});
  for (int i = 0; i < 50; ++i) counter.Add(absl::StrCat(i), SumsOf(1, 0.5F), 0);
  CHECK_FALSE(counter.has_given_up());
  counter.Add("50", SumsOf(1, 0.5F), 0);
  CHECK(counter.has_given_up());
  CHECK(counter.Finish(10).empty());
}

}  // namespace
}  // namespace simurgh
