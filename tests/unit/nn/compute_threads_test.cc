#include "nn/cpu/compute_threads.h"

#include <atomic>
#include <limits>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "nn/cpu/activation.h"
#include "nn/cpu/linear.h"
#include "nn/cpu/optimizer.h"

namespace simurgh::cpu {
namespace {

constexpr size_t kMany = 7 * kPartElements + 13;  // Enough for seven threads, and odd.

std::vector<float> RandomValues(size_t count, uint64_t seed) {
  Random random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random.Uniform() * 2 - 1);
  return values;
}

// The result of `work` on `threads` threads.
template <typename Work>
auto On(uint32_t threads, const Work& work) {
  SetComputeThreads(threads);
  const auto result = work();
  SetComputeThreads(1);
  return result;
}

TEST_CASE("parts cover each element once") {
  Random random(7);
  for (int round = 0; round < 200; ++round) {
    const size_t count = random.Below(3'000);
    const size_t least = random.Below(400) + 1;
    const auto threads = static_cast<uint32_t>(random.Below(5) + 1);
    std::vector<std::atomic<int>> visits(count);
    std::atomic<uint32_t> parts = 0;
    SetComputeThreads(threads);
    ForEachPart(count, least, [&](size_t first, size_t end) {
      ++parts;
      for (size_t i = first; i < end; ++i) ++visits[i];
    });
    SetComputeThreads(1);
    size_t once = 0;
    for (const auto& visit : visits) once += visit == 1 ? 1 : 0;
    CAPTURE(count, least, threads);
    REQUIRE(once == count);
    REQUIRE(parts <= threads);
  }
}

TEST_CASE("elementwise kernels give the same on any number of threads") {
  const std::vector<float> input = RandomValues(kMany, 1);
  const std::vector<float> gradient = RandomValues(kMany, 2);
  const auto relu = [&] {
    std::vector<float> output(kMany);
    ActivationForward<ReluFormula>(input, output);
    return output;
  };
  const auto relu_gradient = [&] {
    std::vector<float> output(kMany);
    ActivationBackward<ReluFormula>(input, gradient, output);
    return output;
  };
  const auto sigmoid = [&] {
    std::vector<float> output(kMany);
    ActivationForward<SigmoidFormula>(input, output);
    return output;
  };
  const auto sigmoid_gradient = [&] {
    std::vector<float> output(kMany);
    ActivationBackward<SigmoidFormula>(input, gradient, output);
    return output;
  };
  CHECK(On(3, relu) == On(1, relu));
  CHECK(On(3, relu_gradient) == On(1, relu_gradient));
  CHECK(On(3, sigmoid) == On(1, sigmoid));
  CHECK(On(3, sigmoid_gradient) == On(1, sigmoid_gradient));
}

TEST_CASE("the gradient of a bias is the same on any number of threads") {
  constexpr size_t kRows = 300;
  constexpr size_t kColumns = 500;
  const std::vector<float> gradient = RandomValues(kRows * kColumns, 3);
  const auto bias = [&] {
    std::vector<float> sums(kColumns);
    BiasGradient(MatrixView<const float>(gradient.data(), kRows, kColumns), sums);
    return sums;
  };
  CHECK(On(3, bias) == On(1, bias));
}

TEST_CASE("optimizers step the same on any number of threads") {
  using Kind = DenseOptimizerConfig::Kind;
  const std::vector<float> gradients = RandomValues(kMany, 4);
  for (const Kind kind : {Kind::kSgd, Kind::kAdagrad, Kind::kAdam, Kind::kLamb}) {
    for (const float momentum : {0.0F, 0.9F}) {
      DenseOptimizerConfig config;
      config.kind = kind;
      config.momentum = kind == Kind::kSgd ? momentum : 0.0F;
      const auto stepped = [&] {
        std::vector<float> parameters = RandomValues(kMany, 5);
        std::vector<float> state(OptimizerStateSize(config, kMany));
        InitializeOptimizerState(config, state);
        const ColumnRange all{.first = 0, .count = kMany};
        for (int step = 0; step < 3; ++step) {
          ApplyOptimizer(config, 0.01F, {&all, 1}, parameters, gradients, state);
        }
        parameters.insert(parameters.end(), state.begin(), state.end());
        return parameters;
      };
      CAPTURE(static_cast<int>(kind), momentum);
      CHECK(On(3, stepped) == On(1, stepped));
    }
  }
}

TEST_CASE("a gradient that is not finite is found by any thread") {
  std::vector<float> values = RandomValues(kMany, 6);
  const auto finite = [&] { return AllUsable(values); };
  CHECK(On(3, finite));
  for (const size_t place : {size_t{0}, kMany / 2, kMany - 1}) {
    const float before = std::exchange(values[place], std::numeric_limits<float>::infinity());
    CHECK_FALSE(On(3, finite));
    values[place] = before;
  }
}

}  // namespace
}  // namespace simurgh::cpu
