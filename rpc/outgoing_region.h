#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "rpc/borrowed_segment.h"
#include "rpc/memory_file.h"
#include "rpc/message.h"
#include "simurgh/base/mutex.h"
#include "simurgh/base/status.h"

namespace simurgh::rpc {

// This end's memory that one peer can read: blocks for segments, and the segments that are lent.
//
// A block is in use while it has an owner or is lent. The peer returns a lent segment, at the
// latest by the end of the connection.
//
// Threads: any, except Connect() and TakeFile(). Lifetime: blocks may outlive the region.
class OutgoingRegion {
 public:
  // bytes: rounded up to pages, which are allocated on use.
  // Errors: UNAVAILABLE.
  static StatusOr<std::unique_ptr<OutgoingRegion>> Create(uint64_t bytes);
  ~OutgoingRegion();

  // The file for the peer. Requires to be called once.
  FileDescriptor TakeFile();

  // Sets the peer's board and enables Lend(). Requires kBoardBytes.
  void Connect(Mapping board);

  // A page-aligned block, or nullopt if there is no space or the connection has ended.
  std::optional<SegmentBuffer> Allocate(size_t bytes);

  // Whether the bytes are in this region.
  bool Holds(std::span<const std::byte> bytes) const;

  // Lends bytes of one block, which must not change afterwards. Returns nullopt if they are not in
  // a live block, are misaligned, or all slots are in use.
  std::optional<BorrowedSegment> Lend(std::span<const std::byte> bytes);

  // Takes back a segment that has not been sent.
  void TakeBack(const BorrowedSegment& segment);

  // The connection has ended. The peer can read lent bytes at any time, so no block is
  // allocated and no page is released afterwards.
  void Close();

  // Releases pages that have not been used since the last call, except `keep` bytes (whole pages).
  // Returns whether a later call may release more without new allocations.
  bool Trim(uint64_t keep);

  // Bytes of owned and lent blocks.
  uint64_t used_bytes();

 private:
  class Memory;
  struct Block;
  struct Lent {
    uint32_t slot = 0;
    std::shared_ptr<const Block> block;
  };

  explicit OutgoingRegion(std::shared_ptr<Memory> memory);

  // Frees the slots and blocks that the peer has returned.
  void Reclaim();
  bool closed();

  const std::shared_ptr<Memory> memory_;  // Also held by blocks.

  Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  Mapping board_ ABSL_GUARDED_BY(mutex_);
  std::vector<Lent> lent_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint32_t> free_slots_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint32_t> generations_ ABSL_GUARDED_BY(mutex_);  // The current ones, by slot.
};

}  // namespace simurgh::rpc
