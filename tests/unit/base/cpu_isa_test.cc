#include "base/cpu_isa.h"

#include <cstdlib>
#include <optional>
#include <string>

#include <hwy/targets.h>

#include <catch2/catch.hpp>

namespace simurgh {
namespace {

constexpr const char* kVariable = "ONEDNN_MAX_CPU_ISA";
constexpr int64_t kAvx2 = HWY_AVX2;
constexpr int64_t kAllTargets = HWY_AVX2 | HWY_AVX3 | HWY_AVX3_DL;

int64_t TargetsUnder(const char* limit) {
  hwy::DisableTargets(0);
  setenv(kVariable, limit, 1);
  LimitSimdFromEnvironment();
  return hwy::SupportedTargets();
}

TEST_CASE("ONEDNN_MAX_CPU_ISA=AVX2 limits Highway to AVX2, and no other value does") {
  const char* const value = std::getenv(kVariable);
  const auto before = value == nullptr ? std::nullopt : std::optional<std::string>(value);
  hwy::SetSupportedTargetsForTest(kAllTargets);
  CHECK(TargetsUnder("AVX2") == kAvx2);
  CHECK(TargetsUnder("ALL") == kAllTargets);
  hwy::SetSupportedTargetsForTest(0);
  TargetsUnder(before.value_or("ALL").c_str());
  if (!before) unsetenv(kVariable);
}

}  // namespace
}  // namespace simurgh
