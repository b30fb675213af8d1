#pragma once

#include <cstdint>

#include "simurgh/base/status.h"

namespace simurgh {

// Lets this process have as many files open as the system allows: the usual soft limit of 1,024 is
// less than so many connections need.
// Errors: RESOURCE_EXHAUSTED when `max_connections` need more all the same, saying what to do.
Status RaiseOpenFiles(uint32_t max_connections);

}  // namespace simurgh
