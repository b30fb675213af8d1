#pragma once

#include <cstdint>

// Counts what the process allocates, with `new`, malloc() and its family, or mmap(), in any
// library. For separate test programs, which link simurgh_allocation_count in place of any other
// allocator.
namespace simurgh::testing {

struct Allocations {
  uint64_t count = 0;
  uint64_t bytes = 0;
  uint64_t largest = 0;  // Bytes of one.
};

// Those of all threads since the last call; the first: since the process began.
Allocations TakeAllocations();

}  // namespace simurgh::testing
