#pragma once

#include <cstddef>

#include "rpc/message.h"

namespace simurgh::rpc {

// Idle buffers that are kept for the next segments, in the whole process: of what was in use at
// once, at most so much.
inline constexpr size_t kIdleSegmentBytes = size_t{256} << 20;

// A recycled buffer for a segment of so many bytes, 64-byte aligned. Threads: any.
SegmentBuffer PooledBuffer(size_t bytes);

}  // namespace simurgh::rpc
