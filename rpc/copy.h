#pragma once

#include <cstddef>
#include <span>

namespace simurgh::rpc {

// Copies payload between two processes' buffers. Requires to.size() >= from.size(), and that they
// do not overlap.
void CopyPayload(std::span<std::byte> to, std::span<const std::byte> from);

}  // namespace simurgh::rpc
