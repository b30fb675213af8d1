#include "rpc/segment_pool.h"

#include <utility>

#include "simurgh/base/aligned_buffer.h"

namespace simurgh::rpc {

SegmentBuffer PooledBuffer(size_t bytes) {
  static BufferPool pool(size_t{256} << 20);  // Bytes of idle buffers.
  std::shared_ptr<AlignedBuffer> buffer = pool.Lease(bytes);
  const std::span<std::byte> room = buffer->bytes().first(bytes);
  return {.bytes = room, .owner = std::move(buffer)};
}

}  // namespace simurgh::rpc
