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

// Memory of ours that one peer may read: blocks to produce segments in, and loans of them.
//
// A block is free again when neither its owner nor a loan holds it. A loan ends when the peer gives
// it back, or with the connection.
//
// Threads: any, but for Connect() and TakeFile(). Lifetime: blocks may outlive it.
class OutgoingRegion {
 public:
  // bytes: rounded up to pages; they cost nothing until they are used.
  // Errors: UNAVAILABLE.
  static StatusOr<std::unique_ptr<OutgoingRegion>> Create(uint64_t bytes);
  ~OutgoingRegion();

  // For the peer, to read. Once; not needed here any more.
  FileDescriptor TakeFile();

  // The peer's board: there can be loans from now on. Requires kBoardBytes.
  void Connect(Mapping board);

  // A block to write, aligned to a page; nothing when there is no room, or no connection any more.
  std::optional<SegmentBuffer> Allocate(size_t bytes);

  // Whether the bytes lie in here.
  bool Holds(std::span<const std::byte> bytes) const;

  // Lends bytes of one block, which must not change any more. Nothing when nobody owns such a
  // block, when they are not aligned as loans are, or when there are too many loans.
  std::optional<BorrowedSegment> Lend(std::span<const std::byte> bytes);

  // Ends a loan of which the peer has not been told.
  void TakeBack(const BorrowedSegment& loan);

  // The connection has ended: its loans end, and there are no more. What was lent stays as it is,
  // as the peer may read it for as long as it likes: no block is given out any more, and no page
  // back.
  void Close();

  // Gives pages back to the system that have not been needed since the last call, but for `keep`
  // bytes (whole pages). Whether a later call may find more, though nothing new is allocated.
  bool Trim(uint64_t keep);

  // Of blocks that are owned or lent.
  uint64_t used_bytes();

 private:
  class Memory;
  struct Block;
  struct Lent {
    uint32_t slot = 0;
    std::shared_ptr<const Block> block;
  };

  explicit OutgoingRegion(std::shared_ptr<Memory> memory);

  // Ends the loans that the peer has given back.
  void Reclaim();
  bool closed();

  const std::shared_ptr<Memory> memory_;  // Blocks keep it too.

  Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  Mapping board_ ABSL_GUARDED_BY(mutex_);
  std::vector<Lent> lent_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint32_t> free_slots_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint32_t> generations_ ABSL_GUARDED_BY(mutex_);  // Of the latest loan, by slot.
};

}  // namespace simurgh::rpc
