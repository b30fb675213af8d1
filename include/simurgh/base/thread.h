#pragma once

#include <string_view>

namespace simurgh {

// Names the calling thread in debuggers and in `top -H`. Truncated to 15 characters.
void SetThreadName(std::string_view name);

// Lowers the calling thread's priority, if the system supports it.
void LowerPriority();

}  // namespace simurgh
