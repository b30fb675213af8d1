#include "tests/support/allocation_count.h"

#include <atomic>
#include <cerrno>
#include <cstddef>

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

std::atomic<uint64_t> count = 0;
std::atomic<uint64_t> bytes = 0;
std::atomic<uint64_t> largest = 0;

void* Note(void* memory, size_t size) {
  ++count;
  bytes += size;
  uint64_t before = largest;
  while (before < size && !largest.compare_exchange_weak(before, size)) {
  }
  return memory;
}

void* Map(void* at, size_t size, int protection, int flags, int file, off_t offset) {
  const auto address = ::syscall(SYS_mmap, at, size, protection, flags, file, offset);
  return Note(reinterpret_cast<void*>(address), size);  // NOLINT(performance-no-int-to-ptr)
}

}  // namespace

// The C library's own, under the names by which its malloc and the rest call them. What it gives,
// its free() takes back; `new` calls malloc().
extern "C" {

void* __libc_malloc(size_t size);                      // NOLINT(bugprone-reserved-identifier)
void* __libc_calloc(size_t number, size_t size);       // NOLINT(bugprone-reserved-identifier)
void* __libc_realloc(void* memory, size_t size);       // NOLINT(bugprone-reserved-identifier)
void* __libc_memalign(size_t alignment, size_t size);  // NOLINT(bugprone-reserved-identifier)

void* malloc(size_t size) noexcept { return Note(__libc_malloc(size), size); }

void* calloc(size_t number, size_t size) noexcept {
  return Note(__libc_calloc(number, size), number * size);
}

void* realloc(void* memory, size_t size) noexcept {
  return Note(__libc_realloc(memory, size), size);
}

void* memalign(size_t alignment, size_t size) noexcept {
  return Note(__libc_memalign(alignment, size), size);
}

void* aligned_alloc(size_t alignment, size_t size) noexcept { return memalign(alignment, size); }

int posix_memalign(void** memory, size_t alignment, size_t size) noexcept {
  *memory = memalign(alignment, size);
  return *memory != nullptr ? 0 : ENOMEM;
}

void* mmap(void* at, size_t size, int protection, int flags, int file, off_t offset) noexcept {
  return Map(at, size, protection, flags, file, offset);
}

void* mmap64(void* at, size_t size, int protection, int flags, int file, off64_t offset) noexcept {
  return Map(at, size, protection, flags, file, offset);
}

}  // extern "C"

namespace simurgh::testing {

Allocations TakeAllocations() {
  return {.count = count.exchange(0), .bytes = bytes.exchange(0), .largest = largest.exchange(0)};
}

}  // namespace simurgh::testing
