#include "predict/huge_buffer.h"

#include <cstdlib>
#include <new>

#include <sys/mman.h>

namespace simurgh {

AlignedBuffer HugeBuffer(size_t bytes) {
  constexpr size_t kHugePage = size_t{2} << 20;
  if (bytes < 2 * kHugePage) return AlignedBuffer(bytes);
  const size_t whole = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  void* const memory = std::aligned_alloc(kHugePage, whole);
  if (memory == nullptr) throw std::bad_alloc();
  madvise(memory, whole, MADV_HUGEPAGE);  // Only a hint.
  return {static_cast<std::byte*>(memory), bytes, [](std::byte* data) { std::free(data); }};
}

}  // namespace simurgh
