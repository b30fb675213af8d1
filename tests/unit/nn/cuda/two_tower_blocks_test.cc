// Two towers on simulated devices: any block of scores, executor and precision.

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/unit/nn/cuda/host_backend.h"
#include "tests/unit/nn/cuda/training_run.h"
#include "tests/unit/nn/two_tower_run.h"

namespace simurgh::testing {
namespace {

std::unique_ptr<DenseNetwork> DeviceOf(const TwoTowerCase& run,
                                       const HostExecutor::Options& executor,
                                       ComputePrecision precision = ComputePrecision::kF32) {
  DenseNetworkOptions options = run.options();
  options.precision = precision;
  auto network = CreateHostNetwork(run.model(), options, executor);
  REQUIRE(network.ok());
  if (precision == ComputePrecision::kF16) {
    // A scale that no gradient here overflows with.
    const std::span<const float> weights = (*network)->parameters();
    const std::vector<float> parameters(weights.begin(), weights.end());
    std::vector<float> state((*network)->state().begin(), (*network)->state().end());
    std::ranges::copy(std::vector<float>{1'024, 1.0F / 1'024, 0}, state.end() - 3);
    REQUIRE((*network)->Restore(parameters, state).ok());
  }
  return *std::move(network);
}

TwoTowerRun OnCpu(const TwoTowerCase& run, uint64_t steps) {
  const auto network = CreateCpuNetwork(run.model(), run.options());
  REQUIRE(network.ok());
  return TrainTwoTowers(**network, run, steps);
}

TEST_CASE("Blocks of scores of any size train two towers alike") {
  const TwoTowerCase run{.uniform = 6};
  const TwoTowerRun expected = OnCpu(run, 8);
  for (const size_t score_floats : {1, 40, 41, 3 * 40, 17 * 40, 40 * 40, 1'000'000}) {
    CAPTURE(score_floats);
    const auto network = DeviceOf(run, {.score_floats = score_floats});
    CheckSameRun(TrainTwoTowers(*network, run, 8), expected, 1e-4);
  }
}

TEST_CASE("Two towers train alike on every executor") {
  const TwoTowerCase run{.has_weights = true, .uniform = 6};
  const TwoTowerRun expected = OnCpu(run, 16);
  for (const HostExecutor::Options& options : {HostExecutor::Options{.reverse = true},
                                               {.replays = true},
                                               {.replays = true, .score_floats = 200},
                                               {.takes = false},
                                               {.replays = true, .lanes = 3}}) {
    CAPTURE(options.reverse, options.replays, options.takes, options.lanes.has_value());
    CheckSameRun(TrainTwoTowers(*DeviceOf(run, options), run, 16), expected, 1e-4);
  }
}

TEST_CASE("Passes of two towers that start ahead train alike") {
  const TwoTowerCase run{.uniform = 6, .left_out = 1'000};
  const TwoTowerRun expected = OnCpu(run, 14);
  for (const uint64_t seed : {1, 2, 3}) {
    const auto network = DeviceOf(run, {.replays = true, .lanes = seed});
    CheckSameRun(TrainTwoTowersAhead(*network, run, 14), expected, 1e-4);
  }
}

// Vectors, scores' gradients and products are rounded: errors of 2^-9 each in bf16, of 2^-12 in
// f16, as in the layers.
TEST_CASE("Two towers train in 16 bits") {
  const TwoTowerCase run{.uniform = 6};
  const TwoTowerRun expected = OnCpu(run, 1);
  for (const auto& [precision, unit] :
       {std::pair(ComputePrecision::kBf16, 1.0), {ComputePrecision::kF16, 0.125}}) {
    CAPTURE(static_cast<int>(precision));
    const TwoTowerRun actual =
        TrainTwoTowers(*DeviceOf(run, {.score_floats = 200}, precision), run, 1);
    CHECK(actual.losses[0] == Approx(expected.losses[0]).epsilon(0.02 * unit));
    const double error = RelativeError(actual.embedding_gradient, expected.embedding_gradient);
    CHECK(error < 0.04 * unit);
    CHECK(error > 1e-4 * unit);
    CHECK(RelativeError(actual.vectors, expected.vectors) < 0.02 * unit);
  }
  const TwoTowerRun longer = OnCpu(run, 30);
  for (const ComputePrecision precision : {ComputePrecision::kBf16, ComputePrecision::kF16}) {
    const TwoTowerRun actual = TrainTwoTowers(*DeviceOf(run, {}, precision), run, 30);
    for (size_t i = 0; i < longer.losses.size(); ++i) {
      CHECK(actual.losses[i] == Approx(longer.losses[i]).epsilon(0.05).margin(0.05));
    }
  }
}

}  // namespace
}  // namespace simurgh::testing
