#pragma once

#include <cstddef>

namespace simurgh::cuda {

// Logs that a batch of rows needed more memory than the device had reserved. In bytes.
void LogRowRoom(size_t needed, size_t before, size_t now);

}  // namespace simurgh::cuda
