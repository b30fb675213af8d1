#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "rpc/borrowed_segment.h"
#include "rpc/memory_file.h"
#include "rpc/message.h"
#include "simurgh/base/status.h"

namespace simurgh::rpc {

// The segments that this end borrows from its peer's region, and the board that returns them.
//
// Threads: one; any thread may destroy the owner of a borrowed segment.
// Lifetime: a borrowed segment keeps the region, also after the connection has ended.
class IncomingRegion : public std::enable_shared_from_this<IncomingRegion> {
 public:
  // Maximum size of a region.
  static constexpr uint64_t kMaxBytes = uint64_t{1} << 40;

  // Creates the board.
  // Errors: UNAVAILABLE.
  static StatusOr<std::shared_ptr<IncomingRegion>> Create();

  // The board's file for the peer. Requires to be called once.
  FileDescriptor TakeBoard() { return std::move(board_.file); }

  // Maps the peer's region.
  // Errors: those of MapPeerMemory.
  Status Connect(const FileDescriptor& file);

  // Bytes of the peer's region, valid until the owner is destroyed. A malicious peer can change
  // them at any time: code that relies on checked values must copy first. Errors: DATA_LOSS for a
  // segment outside the region, misaligned, or in a slot that is in use.
  StatusOr<ReceivedSegment> Borrow(const BorrowedSegment& segment, uint64_t length);

 private:
  explicit IncomingRegion(SharedMemory board) : board_(std::move(board)) {}

  SharedMemory board_;
  Mapping region_;
  std::array<std::atomic<bool>, kMaxBorrowedSegments> held_{};
};

}  // namespace simurgh::rpc
