#pragma once

#include <cstddef>
#include <cstdint>

#include "simurgh/base/status.h"

namespace simurgh {

inline constexpr uint64_t kHugePage = uint64_t{2} << 20;

constexpr uint64_t RoundUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

// Reserves address space without memory, aligned to a huge page. The caller maps memory into it and
// unmaps it as a whole. Errors: RESOURCE_EXHAUSTED.
StatusOr<std::byte*> ReserveAddresses(uint64_t bytes);

// The error of a failed reservation, from errno.
Status NoAddressSpace(uint64_t bytes);

}  // namespace simurgh
