#pragma once

#include <cstdint>

#include "simurgh/base/status.h"

namespace simurgh {

// Lets the calling thread run on the processors of a NUMA node only.
// Errors: INVALID_ARGUMENT when there is no such node, or none of its processors may be used.
Status PinThreadToNode(uint32_t node);

}  // namespace simurgh
