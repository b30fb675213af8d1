#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "simurgh/base/status.h"
#include "table/prefaulter.h"
#include "table/superblock.h"

namespace simurgh {

// The memory of one partition: a range of reserved address space, of which only touched pages cost
// memory. What lies in it is named by its offset from the start, never by a pointer; it begins with
// a superblock. A private arena goes with its process. A shared one is a file of tmpfs or
// hugetlbfs, which outlives it.
//
// Threads: one owner.
// Lifetime: nothing moves and nothing is given back before the arena goes.
class Arena {
 public:
  // Errors: RESOURCE_EXHAUSTED when the system refuses the address space.
  static StatusOr<Arena> Create(uint64_t reserved_bytes);

  // The same in `file`, which is made, or emptied when it is there. The file is locked until the
  // arena goes.
  // Errors: as above; FAILED_PRECONDITION when another process has it; NOT_FOUND and others for a
  // path that cannot be opened.
  static StatusOr<Arena> CreateShared(const std::string& file, uint64_t reserved_bytes,
                                      uint64_t identity);

  // Maps the arena that a process has left in `file`. It takes no further reservations.
  // Errors: as CreateShared(); DATA_LOSS when the file does not begin with a superblock of this
  // version and size; FAILED_PRECONDITION when it holds other tables than `identity` says.
  static StatusOr<Arena> MapShared(const std::string& file, uint64_t identity);

  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;
  ~Arena();

  // The offset of `bytes` more bytes, all zero, 64-byte aligned, or aligned to a huge page when
  // they fill one. Requires that they fit, see ReservationFor().
  uint64_t Reserve(uint64_t bytes);

  // What one Reserve(bytes) takes at most.
  static uint64_t ReservationFor(uint64_t bytes);

  std::byte* at(uint64_t offset) const { return base_ + offset; }
  uint64_t OffsetOf(const void* address) const {
    return static_cast<uint64_t>(static_cast<const std::byte*>(address) - base_);
  }
  ArenaSuperblock& superblock() const { return *reinterpret_cast<ArenaSuperblock*>(base_); }
  bool shared() const { return file_ >= 0; }

  // Asks for huge pages in [offset, offset + bytes), as far as whole ones lie in it. Advice: a
  // system without them goes on with small ones.
  void UseHugePages(uint64_t offset, uint64_t bytes);

  // Has [offset, offset + bytes) get its pages by and by, in another thread; false when too much
  // waits there already.
  [[nodiscard]] bool Prefault(uint64_t offset, uint64_t bytes);
  // Of that, what has not got its pages yet.
  uint64_t waiting_bytes() const {
    return prefaulter_ == nullptr ? 0 : prefaulter_->waiting_bytes();
  }

  // Gives [offset, offset + bytes) of a shared arena its pages now: whoever writes to a file system
  // that has none left is ended by a signal. Private memory has no such end of its own.
  // Errors: RESOURCE_EXHAUSTED.
  Status Commit(uint64_t offset, uint64_t bytes);

  // Why the arena will lie in pages of 4 KiB, and what to change; empty when the system gives huge
  // ones.
  std::string HugePageProblem() const;

  // Takes all further pages from a NUMA node. Errors: INVALID_ARGUMENT when there is no such node.
  Status BindToNode(uint32_t node);

  uint64_t reserved_bytes() const { return size_; }

 private:
  Arena(std::byte* base, uint64_t size, int file) : base_(base), size_(size), file_(file) {}
  static StatusOr<Arena> MapFile(const std::string& path, int file, uint64_t size);
  void WriteSuperblock(uint64_t identity);

  std::byte* base_ = nullptr;
  uint64_t size_ = 0;
  int file_ = -1;
  std::unique_ptr<Prefaulter> prefaulter_;  // Null until it is wanted.
};

// A part of an arena that is filled from its start: rows, index segments or queue chunks. While it
// is small it lives in 4 KiB pages, so that a table of three rows costs a page; what is filled
// beyond kHugePageThreshold lives in huge pages, and some of them are made ready ahead of use: a
// sixteenth of what is filled, within bounds.
//
// Threads: one owner.
// Lifetime: `arena` stays, and stays in place.
class ArenaRegion {
 public:
  static constexpr uint64_t kHugePageThreshold = uint64_t{4} << 20;
  static constexpr uint64_t kLeastAhead = uint64_t{2} << 20;
  static constexpr uint64_t kMaxAhead = uint64_t{32} << 20;

  ArenaRegion(Arena& arena, uint64_t capacity_bytes);

  // The offset within the region of the next `bytes` bytes, zero until they are written.
  // Requires that they fit, and in a shared arena that they are secured or can be.
  uint64_t Allocate(uint64_t bytes);

  // Sees to it that the next `bytes` bytes, or as many as fit, can be written.
  // Errors: RESOURCE_EXHAUSTED when the file system of a shared arena is full.
  Status Commit(uint64_t bytes);

  // Memory that the next `bytes` bytes, or as many as fit, will have the region take beside what it
  // has: whole pages, and those that are made ready ahead.
  uint64_t MoreTaken(uint64_t bytes) const;

  std::byte* base() const { return base_; }
  uint64_t used_bytes() const { return used_; }
  uint64_t capacity_bytes() const { return capacity_; }

 private:
  // What Commit() asks for at once while the region lives in small pages.
  static constexpr uint64_t kSecuredTogether = uint64_t{64} << 10;

  uint64_t NextHugePage(uint64_t used) const;
  // How far huge pages are made ready when `used` bytes are filled.
  uint64_t AheadOf(uint64_t used) const;
  void PrefaultAhead();

  Arena& arena_;
  uint64_t offset_;
  uint64_t capacity_;
  std::byte* base_;
  uint64_t used_ = 0;
  uint64_t look_ahead_at_ = kHugePageThreshold;  // When so much is filled.
  uint64_t populated_ = 0;                       // As far as has been asked for.
  uint64_t secured_;                             // Allocations up to here need no question.
};

}  // namespace simurgh
