#pragma once

// Ends the running test case and counts it as skipped. `reason` names what the machine lacks.
// Works in helpers of the case, on its thread. A program all of whose cases are skipped exits with
// 77, which CTest reports as skipped; tests/support/results.sh lists the cases of the others.
#define SIMURGH_SKIP(reason) ::simurgh::testing::SkipCase(reason)

#include <string_view>

namespace simurgh::testing {

[[noreturn]] void SkipCase(std::string_view reason);

}  // namespace simurgh::testing
