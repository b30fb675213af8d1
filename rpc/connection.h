#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "rpc/async.h"
#include "rpc/buffer.h"
#include "rpc/frame.h"
#include "rpc/landing.h"
#include "rpc/observer_link.h"
#include "rpc/outbox.h"
#include "rpc/stream.h"

namespace simurgh::rpc {

// Frames over one stream, in both directions. Knows nothing of calls.
//
// Invariants: one reading operation and one writing operation at a time.
//
// Threads: one, that of the stream's executor.
// Lifetime: a coroutine that reads holds a shared_ptr.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::unique_ptr<Stream> stream, std::string peer, FrameLimits limits,
             ObserverLink observer);

  // --- Reading, in connection_read.cc. Errors of all: DATA_LOSS when the peer broke the protocol,
  // UNAVAILABLE when the connection ended.

  // The next frame up to its payload, which must then be read or skipped.
  [[nodiscard]] awaitable<StatusOr<IncomingFrame>> ReadFrame();

  // Reads the payload that follows the last frame into the landing, as far as it is not abandoned;
  // it must have room. Bytes go straight to their places, but for payloads below 4 KiB, which may
  // have come in with the metadata.
  [[nodiscard]] awaitable<Status> ReadPayload(Landing& landing);
  [[nodiscard]] awaitable<Status> SkipPayload();

  // From now on nothing is written to the places of the landing; what still arrives is skipped.
  void Abandon(Landing& landing);

  // --- Writing, in connection_write.cc.

  // Queues a frame; the ticket tells its fate. Unless open(), the frame is dropped.
  Outbox::Ticket Send(OutgoingFrame frame);
  // The frames that have not been written.
  Outbox& outbox() { return outbox_; }
  // Waits until some bytes have been written or the connection has ended. False when the caller
  // was cancelled first.
  [[nodiscard]] awaitable<bool> WaitForWrite() { return written_.Wait(Clock::time_point::max()); }

  // --- Life.

  // Limits of what is received from now on.
  void SetLimits(FrameLimits limits) { limits_ = limits; }

  // The handshake is done: the observer hears of this connection from now on.
  void Establish(std::string peer, uint16_t protocol);

  // Ends reading and writing at once. The first reason stays.
  void Close(Status reason);
  // Takes no more frames and closes when those queued have been written.
  void CloseAfterWrites(Status reason);

  // The coroutine that reads is about to wait for something else: what has been sent leaves.
  void Uncork();

  bool open() const { return reason_.ok() && closing_.ok(); }
  const Status& reason() const { return reason_; }
  const std::string& peer() const { return peer_; }
  const FrameLimits& limits() const { return limits_; }
  asio::any_io_executor executor() { return stream_->executor(); }

 private:
  // A header and a table of one segment: no payload begins before them.
  static constexpr uint64_t kMinAheadBytes = kHeaderBytes + sizeof(uint64_t);

  // Reading. At least `need` bytes buffered, and not more than `limit`.
  [[nodiscard]] awaitable<Status> Fill(size_t need, size_t limit);
  // The next `bytes` into the places, from the read-ahead buffer and then from the stream, unless
  // the landing they belong to is abandoned; returns how many are left then. Up to `ahead` bytes
  // behind them may be read ahead.
  [[nodiscard]] awaitable<StatusOr<uint64_t>> ReadInto(Places& places, uint64_t bytes,
                                                       uint64_t ahead);
  // Reads when there is something to read; what was sent while frames were read leaves before.
  [[nodiscard]] awaitable<Stream::Progress> Await(std::span<const asio::mutable_buffer> buffers,
                                                  asio::cancellation_slot stop);
  [[nodiscard]] awaitable<Status> Skip(uint64_t bytes);
  // The status of a read or write that failed.
  static Status StreamError(const char* what, const Stream::ErrorCode& error);
  Status AfterRead(const Stream::Progress& progress);

  // Writing.
  void PostFlush();
  void Flush();

  const std::unique_ptr<Stream> stream_;
  std::string peer_;
  FrameLimits limits_;
  const ObserverLink observer_;
  bool established_ = false;
  Status reason_;   // Why it is closed; ok while it is not.
  Status closing_;  // Why it will close once written; ok if it will not.

  ReadAhead ahead_;
  uint64_t ahead_limit_ = kMinAheadBytes;  // Of what may be read beyond the frame being read.
  uint64_t payload_left_ = 0;              // Of the frame being read.
  Landing* reading_ = nullptr;             // What ReadPayload() fills.
  asio::cancellation_signal stop_reading_;

  Outbox outbox_;
  WaitList written_;
  bool corked_ = false;         // The coroutine that reads runs, and will flush.
  bool flush_pending_ = false;  // Posted, or waiting for the stream.
};

}  // namespace simurgh::rpc
