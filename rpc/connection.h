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
#include "rpc/gate.h"
#include "rpc/message.h"
#include "rpc/observer_link.h"
#include "rpc/stream.h"

namespace simurgh::rpc {

// A frame without its payload, as it arrived.
struct IncomingFrame {
  FrameHeader header;
  std::vector<uint64_t> lengths;  // Of its segments.
  std::vector<std::byte> metadata;
};

struct OutgoingFrame {
  FrameHeader header;  // Kind and ids; lengths are filled in when it is sent.
  OutgoingMessage message;
  Gate::Pass pass;  // Given back when the frame has been written or dropped.
};

// Frames over one stream, in both directions. Knows nothing of calls.
//
// Invariants: one reading operation and one writing operation at a time; frames leave in the order
// of Send.
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

  // Reads the payload of the last frame. places: one for each of its segments, of that length.
  // Bytes go straight there, but for payloads below 4 KiB, which may have come in with the
  // metadata.
  [[nodiscard]] awaitable<Status> ReadPayload(std::span<const IncomingSegment> places);
  [[nodiscard]] awaitable<Status> SkipPayload();

  // From now on nothing is written to the places of the payload being read; its rest is skipped.
  void AbandonPayload();

  // --- Writing, in connection_write.cc.

  // Queues a frame; its number tells its fate. Requires open(), else the frame is dropped.
  uint64_t Send(OutgoingFrame frame);

  // Takes a frame back that has not begun to be written.
  bool Withdraw(uint64_t number);

  // Whether the peer may have got the whole frame.
  bool MaybeSent(uint64_t number) const { return number <= begun_; }
  // Whether the frame lies in the kernel, so that its bytes are not needed any more.
  bool Written(uint64_t number) const { return number <= written_; }

  // --- Life.

  // Limits of what is received from now on.
  void SetLimits(FrameLimits limits) { limits_ = limits; }

  // The handshake is done: the observer hears of this connection from now on.
  void Establish(std::string peer);

  // Ends reading and writing at once. The first reason stays.
  void Close(Status reason);
  // Takes no more frames and closes when those queued have been written.
  void CloseAfterWrites(Status reason);

  bool open() const { return reason_.ok() && closing_.ok(); }
  const Status& reason() const { return reason_; }
  const std::string& peer() const { return peer_; }
  const FrameLimits& limits() const { return limits_; }
  asio::any_io_executor executor() { return stream_->executor(); }

 private:
  // Reading. At least `need` bytes buffered, and not more than `limit`.
  [[nodiscard]] awaitable<Status> Fill(size_t need, size_t limit);
  // Fills `places` from the read-ahead buffer, then from the socket, until they are full or
  // abandoned. Up to `ahead` bytes of what follows may be buffered.
  [[nodiscard]] awaitable<Status> ReadInto(Places& places, size_t ahead);
  [[nodiscard]] awaitable<Status> Skip(uint64_t bytes);
  Status AfterRead(const boost::system::error_code& error, size_t bytes);

  // Writing.
  void StartWrite();
  void GatherBuffers();
  void Write();
  void OnWritten(const Stream::ErrorCode& error);

  const std::unique_ptr<Stream> stream_;
  std::string peer_;
  FrameLimits limits_;
  const ObserverLink observer_;
  bool established_ = false;
  Status reason_;   // Why it is closed; ok while it is not.
  Status closing_;  // Why it will close once written; ok if it will not.

  ReadAhead ahead_;
  uint64_t payload_left_ = 0;  // Of the frame being read.
  bool abandoned_ = false;
  asio::cancellation_signal stop_reading_;

  struct Queued {
    OutgoingFrame frame;
    std::vector<uint64_t> table;
    uint64_t number = 0;
    uint64_t bytes = 0;
  };
  std::deque<Queued> queue_;
  bool flush_posted_ = false;
  std::vector<Queued> writing_;               // Stays in place until its write has completed.
  std::vector<asio::const_buffer> gathered_;  // Of writing_.
  size_t gathered_done_ = 0;                  // Buffers of it that have been written.
  uint64_t bytes_written_ = 0;                // Of writing_.
  uint64_t last_number_ = 0;
  uint64_t begun_ = 0;    // The last frame of which a byte may have left.
  uint64_t written_ = 0;  // The last frame written whole.
};

}  // namespace simurgh::rpc
