#pragma once

#include <string_view>

namespace simurgh {

// Names the calling thread in debuggers and in `top -H`. Truncated to 15 characters.
void SetThreadName(std::string_view name);

// Lowers the calling thread's priority, for work that no other thread waits for yet. Best effort:
// the system may not support it.
void LowerPriority();

}  // namespace simurgh
