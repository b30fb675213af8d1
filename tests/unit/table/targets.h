#pragma once

#include <vector>

#include <hwy/highway.h>
#include <hwy/targets.h>

#include <catch2/catch.hpp>

namespace simurgh {

// Runs `test` once for each vector extension that is compiled in and that this processor has.
template <typename Test>
void ForEachTarget(const Test& test) {
  const std::vector<int64_t> targets = hwy::SupportedAndGeneratedTargets();
  REQUIRE_FALSE(targets.empty());
  for (const int64_t target : targets) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    INFO("target " << hwy::TargetName(target));
    test();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace simurgh
