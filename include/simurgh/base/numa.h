#pragma once

#include <cstdint>

#include "simurgh/base/status.h"

namespace simurgh {

// Restricts the calling thread to the processors of a NUMA node.
// Errors: INVALID_ARGUMENT when the node does not exist or none of its processors is usable.
Status PinThreadToNode(uint32_t node);

}  // namespace simurgh
