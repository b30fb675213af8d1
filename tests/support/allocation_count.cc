#include "tests/support/allocation_count.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<uint64_t> count = 0;
std::atomic<uint64_t> bytes = 0;
std::atomic<uint64_t> largest = 0;

void* Note(void* memory, std::size_t size) {
  ++count;
  bytes += size;
  uint64_t before = largest;
  while (before < size && !largest.compare_exchange_weak(before, size)) {
  }
  return memory;
}

void* Checked(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void* Allocate(std::size_t size) { return Checked(Note(std::malloc(size), size)); }

void* AllocateAligned(std::size_t size, std::align_val_t alignment) {
  const auto multiple = static_cast<std::size_t>(alignment);
  void* memory = std::aligned_alloc(multiple, (size + multiple - 1) / multiple * multiple);
  return Checked(Note(memory, size));
}

}  // namespace

void* operator new(std::size_t size) { return Allocate(size); }
void* operator new[](std::size_t size) { return Allocate(size); }
void* operator new(std::size_t size, const std::nothrow_t& /*unused*/) noexcept {
  return Note(std::malloc(size), size);
}
void* operator new(std::size_t size, std::align_val_t a) { return AllocateAligned(size, a); }
void* operator new[](std::size_t size, std::align_val_t a) { return AllocateAligned(size, a); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace simurgh::testing {

Allocations TakeAllocations() {
  return {.count = count.exchange(0), .bytes = bytes.exchange(0), .largest = largest.exchange(0)};
}

}  // namespace simurgh::testing
