#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>

namespace simurgh {

// Gives memory its pages before it is needed. The system clears a page when it is first touched: a
// huge one takes from a third of a millisecond to several where the machine is virtual. That is
// done by a thread here, which runs where its creator may run and takes memory of the same node.
// What it has not reached yet, whoever touches it first gets as ever.
//
// Threads: one owner, which never waits for the other thread. That starts with the first
// Prefault().
class Prefaulter {
 public:
  Prefaulter() = default;
  Prefaulter(const Prefaulter&) = delete;
  Prefaulter& operator=(const Prefaulter&) = delete;
  ~Prefaulter();

  // Asks for the pages of mapped memory; false, and nothing is asked for, while kMaxWanted ranges
  // wait for theirs.
  // Lifetime: the memory stays mapped until the prefaulter goes.
  [[nodiscard]] bool Prefault(std::byte* first, uint64_t bytes);

  // Of what was asked for, what has not got its pages yet.
  uint64_t waiting_bytes() const { return waiting_bytes_.load(std::memory_order_acquire); }

 private:
  static constexpr uint32_t kMaxWanted = 64;

  struct Range {
    std::byte* first;
    uint64_t bytes;
  };

  void Run();

  std::array<Range, kMaxWanted> wanted_;  // A ring.
  std::atomic<uint32_t> asked_ = 0;       // Ranges ever; one more at the end.
  std::atomic<uint32_t> done_ = 0;
  std::atomic<uint64_t> waiting_bytes_ = 0;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace simurgh
