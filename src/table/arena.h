#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "base/status.h"

namespace simurgh {

inline constexpr uint64_t kHugePage = uint64_t{2} << 20;

constexpr uint64_t RoundUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

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

// The memory of one partition: reserved address space, of which only touched pages take memory.
// Blocks are named by their offset from the start. Memory is returned when the arena is destroyed.
//
// Threads: one owner. Lifetime: blocks never move.
class Arena {
 public:
  // Private anonymous memory. Errors: RESOURCE_EXHAUSTED when the system has no address space left.
  static StatusOr<Arena> Create(uint64_t reserved_bytes);

  // Memory of a nameless file in `directory`, a tmpfs or hugetlbfs. The system frees the file when
  // the process ends, even by a signal.
  // Errors: as Create(); NOT_FOUND and others when the file cannot be created.
  static StatusOr<Arena> CreateInDirectory(const std::string& directory, uint64_t reserved_bytes);

  Arena(Arena&& other) noexcept;
  ~Arena();

  // Returns the offset of `bytes` zeroed bytes, aligned to 64 bytes, or to a huge page if the block
  // is at least that large. Requires that they fit, see ReservationFor().
  uint64_t Reserve(uint64_t bytes);

  // Upper bound of what Reserve(bytes) takes.
  static uint64_t ReservationFor(uint64_t bytes);

  std::byte* at(uint64_t offset) const { return base_ + offset; }
  bool in_file() const { return file_ >= 0; }

  // Advises the system to use huge pages for the whole ones in [offset, offset + bytes).
  void UseHugePages(uint64_t offset, uint64_t bytes);

  // Populates the pages of [offset, offset + bytes) in another thread. Returns false when the
  // prefault thread's queue is full.
  [[nodiscard]] bool Prefault(uint64_t offset, uint64_t bytes);
  // Bytes that are queued for prefaulting.
  uint64_t waiting_bytes() const { return prefault_ == nullptr ? 0 : prefault_->waiting_bytes(); }

  // Populates the pages of [offset, offset + bytes) now if the arena is in a file: a write to a
  // page that a full file system cannot provide raises SIGBUS. Does nothing for private memory.
  // Errors: RESOURCE_EXHAUSTED.
  Status Commit(uint64_t offset, uint64_t bytes);

  // Why the system will not provide huge pages and how to change that; empty when it will.
  std::string HugePageProblem() const;

  // Takes all further pages from a NUMA node. Errors: INVALID_ARGUMENT for an unknown node.
  Status BindToNode(uint32_t node);

 private:
  Arena(std::byte* base, uint64_t size, int file) : base_(base), size_(size), file_(file) {}

  std::byte* base_ = nullptr;
  uint64_t size_ = 0;
  uint64_t used_ = 0;
  int file_ = -1;
  std::unique_ptr<PrefaultThread> prefault_;  // Null until the first Prefault().
};

// A part of an arena that is filled from its start: rows, index segments or queue chunks. Its first
// kHugePageThreshold bytes use 4 KiB pages, so that a table of three rows takes one page. The rest
// uses huge pages, of which some are prefaulted: a sixteenth of the used bytes, within bounds.
//
// Threads: one owner. Lifetime: `arena` must outlive the region and must not be moved.
class ArenaRegion {
 public:
  static constexpr uint64_t kHugePageThreshold = uint64_t{4} << 20;
  static constexpr uint64_t kMinAhead = uint64_t{2} << 20;
  static constexpr uint64_t kMaxAhead = uint64_t{32} << 20;

  ArenaRegion(Arena& arena, uint64_t capacity_bytes);

  // Returns the offset within the region of the next `bytes` bytes, which are zero.
  // Requires that they fit, and, for an arena in a file, that they can be committed.
  uint64_t Allocate(uint64_t bytes);

  // Ensures that the next `bytes` bytes, or the rest of the region, can be written.
  // Errors: RESOURCE_EXHAUSTED when the arena's file system is full.
  Status Commit(uint64_t bytes);

  // Memory that allocating the next `bytes` bytes, or the rest of the region, will add: whole
  // pages, prefaulted ones included.
  uint64_t AddedMemory(uint64_t bytes) const;

  // Resident memory of a region of whole pages, of which `used` bytes are used.
  static uint64_t ResidentBytes(uint64_t used, uint64_t capacity) {
    return used > kHugePageThreshold ? AheadOf(used, capacity, 0) : used;
  }

  std::byte* base() const { return base_; }
  uint64_t used_bytes() const { return used_; }
  uint64_t capacity_bytes() const { return capacity_; }

 private:
  // Granularity of Commit() while the region uses small pages.
  static constexpr uint64_t kCommitBytes = uint64_t{64} << 10;

  static uint64_t NextHugePage(uint64_t used, uint64_t offset) {
    return RoundUp(offset + used, kHugePage) - offset;
  }
  // End of the prefaulted bytes when `used` bytes are used. offset: of the region in its arena.
  static uint64_t AheadOf(uint64_t used, uint64_t capacity, uint64_t offset);
  uint64_t AheadOf(uint64_t used) const { return AheadOf(used, capacity_, offset_); }
  void PrefaultAhead();

  Arena& arena_;
  uint64_t offset_;
  uint64_t capacity_;
  std::byte* base_;
  uint64_t used_ = 0;
  uint64_t prefault_at_ = kHugePageThreshold;  // Value of used_ that triggers PrefaultAhead().
  uint64_t prefaulted_ = 0;                    // End of the bytes queued for prefaulting.
  uint64_t committed_;                         // Allocations up to this end need no commit.
};

}  // namespace simurgh
