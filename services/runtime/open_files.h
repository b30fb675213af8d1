#pragma once

#include <cstdint>

#include "simurgh/base/status.h"

namespace simurgh {

// Raises the soft limit of open files, usually 1,024, to the hard limit.
// Errors: RESOURCE_EXHAUSTED if the hard limit is too low for `max_connections`, with the remedy.
Status RaiseOpenFiles(uint32_t max_connections);

}  // namespace simurgh
