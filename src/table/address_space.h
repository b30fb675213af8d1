#pragma once

#include <cstddef>
#include <cstdint>

#include "simurgh/base/status.h"

namespace simurgh {

inline constexpr uint64_t kHugePage = uint64_t{2} << 20;

constexpr uint64_t RoundUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

// Addresses that nothing else will get, without memory behind them, from a huge page's boundary on:
// a place for a mapping, to be unmapped as one.
// Errors: RESOURCE_EXHAUSTED.
StatusOr<std::byte*> ReserveAddresses(uint64_t bytes);

// What to tell when there are none, by errno.
Status NoAddressSpace(uint64_t bytes);

}  // namespace simurgh
