#include <algorithm>
#include <cmath>
#include <vector>

#include <catch2/catch.hpp>

#include "nn/dense_network.h"
#include "nn/dense_tensors.h"
#include "tests/unit/nn/test_models.h"

namespace simurgh::testing {
namespace {

std::vector<float> InitialParameters(const ModelPlan& plan, uint64_t seed) {
  std::vector<float> parameters(plan.parameter_count, -7.0F);
  InitializeParameters(plan, seed, parameters);
  return parameters;
}

std::vector<float> LayerValues(const LayerPlan& layer, const std::vector<float>& parameters) {
  const auto begin = parameters.begin() + static_cast<std::ptrdiff_t>(layer.parameter_offset);
  return {begin, begin + static_cast<std::ptrdiff_t>(layer.parameter_count)};
}

TEST_CASE("linear weights and biases are uniform within one over the root of the inputs") {
  const auto plan = PlanModel(Chain({Linear(500), Linear(1)}), {13, 51, {}});
  REQUIRE(plan.ok());
  const std::vector<float> values =
      LayerValues(plan->towers[0].layers[0], InitialParameters(*plan, 5));
  const double bound = 1.0 / 8.0;  // 64 inputs
  CHECK(*std::ranges::max_element(values) <= bound);
  CHECK(*std::ranges::min_element(values) >= -bound);
  double sum = 0;
  double squares = 0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
  }
  const auto count = static_cast<double>(values.size());
  const double deviation = bound / std::sqrt(3.0);
  CHECK(std::abs(sum / count) < 5 * deviation / std::sqrt(count));
  CHECK(squares / count == Approx(deviation * deviation).epsilon(0.02));
}

TEST_CASE("batch norm begins as the identity") {
  const auto plan = PlanModel(Chain({BatchNorm(), Linear(1)}), {2, 3, {}});
  REQUIRE(plan.ok());
  CHECK(LayerValues(plan->towers[0].layers[0], InitialParameters(*plan, 5)) ==
        std::vector<float>{1, 1, 1, 1, 1, 0, 0, 0, 0, 0});
  std::vector<float> statistics(plan->statistics_count, -7.0F);
  InitializeStatistics(*plan, statistics);
  CHECK(statistics == std::vector<float>{0, 0, 0, 0, 0, 1, 1, 1, 1, 1});
}

TEST_CASE("slopes begin at the values of their papers") {
  const LayerConfig prelu{.kind = LayerConfig::Kind::kPrelu};
  const LayerConfig dice{.kind = LayerConfig::Kind::kDice};
  const auto plan = PlanModel(Chain({prelu, dice, Linear(1)}), {1, 1, {}});
  REQUIRE(plan.ok());
  const std::vector<float> parameters = InitialParameters(*plan, 5);
  CHECK(LayerValues(plan->towers[0].layers[0], parameters) == std::vector<float>{0.25F, 0.25F});
  CHECK(LayerValues(plan->towers[0].layers[1], parameters) == std::vector<float>{0, 0});
  std::vector<float> statistics(plan->statistics_count, -7.0F);
  InitializeStatistics(*plan, statistics);
  CHECK(statistics == std::vector<float>{0, 0, 1, 1});
}

TEST_CASE("a layer's initial values do not depend on other towers and layers") {
  const auto plan = PlanModel(SharedInputs(), {2, 4, {}});
  REQUIRE(plan.ok());
  ModelConfig changed = SharedInputs();
  changed.towers[0].layers[0].width = 9;
  changed.towers.insert(changed.towers.begin(),
                        {.name = "new", .inputs = {"dense"}, .layers = {Linear(2)}});
  changed.towers.back().inputs = {"cross", "new", "embeddings", "ids"};
  const auto changed_plan = PlanModel(changed, {2, 4, {}});
  REQUIRE(changed_plan.ok());

  const LayerPlan& ids = plan->towers[1].layers[1];
  const LayerPlan& changed_ids = changed_plan->towers[2].layers[1];
  REQUIRE(ids.parameter_offset != changed_ids.parameter_offset);
  CHECK(LayerValues(ids, InitialParameters(*plan, 5)) ==
        LayerValues(changed_ids, InitialParameters(*changed_plan, 5)));
  CHECK(LayerValues(ids, InitialParameters(*plan, 5)) !=
        LayerValues(ids, InitialParameters(*plan, 6)));
}

TEST_CASE("layers of equal shape begin with different values") {
  const auto plan = PlanModel(Chain({Linear(5), Linear(5), Linear(1)}), {2, 3, {}});
  REQUIRE(plan.ok());
  const std::vector<float> parameters = InitialParameters(*plan, 5);
  CHECK(LayerValues(plan->towers[0].layers[0], parameters) !=
        LayerValues(plan->towers[0].layers[1], parameters));
}

TEST_CASE("parameter blocks are the tensors and cover all parameters") {
  const auto plan =
      PlanModel(Chain({Cross(), Cross(2), Linear(3), BatchNorm(), Relu(), Linear(1)}), {2, 4, {}});
  REQUIRE(plan.ok());
  std::vector<size_t> counts;
  size_t next = 0;
  for (const ColumnRange& block : plan->parameter_blocks) {
    CHECK(block.first == next);
    next += block.count;
    counts.push_back(block.count);
  }
  CHECK(next == plan->parameter_count);
  CHECK(counts == std::vector<size_t>{36, 6, 12, 12, 6, 18, 3, 3, 3, 3, 1});
}

}  // namespace
}  // namespace simurgh::testing
