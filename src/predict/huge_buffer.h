#pragma once

#include <cstddef>

#include "base/aligned_buffer.h"

namespace simurgh {

// Allocates whole huge pages if there are enough bytes. Throws std::bad_alloc.
AlignedBuffer HugeBuffer(size_t bytes);

}  // namespace simurgh
