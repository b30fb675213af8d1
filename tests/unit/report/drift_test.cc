#include "report/drift.h"

#include <vector>

#include <catch2/catch.hpp>

namespace simurgh {
namespace {

TEST_CASE("Shifts of numbers are in deviations of the training") {
  DataConfig data;
  data.columns = {
      {.name = "label", .kind = ColumnConfig::Kind::kLabel},
      {.name = "age", .kind = ColumnConfig::Kind::kDense, .mean = 40, .stddev = 10, .fit = true},
      {.name = "vector", .kind = ColumnConfig::Kind::kDense, .width = 2},
      {.name = "size", .kind = ColumnConfig::Kind::kDense}};
  NumberSums sums;
  // Scaled ages of 60 and 40, twice.
  for (int i = 0; i < 2; ++i) {
    sums.Add({.batch_size = 2, .width = 4, .values = {2, 9, 9, 5, 0, 9, 9, 7}});
  }
  const std::vector<NumberDrift> found = sums.DriftOf(data);
  REQUIRE(found.size() == 2);
  CHECK(found[0].column == "age");
  CHECK(found[0].mean == Approx(50));
  CHECK(found[0].deviation == Approx(10));
  CHECK(found[0].shift() == Approx(1));
  CHECK(found[0].is_fitted);
  CHECK(found[1].column == "size");
  CHECK(found[1].mean == Approx(6));
  CHECK_FALSE(found[1].is_fitted);
  CHECK(NumberSums().DriftOf(data).empty());
}

TEST_CASE("Ids are counted by column, without crosses and ranges") {
  ClusterConfig config;
  config.tables = {{.name = "site"}, {.name = "rare"}};
  config.tables[1].admission.kind = AdmissionConfig::Kind::kOccurrences;
  config.features = {{.name = "site", .column = "site"},
                     {.name = "again", .column = "site"},
                     {.name = "cross", .columns = {"site", "ad"}},
                     {.name = "age", .column = "age", .processing = {.quantiles = 10}},
                     {.name = "rare", .column = "rare", .table_index = 1}};
  std::vector<Predictor::IdCount> counts(
      5, {.occurrences = 10, .unseen = 4, .rows = 20, .empty_rows = 5});
  const std::vector<IdDrift> found = DriftOf(counts, config);
  REQUIRE(found.size() == 2);
  CHECK(found[0].column == "site");
  CHECK(found[0].unseen == Approx(0.4));
  CHECK(found[0].empty == Approx(0.25));
  CHECK(found[0].admits_all);
  CHECK(found[1].column == "rare");
  CHECK_FALSE(found[1].admits_all);
}

}  // namespace
}  // namespace simurgh
