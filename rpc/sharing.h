#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/file_descriptor.h"
#include "base/status.h"
#include "rpc/async.h"
#include "rpc/message.h"
#include "rpc/region.h"
#include "rpc/transport.h"

namespace simurgh::rpc {

// The shared memory of a connection: this end's region and the peer's.
//
// Threads: that of the executor, except Allocate(). Lifetime: buffers and segments may outlive it.
class Sharing : public std::enable_shared_from_this<Sharing> {
 public:
  // Smaller segments are sent in the frame, which is cheaper.
  static constexpr size_t kMinBorrowedBytes = 4'096;

  // Creates this end's region and board. region_bytes: size of the region; when it is full,
  // segments are sent in their frames. Errors: UNAVAILABLE.
  static StatusOr<std::shared_ptr<Sharing>> Offer(asio::any_io_executor executor,
                                                  uint64_t region_bytes);

  // The files for the peer: region, board. Requires to be called once.
  std::vector<FileDescriptor> TakeFiles();

  // Maps the peer's files.
  // Errors: INVALID_ARGUMENT for files of a wrong kind or size; RESOURCE_EXHAUSTED when one is
  // missing; UNAVAILABLE.
  Status Agree(const std::vector<FileDescriptor>& files);

  // Memory for a segment, or nullopt if the region is full. Threads: any.
  std::optional<SegmentBuffer> Allocate(size_t bytes) { return outgoing_->Allocate(bytes); }

  // Lends a segment to send, which is copied if it is not in this end's region. Returns nullopt if
  // it has to be sent in its frame.
  struct Lent {
    BorrowedSegment segment;
    bool copied = false;
  };
  std::optional<Lent> Lend(std::span<const std::byte> bytes);
  void TakeBack(const BorrowedSegment& segment) { outgoing_->TakeBack(segment); }

  // Errors: DATA_LOSS for an invalid segment.
  StatusOr<ReceivedSegment> Borrow(const BorrowedSegment& segment, uint64_t length) {
    return incoming_->Borrow(segment, length);
  }

  // Requires that the connection has ended.
  void Close() {
    outgoing_->Close();
    trim_timer_.cancel();
  }

  Sharing(const asio::any_io_executor& executor, std::shared_ptr<OutgoingRegion> outgoing,
          std::shared_ptr<IncomingRegion> incoming)
      : outgoing_(std::move(outgoing)), incoming_(std::move(incoming)), trim_timer_(executor) {}

 private:
  // Releases idle pages later.
  void TrimLater();

  const std::shared_ptr<OutgoingRegion> outgoing_;
  const std::shared_ptr<IncomingRegion> incoming_;
  asio::steady_timer trim_timer_;
  bool trim_pending_ = false;
};

// Memory for a segment: shared if `sharing` is not null and has space, else a pooled buffer.
// Threads: any.
SegmentBuffer AllocateSegment(Sharing* sharing, size_t bytes);

// The agreement on shared memory when a Unix socket opens: each end sets a feature bit and passes
// its files with its HELLO. Without the bit of both ends, payload is sent over the socket.
//
// Threads: one.
class SharingHandshake {
 public:
  // allowed: the address allows it, and the connection is a Unix socket.
  explicit SharingHandshake(bool allowed)
      : files_(allowed ? std::make_shared<FilePassing>() : nullptr) {}

  // The files to pass over the connection's stream; null if none are passed.
  const std::shared_ptr<FilePassing>& files() const { return files_; }

  // Passes this end's files with the next bytes written, which must be its HELLO. Returns the
  // feature bits for the HELLO.
  uint64_t Offer(const asio::any_io_executor& executor, uint64_t region_bytes);

  // Returns the shared memory, or null. Requires that Offer() was called and the peer's HELLO has
  // arrived.
  // Errors: those of Sharing::Agree.
  StatusOr<std::shared_ptr<Sharing>> Agree(uint64_t peer_features);

 private:
  std::shared_ptr<FilePassing> files_;
  std::shared_ptr<Sharing> sharing_;
};

}  // namespace simurgh::rpc
