#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"

#include "rpc/async.h"
#include "rpc/buffer.h"
#include "rpc/call.h"
#include "rpc/control.h"
#include "rpc/frame.h"
#include "rpc/message.h"
#include "rpc/outbox.h"
#include "rpc/stream.h"
#include "rpc/timers.h"
#include "rpc/window.h"

namespace simurgh::rpc {

// A received frame without its payload.
struct IncomingFrame {
  FrameHeader header;
  absl::InlinedVector<uint64_t, 2> lengths;  // One per segment.
  std::vector<std::byte> metadata;
  // One per segment; segments in the frame have no owner. Empty if none is borrowed.
  std::vector<ReceivedSegment> borrowed;
  WindowShare share;         // Share of the server's memory for requests.
  WindowShare answer_share;  // Share of the server's memory for answers.
  Status refusal;            // Why the head was not read; the head then counts as payload.

  bool is_borrowed(size_t segment) const {
    return !borrowed.empty() && borrowed[segment].owner != nullptr;
  }

  // Metadata and all segments.
  uint64_t message_bytes() const {
    return std::accumulate(lengths.begin(), lengths.end(), uint64_t{metadata.size()});
  }
  // The length of the frame, counting borrowed segments.
  uint64_t bytes() const {
    return kHeaderBytes + lengths.size() * sizeof(uint64_t) + message_bytes();
  }
};

// A message that arrives, at once or in chunks, and the destinations of its payload.
class IncomingPayload {
 public:
  // Requires one destination for each segment, of the same length or kAllocate.
  IncomingPayload(IncomingFrame&& frame, std::vector<IncomingSegment>&& destinations);

  const FrameHeader& header() const { return frame_.header; }
  WindowShare TakeShare() { return std::move(frame_.share); }
  // Bytes of the payload that have not been read.
  uint64_t left() const { return left_; }

  // Requires left() == 0.
  IncomingMessage TakeMessage() {
    return {.metadata = std::move(frame_.metadata), .segments = std::move(segments_)};
  }

 private:
  friend class Connection;

