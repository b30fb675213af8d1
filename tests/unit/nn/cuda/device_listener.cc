// Ends a test program with the exit code of a skipped test if there is no device.

#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include <cstdio>
#include <cstdlib>
#include <string>

#include <catch2/catch.hpp>

#include "nn/cuda/cuda_network.h"

namespace simurgh::testing {
namespace {

constexpr int kSkipped = 77;

struct DeviceListener : Catch::TestEventListenerBase {
  using TestEventListenerBase::TestEventListenerBase;

  void testRunStarting(const Catch::TestRunInfo&) override {
    const StatusOr<std::string> device = cuda::FindCudaDevice();
    if (device.ok()) {
      std::printf("on %s\n", device->c_str());
      return;
    }
    std::printf("SKIPPED: %s\n", std::string(device.status().message()).c_str());
    std::exit(kSkipped);
  }
};

CATCH_REGISTER_LISTENER(DeviceListener)

}  // namespace
}  // namespace simurgh::testing
