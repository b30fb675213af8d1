// The search for weights that are not finite, on every backend.

#include <limits>

#include <catch2/catch.hpp>

#include "tests/unit/nn/test_backend.h"

namespace simurgh::testing {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// bottom: 3 x 2 + 2 weights, then 2 scales and 2 shifts. top: 2 + 1 weights.
std::unique_ptr<DenseNetwork> TwoTowers() {
  const ModelConfig model{
      .towers = {{.name = "bottom",
                  .inputs = {"dense"},
                  .layers = {{.kind = LayerConfig::Kind::kLinear, .width = 2},
                             {.kind = LayerConfig::Kind::kBatchNorm}}},
                 {.name = "top",
                  .inputs = {"bottom"},
                  .layers = {{.kind = LayerConfig::Kind::kLinear, .width = 1}}}}};
  auto network = CreateTestNetwork(model, {.inputs = {.dense_width = 3}}, false);
  REQUIRE(network.ok());
  return *std::move(network);
}

TEST_CASE("A weight or statistic that is not finite is found, and its layer named") {
  const auto network = TwoTowers();
  CHECK(network->CheckFinite() == absl::OkStatus());

  REQUIRE(network->parameters().size() == 15);
  network->parameters()[13] = kNan;
  CHECK(network->CheckFinite() ==
        absl::FailedPreconditionError(
            "dense network: tower 'top' layer 1: weights are not finite; lower "
            "training.dense_optimizer.learning_rate or weight_decay"));
  network->parameters()[10] = kInfinity;
  CHECK_THAT(std::string(network->CheckFinite().message()),
             Catch::Contains("tower 'bottom' layer 2: weights"));
  network->parameters()[10] = network->parameters()[13] = 1;

  REQUIRE(network->statistics().size() == 4);
  network->statistics()[3] = kInfinity;
  CHECK(network->CheckFinite() ==
        absl::FailedPreconditionError(
            "dense network: tower 'bottom' layer 2: running statistics are not finite; the layer "
            "had a very large input: correct outliers in dense columns or transform them by "
            "log1p, or lower the learning rates"));
}

}  // namespace
}  // namespace simurgh::testing