  IncomingFrame frame_;
  std::vector<ReceivedSegment> segments_;
  ReceiveBuffers destinations_;  // Destinations of segments that are not borrowed.
  uint64_t left_;
  uint64_t copied_bytes_ = 0;  // Bytes copied from the peer's memory and not yet reported.
  bool abandoned_ = false;     // See Connection::Abandon().
};

// Sends and receives frames over one stream.
//
// Invariants: one read operation and one write operation at a time.
//
// Threads: that of the stream's executor.
// Lifetime: the reading coroutine holds a shared_ptr.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<Stream> stream, std::string peer, FrameLimits limits,
             ObserverLink observer);

  // --- Reading.
  // Errors of all: DATA_LOSS when the peer broke the protocol, UNAVAILABLE when the connection
  // ended.

  // The next frame without its payload, which must then be read or skipped.
  [[nodiscard]] awaitable<StatusOr<IncomingFrame>> ReadFrame();
  // The same without waiting; nullopt when ReadFrame() has to wait.
  std::optional<StatusOr<IncomingFrame>> TryReadFrame();

  // find: returns the incomplete chunked message with an id, or null. The payloads of a gathered
  // chunk are read together.
  void FindIncomingPayloadsBy(std::function<IncomingPayload*(uint64_t)> find) {
    find_incoming_payload_ = std::move(find);
  }

  // admit: called before a head is read that exceeds the read-ahead buffer, with a frame that has
  // its header only; may wait. After an error, the head is skipped and the frame has the error as
  // its refusal; DATA_LOSS ends the connection. timeout: for the arrival of the head.
  using HeadAdmission = std::function<awaitable<Status>(IncomingFrame& frame)>;
  void AdmitLargeHeadsBy(HeadAdmission admit, Clock::duration timeout) {
    admit_large_head_ = std::move(admit);
    large_head_timeout_ = timeout;
  }

  // Unread bytes of the last frame's payload.
  uint64_t payload_left() const { return payload_left_; }
  // Reads the payload into its destinations, unless abandoned. Only payloads below 4 KiB can pass
  // through the read-ahead buffer.
  [[nodiscard]] awaitable<Status> ReadPayload(IncomingPayload& payload);
  // The same without waiting; nullopt when ReadPayload() has to wait.
  std::optional<Status> TryReadPayload(IncomingPayload& payload);
  [[nodiscard]] awaitable<Status> SkipPayload();

  // Returns whether enough was read without waiting to let other connections of the thread run.
  bool TurnIsOver() const;
  [[nodiscard]] awaitable<void> Yield();

  // Stops writing to the destinations of `payload`; its remaining bytes are skipped.
  void Abandon(IncomingPayload& payload);

  // --- Writing.

  // Queues a frame. Drops it unless open().
  Outbox::Ticket Send(OutgoingFrame&& frame);
  Outbox& outbox() { return outbox_; }
  // Waits for the next write or the end of the connection. Returns false when the caller was
  // cancelled first.
  [[nodiscard]] awaitable<bool> WaitForWrite() { return written_.Wait(Clock::time_point::max()); }

  // --- Lifetime.

  // Sets the limits of received frames.
  void SetLimits(FrameLimits limits) { limits_ = limits; }

  // Uses shared memory for large segments from now on.
  void Share(std::shared_ptr<Sharing> sharing) {
    sharing_ = sharing;
    outbox_.Share(std::move(sharing));
  }
  // Null without shared memory.
  const std::shared_ptr<Sharing>& sharing() const { return sharing_; }

  // The HELLOs have been exchanged: reports the connection and enables chunks and hints.
  void Establish(std::string name, const PeerHello& peer) {
    peer_ = std::move(name);
    outbox_.Establish(peer.limits);
    established_ = true;
    observer_->OnConnect(peer_);
  }

  // Ends reading and writing at once. The first reason is kept.
  void Close(Status reason);
  // Accepts no more frames and closes when the queued ones have been written.
  void CloseAfterWrites(Status reason);

  // Frames that the reading coroutine sends are corked: held back until it waits or yields, to save
  // system calls. 16 KiB or more leave earlier, to give the peer work: `frames` frames (default:
  // unlimited), 1 MiB, or a frame sent 100 us after the last wait or write. Computation between two
  // sends delays the first.
  void CorkAtMost(size_t frames) { max_corked_frames_ = frames; }
  // Sends the corked frames. The reading coroutine calls it before it waits for something else.
  void Uncork();

  // See Stream.
  bool hung_up() { return stream_->hung_up(); }
  bool is_trusted() { return stream_->is_trusted(); }
  Status CheckRole(const std::string& role) { return stream_->CheckRole(role); }
  // Returns whether the reading coroutine waits for the peer.
  bool waiting() const { return waiting_; }
  Flow incoming() const {
    return {.expected = waiting_in_frame_,
            .rounds = frames_read_,
            .bytes = bytes_read_ + stream_->unread()};
  }
  Flow outgoing() const {
    return {.expected = !outbox_.empty(), .rounds = times_drained_, .bytes = bytes_written_};
  }
  // Returns whether the peer has stopped within a frame, or within chunked messages although small
  // frames arrive. in_chunks: such messages are incomplete; rounds: times that this has ended.
  bool IsStalled(bool in_chunks, uint64_t rounds, Clock::time_point now, Clock::duration timeout);

  bool open() const { return reason_.ok() && closing_.ok(); }
  const Status& reason() const { return reason_; }
  const std::string& peer() const { return peer_; }
  asio::any_io_executor executor() { return stream_->executor(); }

 private:
  // A header and one table entry: no payload starts before them.
  static constexpr uint64_t kMinAheadBytes = kHeaderBytes + sizeof(uint64_t);

  // Bytes needed to decode the current frame, and the maximum to read ahead.
  struct Wanted {
    uint64_t bytes = 0;
    uint64_t limit = 0;
  };
  // The bytes of one message in a gathered chunk.
  struct Piece {
    uint64_t id = 0;
    uint64_t left = 0;  // Unread.
  };
  Wanted WantedOfFrame() const;
  Status TakeHeader();
  StatusOr<IncomingFrame> TakeFrame();
  IncomingFrame TakePiece();
  // Reads a head that is larger than the read-ahead buffer.
  [[nodiscard]] awaitable<StatusOr<IncomingFrame>> ReadLargeHead();
  // Reads `count` elements. Allocates at most twice the received bytes.
  template <typename Vector>
  [[nodiscard]] awaitable<Status> ReadVector(Vector& elements, size_t count);
  // Buffers for the next read: the payload's destinations, then those of the other pieces, then the
  // read-ahead buffer.
  std::span<const asio::mutable_buffer> RoomFor(const IncomingPayload& payload);
  // The number of bytes to sleep for; 0 to read without sleeping.
  uint64_t WorthSleeping(const IncomingPayload& payload) const;
  // Accounts for bytes read into RoomFor().
  void Advance(IncomingPayload& payload, uint64_t bytes);
  // Accounts for the bytes that belong to `payload` and returns their count.
  uint64_t AdvanceOne(IncomingPayload& payload, uint64_t& left, uint64_t bytes);
  // Called around every wait for bytes. BeginWait() uncorks. in_frame: a frame is incomplete.
  void BeginWait(bool in_frame);
  void EndWait();
  void BeginTurn();
  // Checks the frame's tables and borrows its segments in shared memory.
  Status AcceptTables(IncomingFrame& frame, std::span<const BorrowedSegment> borrowed);
  static Status StreamError(const char* what, const Stream::ErrorCode& error);
  Status AfterRead(const Stream::Progress& progress);

  void PostFlush();
  bool CorkIsFull() const;
  void Flush();

  const std::shared_ptr<Stream> stream_;
  std::string peer_;
  FrameLimits limits_;
  const ObserverLink observer_;
  std::shared_ptr<Sharing> sharing_;
  bool established_ = false;
  Status reason_;   // Reason of Close(); else OK.
  Status closing_;  // Reason of CloseAfterWrites(); else OK.

  ReadAhead ahead_;
  uint64_t ahead_limit_ = kMinAheadBytes;  // Bytes to read ahead of the current frame, at most.
  std::optional<FrameHeader> header_;      // The current frame, when decoded.
  uint64_t payload_left_ = 0;
  std::deque<Piece> pieces_;  // Remaining pieces of a gathered chunk.
  std::function<IncomingPayload*(uint64_t)> find_incoming_payload_;
  HeadAdmission admit_large_head_;
  Clock::duration large_head_timeout_{};
  std::array<asio::mutable_buffer, 64> room_;  // Asio passes at most 64 to one system call.
  IncomingPayload* reading_ = nullptr;         // The argument of ReadPayload().
  asio::cancellation_signal stop_reading_;
  bool waiting_ = false;
  bool waiting_in_frame_ = false;
  uint64_t frames_read_ = 0;
  uint64_t bytes_read_ = 0;
  uint64_t turn_frames_ = 0;  // frames_read_ and bytes_read_ at the start of the turn.
  uint64_t turn_bytes_ = 0;
  FlowWatch frames_;
  FlowWatch chunks_;

  Outbox outbox_;
  WaitList written_;
  bool corked_ = false;           // The reading coroutine runs and will uncork.
  Clock::time_point cork_began_;  // Time of corking, or of the last write since.
  size_t max_corked_frames_ = SIZE_MAX;
  bool flush_pending_ = false;  // Posted, or the stream is not writable.
  uint64_t bytes_written_ = 0;
  uint64_t times_drained_ = 0;  // Times that the outbox became empty.
};

// Shared by both ends of a call.

// Calls the placement for a frame.
// Errors: the placement's; INTERNAL when it throws or returns destinations of other lengths.
StatusOr<Placed> PlaceSegments(const Placement& placement, const IncomingFrame& frame);

// The length of the frame with this message.
uint64_t FrameBytes(const OutgoingMessage& message);

// Checks a message against its receiver's limits.
// Errors: INVALID_ARGUMENT, naming the limit.
Status CheckFits(const OutgoingMessage& message, const FrameLimits& limits);

// An ERROR that answers a request.
OutgoingFrame ErrorFrame(uint64_t request_id, const Status& error);

}  // namespace simurgh::rpc
