#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include <sys/mman.h>

namespace simurgh::bench {

inline constexpr uint64_t kHugePage = uint64_t{2} << 20;

// Enables huge pages and touches every page, so that no measurement includes page faults.
inline void TouchHuge(std::byte* base, uint64_t bytes) {
  madvise(base, bytes, MADV_HUGEPAGE);
  for (uint64_t at = 0; at < bytes; at += 4096) {
    auto* const byte = const_cast<volatile std::byte*>(base + at);
    *byte = *byte;
  }
}

// Zeroed memory in huge pages, all of it resident.
class HugeMemory {
 public:
  explicit HugeMemory(uint64_t bytes) : mapped_bytes_(bytes + 2 * kHugePage) {
    void* mapped =
        mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    mapped_ = static_cast<std::byte*>(mapped);
    base_ = mapped_ + (kHugePage - reinterpret_cast<uintptr_t>(mapped_) % kHugePage) % kHugePage;
    TouchHuge(base_, (bytes + kHugePage - 1) / kHugePage * kHugePage);
  }
  HugeMemory(const HugeMemory&) = delete;
  HugeMemory& operator=(const HugeMemory&) = delete;
  ~HugeMemory() { munmap(mapped_, mapped_bytes_); }

  std::byte* base() const { return base_; }

 private:
  uint64_t mapped_bytes_;
  std::byte* mapped_;
  std::byte* base_;
};

// Gives a rival's arrays huge pages too.
template <typename T>
struct HugeAllocator {
  using value_type = T;

  HugeAllocator() = default;
  template <typename U>
  HugeAllocator(const HugeAllocator<U>&) {}  // NOLINT(google-explicit-constructor)

  T* allocate(size_t count) {
    const uint64_t bytes = count * sizeof(T);
    if (bytes < kHugePage) {
      return static_cast<T*>(::operator new(bytes, std::align_val_t{64}));
    }
    void* memory = ::operator new(bytes, std::align_val_t{kHugePage});
    madvise(memory, bytes, MADV_HUGEPAGE);
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, size_t count) {
    const uint64_t bytes = count * sizeof(T);
    ::operator delete(memory, std::align_val_t{bytes < kHugePage ? 64 : kHugePage});
  }
  friend bool operator==(const HugeAllocator&, const HugeAllocator&) { return true; }
};

}  // namespace simurgh::bench
