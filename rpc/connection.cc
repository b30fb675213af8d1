#include "rpc/connection.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "rpc/buffer.h"
#include "rpc/control.h"
#include "rpc/timers.h"
#include "rpc/tls.h"

namespace simurgh::rpc {
namespace {

constexpr size_t kScratchBytes = 65'536;
constexpr size_t kFirstVectorBytes = 65'536;

// Limits of one connection's turn: about 200 us of small frames or 100 us of large ones.
constexpr uint64_t kTurnFrames = 256;
constexpr uint64_t kTurnBytes = uint64_t{1} << 20;

// Sleeping and waking takes as long as copying about 100 KiB.
constexpr uint64_t kMinSleepBytes = 524'288;

// Other connections of the thread run after this many bytes.
constexpr uint64_t kMaxTurnBytes = uint64_t{1} << 20;

// Fewer corked bytes wait until the reading coroutine does. Frames that lend this much are not
// corked.
constexpr uint64_t kMinCorkBytes = 16'384;
// More corked bytes leave at once.
constexpr uint64_t kMaxCorkBytes = uint64_t{1} << 20;
// Longer than reading and answering four messages of 64 KiB. For handlers that compute longer, one
// system call per answer is cheap.
constexpr auto kMaxCorkTime = std::chrono::microseconds(100);

size_t BorrowedCount(const FrameHeader& header) {
  return header.has_borrowed() ? header.segment_count : 0;
}

asio::mutable_buffer BufferOf(std::span<std::byte> bytes) { return {bytes.data(), bytes.size()}; }

}  // namespace

IncomingPayload::IncomingPayload(IncomingFrame&& frame, std::vector<IncomingSegment>&& destinations)
    : frame_(std::move(frame)), destinations_({}), left_(frame_.header.payload_length) {
  segments_.reserve(destinations.size());
  ReceiveBuffers::Spans spans;
  for (size_t i = 0; i < destinations.size(); ++i) {
    IncomingSegment& destination = destinations[i];
    if (frame_.is_borrowed(i)) {
      ReceivedSegment& borrowed = frame_.borrowed[i];
      if (destination.allocate) {
        segments_.push_back(std::move(borrowed));
        continue;
      }
      CopyPayload(destination.bytes, borrowed.bytes);
      copied_bytes_ += borrowed.bytes.size();
      borrowed.owner.reset();
    } else {
      if (destination.allocate) {
        SegmentBuffer buffer = PooledBuffer(frame_.lengths[i]);
        destination = {.bytes = buffer.bytes, .owner = std::move(buffer.owner)};
      }
      if (!destination.bytes.empty()) spans.push_back(destination.bytes);
    }
    segments_.push_back({.bytes = destination.bytes, .owner = std::move(destination.owner)});
  }
  destinations_ = ReceiveBuffers(std::move(spans));
}

Connection::Connection(std::shared_ptr<Stream> stream, std::string peer, FrameLimits limits,
                       ObserverLink observer)
    : stream_(std::move(stream)),
      peer_(std::move(peer)),
      limits_(limits),
      observer_(std::move(observer)),
      outbox_(stream_->batch_bytes()),
      written_(stream_->executor()) {}

Status Connection::StreamError(const char* what, const Stream::ErrorCode& error) {
  if (IsTlsRefusal(error)) {
    return WithCloseReason(absl::UnauthenticatedError(error.message()), CloseReason::kTls);
  }
  return absl::UnavailableError(absl::StrCat(what, ": ", error.message()));
}

bool Connection::IsStalled(bool in_chunks, uint64_t rounds, Clock::time_point now,
                           Clock::duration timeout) {
  const Flow frames = incoming();
  const Flow chunks{.expected = in_chunks && waiting_, .rounds = rounds, .bytes = frames.bytes};
  const bool in_frame = frames_.IsStalled(frames, now, timeout);
  return chunks_.IsStalled(chunks, now, timeout) || in_frame;
}

void Connection::Close(Status reason) {
  SIMURGH_CHECK(!reason.ok()) << "Close() needs an error";
  if (!reason_.ok()) return;
  reason_ = std::move(reason);
  stream_->Close();
  if (sharing_ != nullptr) sharing_->Close();
  if (const auto why = CloseReasonOf(reason_)) observer_->OnClose(peer_, *why, reason_);
  if (established_) observer_->OnDisconnect(peer_, reason_);
  outbox_.Drop();
  written_.NotifyAll();
}

void Connection::CloseAfterWrites(Status reason) {
  if (outbox_.empty()) return Close(std::move(reason));
  if (closing_.ok()) closing_ = std::move(reason);
}

// --- Reading.

Status Connection::AfterRead(const Stream::Progress& progress) {
  const auto& [error, bytes] = progress;
  if (!reason_.ok()) return reason_;
  if (error == asio::error::eof) return absl::UnavailableError("the peer closed the connection");
  if (error) return StreamError("read", error);
  observer_->OnBytesReceived(bytes);
  bytes_read_ += bytes;
  return absl::OkStatus();
}

void Connection::BeginWait(bool in_frame) {
  Uncork();
  waiting_ = true;
  waiting_in_frame_ = in_frame;
}

void Connection::EndWait() {
  waiting_ = false;
  waiting_in_frame_ = false;
  BeginTurn();
}

void Connection::BeginTurn() {
  turn_frames_ = frames_read_;
  turn_bytes_ = bytes_read_;
  corked_ = true;
  cork_began_ = Clock::now();
}

bool Connection::TurnIsOver() const {
  return frames_read_ - turn_frames_ >= kTurnFrames || bytes_read_ - turn_bytes_ >= kTurnBytes;
}

awaitable<void> Connection::Yield() {
  observer_->OnThrottle(peer_, ThrottleReason::kTurn);
  Uncork();
  co_await asio::post(asio::use_awaitable);
  BeginTurn();
}

Connection::Wanted Connection::WantedOfFrame() const {
  if (!header_) return {.bytes = kHeaderBytes, .limit = ahead_limit_};
  const uint64_t head = TableBytes(*header_) + header_->metadata_length;
  // A large payload follows the head: no read-ahead.
  if (!header_->payload_is_small()) return {.bytes = head, .limit = head};
  const uint64_t bytes = head + header_->following_bytes();
  return {.bytes = bytes, .limit = std::min<uint64_t>(bytes + ahead_limit_, ReadAhead::kCapacity)};
}

std::optional<StatusOr<IncomingFrame>> Connection::TryReadFrame() {
  if (!pieces_.empty()) return TakePiece();
  for (;;) {
    const Wanted wanted = WantedOfFrame();
    if (wanted.bytes > ReadAhead::kCapacity) return std::nullopt;
    if (ahead_.size() < wanted.bytes) {
      const asio::mutable_buffer room = BufferOf(ahead_.Prepare(wanted.limit - ahead_.size()));
      const Stream::Progress progress = stream_->TryRead({&room, 1});
      if (progress.error == asio::error::would_block) return std::nullopt;
      if (Status status = AfterRead(progress); !status.ok()) return status;
      ahead_.Commit(progress.bytes);
    } else if (header_) {
      return TakeFrame();
    } else if (Status status = TakeHeader(); !status.ok()) {
      return status;
    }
  }
}

awaitable<StatusOr<IncomingFrame>> Connection::ReadFrame() {
  for (;;) {
    std::optional<StatusOr<IncomingFrame>> frame = TryReadFrame();
    if (frame) co_return *std::move(frame);
    if (corked_ && !flush_pending_ && !outbox_.empty() && !TurnIsOver()) {
      Flush();  // More bytes may arrive during the system call.
      continue;
    }
    const Wanted wanted = WantedOfFrame();
    if (wanted.bytes > ReadAhead::kCapacity) co_return co_await ReadLargeHead();
    const asio::mutable_buffer room = BufferOf(ahead_.Prepare(wanted.limit - ahead_.size()));
    const bool in_frame = header_.has_value() || ahead_.size() != 0;
    BeginWait(in_frame);
    const Stream::Progress progress = co_await stream_->Read({&room, 1}, {});
    EndWait();
    SIMURGH_CO_RETURN_IF_ERROR(AfterRead(progress));
    ahead_.Commit(progress.bytes);
  }
}

Status Connection::TakeHeader() {
  SIMURGH_ASSIGN_OR_RETURN(header_, DecodeHeader(ahead_.bytes().first<kHeaderBytes>(), limits_));
  ahead_.Drop(kHeaderBytes);
  ahead_limit_ = std::clamp<uint64_t>(header_->read_ahead, kMinAheadBytes, ReadAhead::kCapacity);
  payload_left_ = header_->following_bytes();
  return absl::OkStatus();
}

StatusOr<IncomingFrame> Connection::TakeFrame() {
  IncomingFrame frame{.header = *std::exchange(header_, std::nullopt)};
  ++frames_read_;
  frame.lengths.resize(frame.header.segment_count);
  frame.metadata.resize(frame.header.metadata_length);
  std::vector<BorrowedSegment> borrowed(BorrowedCount(frame.header));
  (void)ahead_.Take(std::as_writable_bytes(std::span(frame.lengths)));
  (void)ahead_.Take(std::as_writable_bytes(std::span(borrowed)));
  (void)ahead_.Take(frame.metadata);
  SIMURGH_RETURN_IF_ERROR(AcceptTables(frame, borrowed));
  if (!frame.header.gathered()) return frame;
  // Returned as chunks of one message each.
  for (size_t i = 0; i < frame.lengths.size(); ++i) {
    Piece piece{.left = frame.lengths[i]};
    std::memcpy(&piece.id, frame.metadata.data() + i * sizeof(piece.id), sizeof(piece.id));
    const bool again = std::ranges::count(pieces_, piece.id, &Piece::id) != 0;
    if (piece.id == 0 || again) {
      return absl::DataLossError(
          "malformed frame: a gathered chunk names a message twice, or id 0");
    }
    pieces_.push_back(piece);
  }
  return TakePiece();
}

IncomingFrame Connection::TakePiece() {
  const Piece piece = pieces_.front();
  pieces_.pop_front();
  ++frames_read_;  // A piece costs as much as a frame.
  payload_left_ = piece.left;
  IncomingFrame frame;
  frame.header.kind = FrameKind::kChunk;
  frame.header.request_id = piece.id;
  return frame;
}

awaitable<StatusOr<IncomingFrame>> Connection::ReadLargeHead() {
  IncomingFrame frame{.header = *std::exchange(header_, std::nullopt)};
  Clock::time_point deadline = Clock::time_point::max();
  if (admit_large_head_) {
    frame.refusal = co_await admit_large_head_(frame);
    if (!reason_.ok()) co_return reason_;
    if (absl::IsDataLoss(frame.refusal)) co_return frame.refusal;
    if (!frame.refusal.ok()) {
      payload_left_ += TableBytes(frame.header) + frame.header.metadata_length;
      ++frames_read_;
      co_return std::move(frame);
    }
    deadline = Clock::now() + large_head_timeout_;
  }
  // Holds memory that others wait for, so slow progress is not enough.
  const Watchdog watchdog(executor(), deadline, [this] {
    Close(WithCloseReason(absl::DeadlineExceededError("a large head did not arrive in time"),
                          CloseReason::kStalled));
  });
  std::vector<BorrowedSegment> borrowed;
  SIMURGH_CO_RETURN_IF_ERROR(co_await ReadVector(frame.lengths, frame.header.segment_count));
  SIMURGH_CO_RETURN_IF_ERROR(co_await ReadVector(borrowed, BorrowedCount(frame.header)));
  SIMURGH_CO_RETURN_IF_ERROR(co_await ReadVector(frame.metadata, frame.header.metadata_length));
  ++frames_read_;
  SIMURGH_CO_RETURN_IF_ERROR(AcceptTables(frame, borrowed));
  co_return std::move(frame);
}

template <typename Vector>
awaitable<Status> Connection::ReadVector(Vector& elements, size_t count) {
  constexpr size_t kFirst = kFirstVectorBytes / sizeof(typename Vector::value_type);
  while (elements.size() < count) {
    const size_t before = elements.size();
    elements.resize(std::min(count, std::max(2 * before, kFirst)));
    std::span<std::byte> room = std::as_writable_bytes(std::span(elements).subspan(before));
    room = room.subspan(ahead_.Take(room));
    while (!room.empty()) {
      const asio::mutable_buffer buffer = BufferOf(room);
      BeginWait(true);
      const Stream::Progress progress = co_await stream_->Read({&buffer, 1}, {});
      EndWait();
      SIMURGH_CO_RETURN_IF_ERROR(AfterRead(progress));
      room = room.subspan(progress.bytes);
    }
  }
  co_return absl::OkStatus();
}

Status Connection::AcceptTables(IncomingFrame& frame, std::span<const BorrowedSegment> borrowed) {
  SIMURGH_RETURN_IF_ERROR(CheckSegmentTable(frame.header, frame.lengths, borrowed));
  if (!frame.header.has_borrowed()) return absl::OkStatus();
  if (sharing_ == nullptr) {
    return absl::DataLossError("malformed frame: borrowed segments without shared memory");
  }
  frame.borrowed.resize(borrowed.size());
  uint64_t borrowed_bytes = 0;
  for (size_t i = 0; i < borrowed.size(); ++i) {
    if (borrowed[i].slot == kNotBorrowed) continue;
    SIMURGH_ASSIGN_OR_RETURN(frame.borrowed[i], sharing_->Borrow(borrowed[i], frame.lengths[i]));
    borrowed_bytes += frame.lengths[i];
  }
  if (frame.bytes() > limits_.max_frame_bytes) {
    return absl::DataLossError(absl::StrCat("malformed frame: ", frame.bytes(),
                                            " bytes with borrowed segments, expected at most ",
                                            limits_.max_frame_bytes));
  }
  observer_->OnBytesReceived(borrowed_bytes);
  return absl::OkStatus();
}

std::optional<Status> Connection::TryReadPayload(IncomingPayload& payload) {
  if (payload_left_ > payload.left_) {
    return absl::DataLossError("malformed frame: a chunk exceeds its message's payload");
  }
  if (payload.abandoned_) return std::nullopt;
  if (const uint64_t copied = std::exchange(payload.copied_bytes_, 0); copied != 0) {
    observer_->OnPayloadCopied(copied);
  }
  if (const uint64_t copied = payload.destinations_.FillFrom(ahead_, payload_left_); copied != 0) {
    if (stream_->copies()) {
      observer_->OnPayloadCopied(copied);
    } else {
      observer_->OnSmallPayloadCopied(copied);
    }
    payload_left_ -= copied;
    payload.left_ -= copied;
  }
  while (payload_left_ != 0) {
    if (TurnIsOver()) return std::nullopt;
    const Stream::Progress progress = stream_->TryRead(RoomFor(payload));
    if (progress.error == asio::error::would_block) return std::nullopt;
    if (Status status = AfterRead(progress); !status.ok()) return status;
    Advance(payload, progress.bytes);
  }
  return absl::OkStatus();
}

awaitable<Status> Connection::ReadPayload(IncomingPayload& payload) {
  while (!payload.abandoned_) {
    std::optional<Status> end = TryReadPayload(payload);
    if (end) co_return *std::move(end);
    reading_ = &payload;
    BeginWait(true);
    const uint64_t least = WorthSleeping(payload);
    const bool slept = least != 0 && co_await stream_->SleepUntil(least, stop_reading_.slot());
    Stream::Progress progress;
    if (!slept) progress = co_await stream_->Read(RoomFor(payload), stop_reading_.slot());
    EndWait();
    reading_ = nullptr;
    const bool stopped = progress.error == asio::error::operation_aborted && reason_.ok();
    // Any message may have been abandoned during the sleep.
    if (slept || stopped) continue;
    SIMURGH_CO_RETURN_IF_ERROR(AfterRead(progress));
    Advance(payload, progress.bytes);
  }
  payload.left_ -= payload_left_;
  co_return co_await SkipPayload();
}

// The whole frame unless it is the message's last: its bytes are certain to arrive, and the peer
// keeps writing. Half of the last frame, so that reading overlaps with the arrival of the end.
uint64_t Connection::WorthSleeping(const IncomingPayload& payload) const {
  const uint64_t least = payload.left_ > payload_left_ ? payload_left_ : payload_left_ / 2;
  return least > kMinSleepBytes ? least : 0;
}

std::span<const asio::mutable_buffer> Connection::RoomFor(const IncomingPayload& payload) {
  const auto most = std::span(room_).first(room_.size() - 1);
  ReceiveBuffers::Gathered room = payload.destinations_.Gather(most, payload_left_);
  bool all = room.bytes == payload_left_;
  for (auto piece = pieces_.begin(); all && piece != pieces_.end(); ++piece) {
    const IncomingPayload* const next = find_incoming_payload_(piece->id);
    all = next != nullptr && !next->abandoned_;
    if (!all) break;
    const ReceiveBuffers::Gathered more =
        next->destinations_.Gather(most.subspan(room.buffers), piece->left);
    room.buffers += more.buffers;
    all = more.bytes == piece->left;
  }
  if (all) room_[room.buffers++] = BufferOf(ahead_.Prepare(ahead_limit_));
  return std::span(room_).first(room.buffers);
}

void Connection::Advance(IncomingPayload& payload, uint64_t bytes) {
  bytes -= AdvanceOne(payload, payload_left_, bytes);
  for (Piece& piece : pieces_) {
    if (bytes == 0) return;
    bytes -= AdvanceOne(*find_incoming_payload_(piece.id), piece.left, bytes);
  }
  ahead_.Commit(bytes);
}

uint64_t Connection::AdvanceOne(IncomingPayload& payload, uint64_t& left, uint64_t bytes) {
  const uint64_t landed = std::min(bytes, left);
  payload.destinations_.Advance(landed);
  payload.left_ -= landed;
  left -= landed;
  if (stream_->copies()) observer_->OnPayloadCopied(landed);
  return landed;
}

awaitable<Status> Connection::SkipPayload() {
  uint64_t bytes = std::exchange(payload_left_, 0);
  const uint64_t buffered = std::min<uint64_t>(bytes, ahead_.size());
  ahead_.Drop(buffered);
  bytes -= buffered;
  std::vector<std::byte> scratch(std::min<uint64_t>(bytes, kScratchBytes));
  while (bytes != 0) {
    const asio::mutable_buffer room =
        BufferOf(std::span(scratch).first(std::min<uint64_t>(bytes, scratch.size())));
    Stream::Progress progress{.error = asio::error::would_block};
    if (!TurnIsOver()) progress = stream_->TryRead({&room, 1});
    if (progress.error == asio::error::would_block) {
      BeginWait(true);
      progress = co_await stream_->Read({&room, 1}, {});
      EndWait();
    }
    SIMURGH_CO_RETURN_IF_ERROR(AfterRead(progress));
    bytes -= progress.bytes;
  }
  co_return absl::OkStatus();
}

void Connection::Abandon(IncomingPayload& payload) {
  payload.abandoned_ = true;
  // The read in progress may also fill other pieces.
  if (reading_ == &payload || !pieces_.empty())
    stop_reading_.emit(asio::cancellation_type::terminal);
}

// --- Writing.

Outbox::Ticket Connection::Send(OutgoingFrame&& frame) {
  if (!open()) return {.number = UINT64_MAX};
  if (stream_->copies()) {
    uint64_t copied = 0;
    for (const OutgoingSegment& segment : frame.message.segments) copied += segment.bytes.size();
    if (copied != 0) observer_->OnPayloadCopied(copied);
  }
  const Outbox::Ticket ticket = outbox_.Add(std::move(frame));
  outbox_.ReleaseCopied();
  if (flush_pending_) return ticket;
  if (outbox_.borrowed_bytes() >= kMinCorkBytes || (corked_ && CorkIsFull())) {
    Flush();
  } else if (!corked_) {
    PostFlush();
  }
  return ticket;
}

// Posted, so that frames sent until then leave in the same system call.
void Connection::PostFlush() {
  flush_pending_ = true;
  asio::post(executor(), [self = shared_from_this()] { self->Flush(); });
}

bool Connection::CorkIsFull() const {
  if (outbox_.bytes() < kMinCorkBytes) return false;
  return outbox_.bytes() >= kMaxCorkBytes || outbox_.waiting_frames() >= max_corked_frames_ ||
         Clock::now() - cork_began_ >= kMaxCorkTime;
}

void Connection::Uncork() {
  corked_ = false;
  if (!flush_pending_ && !outbox_.empty()) Flush();
}

void Connection::Flush() {
  flush_pending_ = false;
  uint64_t sent = 0;
  Stream::ErrorCode error;
  while (reason_.ok() && !error && !outbox_.empty() && sent < kMaxTurnBytes) {
    const Stream::Progress progress = stream_->TryWrite(outbox_.Gather());
    error = progress.error;
    sent += progress.bytes;
    outbox_.Written(progress.bytes);
  }
  if (!reason_.ok()) return;
  const Outbox::SharedBytes shared = outbox_.TakeSharedBytes();
  observer_->OnBytesSent(sent + shared.sent);
  if (shared.copied != 0) observer_->OnPayloadCopied(shared.copied);
  bytes_written_ += sent;
  if (corked_) cork_began_ = Clock::now();
  if (outbox_.empty()) ++times_drained_;
  if (error == asio::error::would_block) {
    flush_pending_ = true;
    stream_->WhenWritable([self = shared_from_this()](const Stream::ErrorCode&) { self->Flush(); });
  } else if (error) {
    Close(StreamError("write", error));
  } else if (!outbox_.empty()) {
    PostFlush();
  } else if (!closing_.ok()) {
    Close(closing_);
  }
  outbox_.Release();
  written_.NotifyAll();
}

StatusOr<Placed> PlaceSegments(const Placement& placement, const IncomingFrame& frame) {
  StatusOr<Placed> placed;
  try {
    placed = placement(frame.metadata, frame.lengths);
  } catch (...) {
    return StatusOfException(std::current_exception());
  }
  if (!placed.ok()) return placed;
  const std::vector<IncomingSegment>& destinations = placed->destinations;
  if (destinations.size() != frame.lengths.size()) {
    return absl::InternalError(absl::StrCat("the placement returned ", destinations.size(),
                                            " destinations for ", frame.lengths.size(),
                                            " segments"));
  }
  for (size_t i = 0; i < destinations.size(); ++i) {
    if (destinations[i].allocate) continue;
    const size_t room = destinations[i].bytes.size();
    if (room == frame.lengths[i]) continue;
    return absl::InternalError(absl::StrCat("the placement returned ", room, " bytes for segment ",
                                            i, " of ", frame.lengths[i], " bytes"));
  }
  return placed;
}

uint64_t FrameBytes(const OutgoingMessage& message) {
  return kHeaderBytes + message.segments.size() * sizeof(uint64_t) + BytesOf(message);
}

Status CheckFits(const OutgoingMessage& message, const FrameLimits& limits) {
  const auto check = [](const char* what, uint64_t size, const char* limit, uint64_t max) {
    if (size <= max) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(what, size, "; the receiver's ", limit, " is ", max));
  };
  SIMURGH_RETURN_IF_ERROR(check("segments of the message: ", message.segments.size(),
                                "max_segments", limits.max_segments));
  SIMURGH_RETURN_IF_ERROR(check("bytes of the metadata: ", message.metadata.bytes.size(),
                                "max_metadata_bytes", limits.max_metadata_bytes));
  return check("bytes of the frame: ", FrameBytes(message), "max_frame_bytes",
               limits.max_frame_bytes);
}

OutgoingFrame ErrorFrame(uint64_t request_id, const Status& error) {
  return {.header = {.kind = FrameKind::kError,
                     .request_id = request_id,
                     .code = static_cast<uint16_t>(error.code())},
          .message = {.metadata = EncodeError(error)}};
}

}  // namespace simurgh::rpc
