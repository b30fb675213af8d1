#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "rpc/async.h"
#include "rpc/borrowed_segment.h"
#include "rpc/file_descriptor.h"
#include "rpc/incoming_region.h"
#include "rpc/message.h"
#include "rpc/outgoing_region.h"
#include "simurgh/base/status.h"

namespace simurgh::rpc {

// The memory that the two ends of a connection show each other: our region and the peer's.
//
// Threads: that of its executor, but for Allocate(). Lifetime: what came of it may outlive it.
class Sharing : public std::enable_shared_from_this<Sharing> {
 public:
  // A smaller segment travels in its frame: cheaper than a loan.
  static constexpr size_t kMinLentBytes = 4'096;
  // Pages of our region that stay when they are not needed.
  static constexpr uint64_t kKeptBytes = uint64_t{2} << 20;

  // Our half, for the peer to agree to. region_bytes: address space that one connection may use to
  // send; when it is full, segments travel in their frames.
  // Errors: UNAVAILABLE.
  static StatusOr<std::shared_ptr<Sharing>> Offer(asio::any_io_executor executor,
                                                  uint64_t region_bytes);

  // What the peer needs of us, in this order: region, board. Once.
  std::vector<FileDescriptor> TakeFiles();

  // The peer's half, as it came.
  // Errors: INVALID_ARGUMENT for files that are not of this kind; RESOURCE_EXHAUSTED when not all
  // arrived; UNAVAILABLE.
  Status Agree(const std::vector<FileDescriptor>& files);

  // Memory to produce a segment in; nothing when there is no room. Threads: any.
  std::optional<SegmentBuffer> Allocate(size_t bytes) { return outgoing_->Allocate(bytes); }

  // A loan of a segment to send. One that does not lie in our region is copied there. Nothing when
  // it is better sent in its frame.
  struct Lent {
    BorrowedSegment loan;
    bool copied = false;
  };
  std::optional<Lent> Lend(std::span<const std::byte> bytes);
  void TakeBack(const BorrowedSegment& loan) { outgoing_->TakeBack(loan); }

  // Errors: DATA_LOSS when the loan lies.
  StatusOr<ReceivedSegment> Borrow(const BorrowedSegment& loan, uint64_t length) {
    return incoming_->Borrow(loan, length);
  }

  // The connection has ended.
  void Close();

  Sharing(asio::any_io_executor executor, std::unique_ptr<OutgoingRegion> outgoing,
          std::shared_ptr<IncomingRegion> incoming);

 private:
  // Gives pages back when they have not been needed for a while.
  void TrimLater();

  const std::unique_ptr<OutgoingRegion> outgoing_;
  const std::shared_ptr<IncomingRegion> incoming_;
  asio::steady_timer trim_timer_;
  bool trim_pending_ = false;
};

// Memory to produce a segment in: in shared memory where there is some (null: none) and it has
// room, else a recycled buffer. Threads: any.
SegmentBuffer AllocateSegment(Sharing* sharing, size_t bytes);

}  // namespace simurgh::rpc
