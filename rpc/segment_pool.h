#pragma once

#include <cstddef>

#include "rpc/message.h"

namespace simurgh::rpc {

// Maximum of idle buffers in the process-wide pool.
inline constexpr size_t kIdleSegmentBytes = size_t{256} << 20;

// A pooled buffer of `bytes` bytes, 64-byte aligned. Threads: any.
SegmentBuffer PooledBuffer(size_t bytes);

}  // namespace simurgh::rpc
