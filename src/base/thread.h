#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace simurgh {

// Names the calling thread in debuggers and in `top -H`. Truncated to 15 characters.
void SetThreadName(std::string_view name);

// Lowers the calling thread's priority, if the system supports it.
void LowerPriority();

// Restricts the calling thread to the processors of a NUMA node.
// Errors: INVALID_ARGUMENT when the node does not exist or none of its processors is usable.
Status PinThreadToNode(uint32_t node);

}  // namespace simurgh
