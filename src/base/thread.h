#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/functional/function_ref.h"

#include "base/status.h"

namespace simurgh {

// Names the calling thread in debuggers and in `top -H`. Truncated to 15 characters.
void SetThreadName(std::string_view name);

// Lowers the calling thread's priority, if the system supports it.
void LowerPriority();

// Restricts the calling thread to the processors of a NUMA node.
// Errors: INVALID_ARGUMENT when the node does not exist or none of its processors is usable.
Status PinThreadToNode(uint32_t node);

// Calls work(i) for each i below `count`, on the calling thread and up to `threads - 1` others,
// which wait for a disk or a network. Returns the first error, after which no call begins.
Status ForEachAtOnce(size_t count, size_t threads, absl::FunctionRef<Status(size_t)> work);

}  // namespace simurgh
