#include <algorithm>
#include <string>

#include <catch2/catch.hpp>

#include "nn/dense_network.h"
#include "tests/support/allocation_failure.h"
#include "tests/support/skip.h"
#include "tests/unit/nn/log_lines.h"
#include "tests/unit/nn/test_models.h"

namespace simurgh::testing {
namespace {

TEST_CASE("Without a device the network uses the CPU and logs one line") {
  const ModelConfig model = Chain({Linear(3), Relu(), Linear(1)});
  DenseNetworkOptions options;
  options.inputs = TestInputs(2);
  const auto expected = CreateNetwork(model, options);
  REQUIRE(expected.ok());

  const auto [device, beginning] = GENERATE(table<ComputeDevice, std::string>(
      {{ComputeDevice::kCuda, "warning: dense network: no CUDA device, using the CPU: "},
       {ComputeDevice::kAuto, "info: dense network: on the CPU: "},
       {ComputeDevice::kCpu, ""}}));
  options.device = device;
  const LogLines log;
  const auto network = CreateNetwork(model, options);
  REQUIRE(network.ok());
  if ((*network)->cuda_device().has_value()) SIMURGH_SKIP("the machine has a CUDA device");
  const std::string text = log.text();
  CAPTURE(text);
  CHECK(text.starts_with(beginning));
  CHECK(std::ranges::count(text, '\n') == (beginning.empty() ? 0 : 1));
  CHECK(std::ranges::equal((*network)->parameters(), (*expected)->parameters()));
}

}  // namespace
}  // namespace simurgh::testing
