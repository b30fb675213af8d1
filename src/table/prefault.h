#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>

namespace simurgh {

// Populates pages in a separate thread. The system clears a page at its first touch, which takes
// 0.3 ms for a huge page and several on some virtual machines. The thread inherits the CPU set and
// NUMA node of its creator. Pages that it has not reached are populated by their first touch.
//
// Threads: one owner, which never waits for the prefaulting thread. The first Prefault() starts it.
class PrefaultThread {
 public:
  PrefaultThread() = default;
  PrefaultThread(const PrefaultThread&) = delete;
  PrefaultThread& operator=(const PrefaultThread&) = delete;
  ~PrefaultThread();

  // Queues a range of mapped memory; returns false when kMaxQueued ranges are queued.
  // Lifetime: the memory must stay mapped until the object is destroyed.
  [[nodiscard]] bool Prefault(std::byte* first, uint64_t bytes);

  // Bytes that are queued and not populated yet.
  uint64_t waiting_bytes() const { return waiting_bytes_.load(std::memory_order_acquire); }

 private:
  static constexpr uint32_t kMaxQueued = 64;

  struct Range {
    std::byte* first;
    uint64_t bytes;
  };

  void Run();

  std::array<Range, kMaxQueued> queue_;  // A ring.
  std::atomic<uint32_t> queued_ = 0;     // Ranges queued so far; the destructor adds one.
  std::atomic<uint32_t> done_ = 0;
  std::atomic<uint64_t> waiting_bytes_ = 0;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace simurgh
