#include "base/cpu_isa.h"

#include <cstdlib>
#include <string_view>

#include <hwy/targets.h>

namespace simurgh {

void LimitSimdFromEnvironment() {
  const char* const limit = std::getenv("ONEDNN_MAX_CPU_ISA");
  // Highway gives better x86 targets lower bits.
  if (limit != nullptr && std::string_view(limit) == "AVX2") hwy::DisableTargets(HWY_AVX2 - 1);
}

}  // namespace simurgh
