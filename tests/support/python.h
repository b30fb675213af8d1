#pragma once

#include <string>

namespace simurgh::testing {

// The command of a Python that can import the modules, "numpy, torch": the one of build/python,
// which scripts/test.sh makes, the first one of PATH, or Debian's. Skips the case without one.
std::string Python(const std::string& modules);

}  // namespace simurgh::testing
