#pragma once

#include <cstddef>

namespace simurgh::cuda {

// Tells that a batch of rows came with more than there was room for on the device. In bytes.
void LogRowRoom(size_t needed, size_t before, size_t now);

}  // namespace simurgh::cuda
