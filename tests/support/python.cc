#include "tests/support/python.h"

#include <cstdlib>

#include "tests/support/skip.h"

namespace simurgh::testing {

std::string Python(const std::string& modules) {
  for (const char* program :
       {"build/python/bin/python", "build/arrow/bin/python", "python3", "/usr/bin/python3"}) {
    const std::string python = program;
    if (std::system((python + " -c 'import " + modules + "' > /dev/null 2>&1").c_str()) == 0) {
      return python;
    }
  }
  SIMURGH_SKIP("no Python can import " + modules);
}

}  // namespace simurgh::testing
