#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "rpc/borrowed_segment.h"
#include "rpc/memory_file.h"
#include "rpc/message.h"
#include "simurgh/base/status.h"

namespace simurgh::rpc {

// What a peer lends us of its region, and our board, on which we give it back.
//
// Threads: one; what is borrowed is let go by any.
// Lifetime: what is borrowed keeps the region, also after the connection and the peer have gone.
class IncomingRegion : public std::enable_shared_from_this<IncomingRegion> {
  struct Private {
    explicit Private() = default;
  };

 public:
  // Larger ones are refused.
  static constexpr uint64_t kMaxBytes = uint64_t{1} << 40;

  // Makes the board.
  // Errors: UNAVAILABLE.
  static StatusOr<std::shared_ptr<IncomingRegion>> Create();
  IncomingRegion(Private, SharedMemory board) : board_(std::move(board)) {}

  // The board for the peer, to read. Once; not needed here any more.
  FileDescriptor TakeBoard() { return std::move(board_.file); }

  // The peer's region.
  // Errors: those of MapPeerMemory.
  Status Connect(const FileDescriptor& file);

  // Bytes of the peer's region, to read where they lie until the owner is let go. The peer may
  // change them meanwhile, though it should not: who must be sure of what was checked copies first.
  // Errors: DATA_LOSS for a loan that is not in the region or not aligned, or whose slot we still
  // hold.
  StatusOr<ReceivedSegment> Borrow(const BorrowedSegment& loan, uint64_t length);

 private:
  void GiveBack(const BorrowedSegment& loan);

  SharedMemory board_;
  Mapping region_;
  std::array<std::atomic<bool>, kMaxBorrowedSegments> held_{};
};

}  // namespace simurgh::rpc
