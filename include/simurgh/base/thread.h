#pragma once

#include <string_view>

namespace simurgh {

// Names the calling thread in debuggers and in `top -H`. Truncated to 15 characters.
void SetThreadName(std::string_view name);

// Where there are more threads to run than cores, lets others run before the calling thread. For
// work that is ahead of what waits for it. No more than a wish: the system may not know it.
void LowerPriority();

}  // namespace simurgh
