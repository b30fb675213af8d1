#pragma once

#include <cstddef>

#include "rpc/message.h"

namespace simurgh::rpc {

// `bytes` bytes of the process-wide pool, 64-byte aligned. Threads: any.
SegmentBuffer PooledBuffer(size_t bytes);

}  // namespace simurgh::rpc
