#include "config/statistics.h"

#include <limits>

#include <catch2/catch.hpp>

namespace simurgh {
namespace {

DataConfig Csv() {
  DataConfig data;
  data.columns = {{.name = "y", .kind = ColumnConfig::Kind::kLabel},
                  {.name = "age", .kind = ColumnConfig::Kind::kDense, .fit = true},
                  {.name = "sum", .kind = ColumnConfig::Kind::kDense, .mean = 3}};
  return data;
}

std::vector<FeatureConfig> Features() {
  std::vector<FeatureConfig> features(2);
  features[0].name = "group";
  features[0].processing.quantiles = 3;
  features[1].name = "given";
  features[1].processing.boundaries = {5};
  return features;
}

}  // namespace

TEST_CASE("Statistics are set where they are computed, and only there", "[config]") {
  DataConfig data = Csv();
  std::vector<FeatureConfig> features = Features();
  const Statistics statistics = {{"columns.age", {1.5, 0.25}}, {"features.group", {-1, 7}}};
  REQUIRE(ApplyStatistics(statistics, data, features) == absl::OkStatus());
  CHECK(data.columns[1].mean == 1.5);
  CHECK(data.columns[1].stddev == 0.25);
  CHECK(data.columns[2].mean == 3);
  CHECK(features[0].processing.boundaries == std::vector<double>{-1, 7});
  CHECK(features[1].processing.boundaries == std::vector<double>{5});
  CHECK(StatisticsOf(data, features) == statistics);
}

TEST_CASE("Statistics of another configuration or impossible ones change nothing", "[config]") {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const Statistics good = {{"columns.age", {1.5, 0.25}}, {"features.group", {-1, 7}}};
  const auto error = [&](const std::string& name, const std::vector<double>& numbers) {
    Statistics statistics = good;
    statistics[name] = numbers;
    DataConfig data = Csv();
    std::vector<FeatureConfig> features = Features();
    const Status status = ApplyStatistics(statistics, data, features);
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK(StatisticsOf(data, features) == StatisticsOf(Csv(), Features()));
    return std::string(status.message());
  };
  const std::string age =
      "statistics: columns.age: its 2 numbers are not a mean and a stddev above 0; use an "
      "undamaged copy of the model";
  CHECK(error("columns.age", {1.5, 0}) == age);
  CHECK(error("columns.age", {kNan, 1}) == age);
  CHECK_THAT(error("columns.age", {1.5}), Catch::Contains("its 1 numbers are not a mean"));
  CHECK(error("features.group", {2, 2}) ==
        "statistics: features.group: its 2 numbers are not 1 to 2 ascending boundaries; use an "
        "undamaged copy of the model");
  CHECK_THAT(error("features.group", {}), Catch::Contains("its 0 numbers"));
  CHECK_THAT(error("features.group", {1, 2, 3}), Catch::Contains("its 3 numbers"));
  CHECK(error("columns.sum", {0, 1}) ==
        "statistics: columns.sum: not a column with fit or a feature with quantiles; use the "
        "configuration that the statistics were computed with");

  DataConfig data = Csv();
  std::vector<FeatureConfig> features = Features();
  CHECK(ApplyStatistics({{"columns.age", {1, 1}}}, data, features) ==
        absl::InvalidArgumentError("statistics: features.group: missing; use the configuration "
                                   "that the statistics were computed with"));
}

TEST_CASE("Values of pairs are scaled by index, in older models not", "[config]") {
  DataConfig data;
  data.format = DataConfig::Format::kLibsvm;
  data.columns = PairColumns(data);
  REQUIRE(data.columns[1].fit);
  std::vector<FeatureConfig> features;
  DataConfig older = data;
  REQUIRE(ApplyStatistics({}, older, features) == absl::OkStatus());
  CHECK(StatisticsOf(older, features).empty());

  const std::string wrong =
      "statistics: columns.features: its 3 numbers are not an index, a mean and a stddev above 0 "
      "for each; use an undamaged copy of the model";
  for (const std::vector<double>& numbers :
       {std::vector<double>{7, 1, 0}, {-1, 1, 1}, {0.5, 1, 1}, {1e300, 1, 1}}) {
    CHECK(ApplyStatistics({{"columns.features", numbers}}, data, features).message() == wrong);
  }
  const Statistics statistics = {{"columns.features", {0, 2, 0.5, 1e15, 0, 20}}};
  REQUIRE(ApplyStatistics(statistics, data, features) == absl::OkStatus());
  CHECK(data.columns[1].value_scales ==
        std::map<uint64_t, ValueScale>{{0, {2, 0.5}}, {1'000'000'000'000'000, {0, 20}}});
  CHECK(StatisticsOf(data, features) == statistics);
}

TEST_CASE("Labels and weights are scaled by their statistics, in older models not", "[config]") {
  DataConfig data = Csv();
  data.columns[0].fit = true;
  data.columns.push_back({.name = "w", .kind = ColumnConfig::Kind::kWeight, .fit = true});
  DataConfig older = data;
  std::vector<FeatureConfig> features = Features();
  Statistics statistics = {{"columns.age", {1.5, 0.25}}, {"features.group", {-1, 7}}};
  REQUIRE(ApplyStatistics(statistics, older, features) == absl::OkStatus());
  CHECK(LabelScalesOf(older) == std::vector<LabelScale>{LabelScale()});
  CHECK(MeanWeightOf(older) == 1);
  CHECK(StatisticsOf(older, features) == statistics);

  statistics["columns.y"] = {250'000, 80'000};
  statistics["columns.w"] = {1'000, 10};
  REQUIRE(ApplyStatistics(statistics, data, features) == absl::OkStatus());
  CHECK(MeanWeightOf(data) == 1'000);
  const std::vector<LabelScale> scales = LabelScalesOf(data);
  REQUIRE(scales == std::vector<LabelScale>{{.mean = 250'000, .stddev = 80'000}});
  CHECK(scales[0].Scaled(330'000) == 1);
  CHECK(scales[0].Unscaled(-0.5F) == 210'000);
}

}  // namespace simurgh
