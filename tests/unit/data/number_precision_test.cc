// Numbers that differ by less than the precision of a float, such as timestamps, keep all 53 bits
// from the cell to the bucket and to the scaled value.

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "data/processing/numbers.h"
#include "tests/unit/data/data_files.h"
#include "tests/unit/data/reader_test_support.h"

namespace simurgh {
namespace {

using Kind = ColumnConfig::Kind;
using Ids = std::vector<uint64_t>;
constexpr double kShift = 1.6e9;  // Seconds until 2020; floats are 128 apart there.
constexpr uint64_t kSeeds = 50;

// y,x.
DataConfig Example() {
  DataConfig config;
  config.columns = {Column("y", Kind::kLabel), Column("x", Kind::kDense)};
  return config;
}

FeatureConfig Bucketised(std::vector<double> boundaries) {
  FeatureConfig feature = Feature("x");
  feature.processing.boundaries = std::move(boundaries);
  return feature;
}

// Multiples of a half, which a double holds far beyond kShift.
std::vector<double> Halves(Random& random, size_t count) {
  std::vector<double> numbers(count);
  for (double& number : numbers) number = static_cast<double>(random.Below(200)) / 2 - 50;
  return numbers;
}

std::vector<double> Shifted(std::vector<double> numbers) {
  for (double& number : numbers) number += kShift;
  return numbers;
}

std::string Rows(const std::vector<double>& numbers) {
  std::string text;
  for (const double number : numbers) text += "1," + std::to_string(number) + "\n";
  return text;
}

std::vector<ReadSample> Read(const DataConfig& config, const std::vector<FeatureConfig>& features,
                             const std::vector<double>& numbers) {
  const TemporaryFolder folder;
  auto samples = ReadSamples(config, features, {folder.Write("a.csv", Rows(numbers))}, 1'000);
  REQUIRE(samples.status() == absl::OkStatus());
  return *std::move(samples);
}

TEST_CASE("Buckets and quantiles distinguish numbers beyond 2^24") {
  const auto samples = Read(Example(), {Bucketised({16'777'217.0, 1'600'000'000.5})},
                            {16'777'216, 16'777'217, 1'600'000'000, 1'600'000'000.5});
  CHECK(samples[0].ids[0] == Ids{0});
  CHECK(samples[1].ids[0] == Ids{1});
  CHECK(samples[2].ids[0] == Ids{1});
  CHECK(samples[3].ids[0] == Ids{2});
  CHECK(QuantileBoundaries({kShift + 3, kShift + 1, kShift + 4, kShift + 2}, 2) ==
        std::vector<double>{kShift + 3});
}

TEST_CASE("Scaled values are rounded once, at their end") {
  ColumnConfig column = Column("x", Kind::kDense);
  column.mean = kShift + 1;
  column.stddev = 4;
  CHECK(Scaled(column, kShift + 4) == 0.75F);
  column.missing = kShift + 3;
  DataConfig config = Example();
  config.columns[1] = column;
  const TemporaryFolder folder;
  const auto samples = ReadSamples(config, {}, {folder.Write("a.csv", "1,\n0,1600000009\n")});
  REQUIRE(samples.ok());
  CHECK((*samples)[0].dense[0] == 0.5F);
  CHECK((*samples)[1].dense[0] == 2.0F);
}

TEST_CASE("A shift of all numbers and boundaries changes no bucket") {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    const std::vector<double> drawn = Halves(random, 1 + random.Below(30));
    const std::set<double> sorted(drawn.begin(), drawn.end());
    const std::vector<double> boundaries(sorted.begin(), sorted.end());
    const std::vector<double> numbers = Halves(random, 100);
    const auto plain = Read(Example(), {Bucketised(boundaries)}, numbers);
    const auto shifted = Read(Example(), {Bucketised(Shifted(boundaries))}, Shifted(numbers));
    for (size_t n = 0; n < numbers.size(); ++n) {
      REQUIRE(shifted[n].ids == plain[n].ids);
      REQUIRE(plain[n].ids[0] == Ids{BucketOf(boundaries, numbers[n])});
    }
  }
}

TEST_CASE("A shift of all numbers shifts their quantiles and mean, and changes nothing else") {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    const std::vector<double> numbers = Halves(random, 300);
    const auto fit = [](const std::vector<double>& values, DataConfig& config) {
      const TemporaryFolder folder;
      config.columns[1].fit = true;
      config.train = {folder.Write("a.csv", Rows(values))};
      std::vector<FeatureConfig> features = {Bucketised({})};
      features[0].processing.quantiles = 7;
      REQUIRE(FitStatistics(config, features) == absl::OkStatus());
      return features;
    };
    DataConfig near = Example();
    DataConfig far = Example();
    const auto plain = fit(numbers, near);
    const auto shifted = fit(Shifted(numbers), far);
    REQUIRE(plain[0].processing.boundaries.size() == 6);
    REQUIRE(shifted[0].processing.boundaries == Shifted(plain[0].processing.boundaries));
    REQUIRE(far.columns[1].stddev == Approx(near.columns[1].stddev).epsilon(1e-7));
    const auto ones = Read(near, plain, numbers);
    const auto others = Read(far, shifted, Shifted(numbers));
    for (size_t n = 0; n < numbers.size(); ++n) {
      REQUIRE(others[n].ids == ones[n].ids);
      REQUIRE(others[n].dense[0] == Approx(ones[n].dense[0]).epsilon(1e-6).margin(1e-6));
    }
  }
}

TEST_CASE("What is no number that a double holds is refused by feature, row and value") {
  const TemporaryFolder folder;
  DataConfig config = Example();
  config.columns[1].kind = Kind::kId;
  const std::string cell = GENERATE(as<std::string>(), "1e400", "-1e400", "nan", "inf", "1,6e9");
  const std::string file = folder.Write("a.csv", "1,1e308\n0,\"" + cell + "\"\n");
  const std::string error =
      file + ":2: feature 'x': '" + cell +
      "' is not a finite number; correct it, or add it to data.missing_values";
  CHECK(ReadSamples(config, {Bucketised({0.0})}, {file}).status().message() == error);
  config.train = {file};
  std::vector<FeatureConfig> features = {Bucketised({})};
  features[0].processing.quantiles = 2;
  CHECK(FitStatistics(config, features).message() == error);
}

TEST_CASE("Small differences of large integers are fitted") {
  const TemporaryFolder folder;
  DataConfig config = Example();
  config.columns[1].fit = true;
  config.train = {folder.Write("a.csv",
                               "1,1000000000000000\n0,1000000000000001\n1,1000000000000002\n"
                               "0,1000000000000003\n")};
  std::vector<FeatureConfig> features;
  REQUIRE(FitStatistics(config, features) == absl::OkStatus());
  CHECK(config.columns[1].mean == Approx(1e15 + 1.5).epsilon(1e-16));
  CHECK(config.columns[1].stddev == Approx(std::sqrt(1.25)).epsilon(0.01));
}

TEST_CASE("Numbers beyond floats are fitted, and scaled by what was fitted") {
  const TemporaryFolder folder;
  DataConfig config = Example();
  config.columns[1].fit = true;
  config.train = {folder.Write("a.csv", "1,1e39\n0,3e39\n1,\n")};
  std::vector<FeatureConfig> features;
  REQUIRE(FitStatistics(config, features) == absl::OkStatus());
  CHECK(config.columns[1].mean == Approx(2e39));
  CHECK(config.columns[1].stddev == Approx(1e39));
  config.columns[1].missing = 2e39;
  const auto samples = ReadSamples(config, features, config.train);
  REQUIRE(samples.status() == absl::OkStatus());
  CHECK((*samples)[0].dense[0] == Approx(-1));
  CHECK((*samples)[1].dense[0] == Approx(1));
  CHECK((*samples)[2].dense[0] == Approx(0).margin(1e-6));
  config.train = {folder.Write("b.csv", "1,1e308\n0,-1e308\n")};
  CHECK_THAT(
      std::string(FitStatistics(config, features).message()),
      Catch::StartsWith("column 'x': its 2 numbers in the training files are too far apart"));
}

TEST_CASE("A row that is bad in one column counts in no other's statistics") {
  const TemporaryFolder folder;
  DataConfig config = Example();
  config.columns.push_back(Column("z", Kind::kId));
  config.columns[1].fit = true;
  config.on_bad_row = DataConfig::OnBadRow::kSkip;
  config.max_bad_share = 1;
  config.train = {folder.Write("a.csv", "1,1,1\n0,1000,bad\n1,3,2\n")};
  std::vector<FeatureConfig> features = {Feature("z")};
  features[0].processing.quantiles = 2;
  REQUIRE(FitStatistics(config, features) == absl::OkStatus());
  CHECK(config.columns[1].mean == 2.0);
  CHECK(config.columns[1].stddev == 1.0);
  CHECK(features[0].processing.boundaries == std::vector<double>{2});
}

TEST_CASE("Quantiles that separate no values are refused") {
  const TemporaryFolder folder;
  DataConfig config = Example();
  config.train = {folder.Write("a.csv", "1,0\n1,0\n1,0\n1,0\n1,5\n")};
  std::vector<FeatureConfig> features = {Bucketised({})};
  features[0].processing.quantiles = 4;
  CHECK(FitStatistics(config, features).message() ==
        "feature 'x': too many of the 5 training numbers equal the smallest for 4 quantiles; raise "
        "quantiles or set boundaries");
  features[0].processing.quantiles = 5;
  REQUIRE(FitStatistics(config, features) == absl::OkStatus());
  CHECK(features[0].processing.boundaries == std::vector<double>{5});
}

}  // namespace
}  // namespace simurgh
