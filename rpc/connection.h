#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rpc/async.h"
#include "rpc/buffer.h"
#include "rpc/control.h"
#include "rpc/flow_watch.h"
#include "rpc/frame.h"
#include "rpc/incoming_payload.h"
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
  // The same without waiting: nothing when ReadFrame() must wait for it.
  std::optional<StatusOr<IncomingFrame>> TryReadFrame();

  // How to find the landing of a message that arrives in chunks, by its id; null when there is
  // none, or not any more. Those of a gathered chunk are filled together.
  void FindIncomingPayloadsBy(std::function<IncomingPayload*(uint64_t)> find) {
    find_incoming_payload_ = std::move(find);
  }

  // What is left of the payload that follows the last frame.
  uint64_t payload_left() const { return payload_left_; }
  // Reads it into the landing, as far as that is not abandoned. Bytes go straight to their places,
  // but for payloads below 4 KiB, which may have come in with the metadata.
  [[nodiscard]] awaitable<Status> ReadPayload(IncomingPayload& landing);
  // The same without waiting: nothing when ReadPayload() must wait for the rest.
  std::optional<Status> TryReadPayload(IncomingPayload& landing);
  [[nodiscard]] awaitable<Status> SkipPayload();

  // Whether so much has been read without a wait that others on the thread should have their turn.
  bool TurnIsOver() const;
  [[nodiscard]] awaitable<void> Yield();

  // From now on nothing is written to the places of the landing; what still arrives is skipped.
  void Abandon(IncomingPayload& landing);

  // --- Writing, in connection_write.cc.

  // Queues a frame; the ticket tells its fate. Unless open(), the frame is dropped.
  Outbox::Ticket Send(OutgoingFrame&& frame);
  // The frames that have not been written.
  Outbox& outbox() { return outbox_; }
  // Waits until some bytes have been written or the connection has ended. False when the caller
  // was cancelled first.
  [[nodiscard]] awaitable<bool> WaitForWrite() { return written_.Wait(Clock::time_point::max()); }

  // --- Life.

  // Limits of what is received from now on.
  void SetLimits(FrameLimits limits) { limits_ = limits; }

  // Large segments are lent and borrowed from now on.
  void Share(std::shared_ptr<Sharing> sharing);
  // Null when there is no shared memory.
  const std::shared_ptr<Sharing>& sharing() const { return sharing_; }

  // The handshake is done: the observer hears of this connection from now on.
  void Establish(std::string name, const PeerHello& peer);

  // Ends reading and writing at once. The first reason stays.
  void Close(Status reason);
  // Takes no more frames and closes when those queued have been written.
  void CloseAfterWrites(Status reason);

  // What the coroutine that reads sends is kept back until it waits or gives others their turn, so
  // that it leaves together. Once that is 16 KiB, it leaves with the next frame that makes so many
  // frames or 1 MiB of it, or that comes 100 us after this end has waited or written: the peer may
  // have nothing else to do. Any number of frames, unless told. Work between two sends that never
  // waits keeps the first back for as long as it takes.
  void CorkAtMost(size_t frames) { max_corked_frames_ = frames; }
  // The coroutine that reads is about to wait for something else: what has been sent leaves.
  void Uncork();

  // Whether the peer sends no more, as far as the stream knows: what it has sent may be unread.
  bool hung_up() { return stream_->hung_up(); }
  // Whether the coroutine that reads waits for the peer.
  bool waiting() const { return waiting_; }
  // Where both directions stand.
  Flow incoming() const;
  Flow outgoing() const;

  bool open() const { return reason_.ok() && closing_.ok(); }
  const Status& reason() const { return reason_; }
  const std::string& peer() const { return peer_; }
  const FrameLimits& limits() const { return limits_; }
  asio::any_io_executor executor() { return stream_->executor(); }

 private:
  // A header and a table of one segment: no payload begins before them.
  static constexpr uint64_t kMinAheadBytes = kHeaderBytes + sizeof(uint64_t);

  // Reading. What must lie in the read-ahead buffer for the frame being read to go on, and what
  // may.
  struct Wanted {
    uint64_t bytes = 0;
    uint64_t limit = 0;
  };
  // What a gathered chunk has of one message.
  struct Piece {
    uint64_t id = 0;
    uint64_t left = 0;  // Bytes not read.
  };
  Wanted WantedOfFrame() const;
  Status TakeHeader();
  StatusOr<IncomingFrame> TakeFrame();
  // A gathered chunk is read as the chunks of one message each that it stands for, of which id and
  // payload are known.
  Status TakePieces(const IncomingFrame& gathered);
  IncomingFrame TakePiece();
  // Of a frame whose table and metadata are larger than the read-ahead buffer.
  [[nodiscard]] awaitable<StatusOr<IncomingFrame>> ReadLargeHead();
  // Reads so many elements; memory is taken only for what has come and as much again.
  template <typename Vector>
  [[nodiscard]] awaitable<Status> ReadVector(Vector& elements, size_t count);
  // Where the next bytes of the payload go, and what may be read ahead behind it.
  std::span<const asio::mutable_buffer> RoomFor(const IncomingPayload& landing);
  // How many of the bytes to come are worth to sleep for; 0 when the next ones are wanted at once.
  uint64_t WorthSleeping(const IncomingPayload& landing) const;
  // So many bytes have been read there.
  void Land(IncomingPayload& landing, uint64_t bytes);
  // As many of them as belong to the landing; returns how many.
  uint64_t LandIn(IncomingPayload& landing, uint64_t& left, uint64_t bytes);
  // Around every wait for something to read; what was sent while frames were read leaves before.
  // in_frame: the peer has begun a frame and owes the rest.
  void BeginWait(bool in_frame);
  void EndWait();
  void BeginTurn();
  [[nodiscard]] awaitable<Status> Skip(uint64_t bytes);
  // Checks the frame's tables and borrows what is lent.
  Status AcceptTables(IncomingFrame& frame, std::span<const BorrowedSegment> loans);
  // The status of a read or write that failed.
  static Status StreamError(const char* what, const Stream::ErrorCode& error);
  Status AfterRead(const Stream::Progress& progress);

  // Writing.
  void PostFlush();
  bool CorkIsFull() const;
  void Flush();

  const std::unique_ptr<Stream> stream_;
  std::string peer_;
  FrameLimits limits_;
  const ObserverLink observer_;
  std::shared_ptr<Sharing> sharing_;
  bool established_ = false;
  Status reason_;   // Why it is closed; ok while it is not.
  Status closing_;  // Why it will close once written; ok if it will not.

  ReadAhead ahead_;
  uint64_t ahead_limit_ = kMinAheadBytes;  // Of what may be read beyond the frame being read.
  std::optional<FrameHeader> header_;      // Of the frame being read, once it is there.
  uint64_t payload_left_ = 0;
  std::deque<Piece> pieces_;  // Of a gathered chunk, those behind the one being read.
  std::function<IncomingPayload*(uint64_t)> find_incoming_payload_;
  std::array<asio::mutable_buffer, 64> room_;  // Asio passes no more to one system call.
  IncomingPayload* reading_ = nullptr;         // What ReadPayload() fills.
  asio::cancellation_signal stop_reading_;
  bool waiting_ = false;
  bool waiting_in_frame_ = false;
  uint64_t frames_read_ = 0;
  uint64_t bytes_read_ = 0;
  uint64_t turn_frames_ = 0;  // frames_read_ and bytes_read_ when the turn began.
  uint64_t turn_bytes_ = 0;

  Outbox outbox_;
  WaitList written_;
  bool corked_ = false;           // The coroutine that reads runs, and will flush.
  Clock::time_point cork_began_;  // Or when something was written since.
  size_t max_corked_frames_ = SIZE_MAX;
  bool flush_pending_ = false;  // Posted, or waiting for the stream.
  uint64_t bytes_written_ = 0;
  uint64_t times_drained_ = 0;  // The outbox.
};

}  // namespace simurgh::rpc
