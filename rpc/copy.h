#pragma once

#include <cstddef>
#include <span>

namespace simurgh::rpc {

// memcpy with prefetching for memory that another core has written.
// Requires to.size() >= from.size() and no overlap.
void CopyPayload(std::span<std::byte> to, std::span<const std::byte> from);

}  // namespace simurgh::rpc
