#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"

#include "rpc/connection.h"

namespace simurgh::rpc {
namespace {

constexpr size_t kMaxGather = 64;  // Asio passes no more buffers to one system call.
constexpr size_t kScratchBytes = 65'536;

asio::mutable_buffer BufferOf(std::span<std::byte> bytes) { return {bytes.data(), bytes.size()}; }

}  // namespace

Status Connection::AfterRead(const Stream::Progress& progress) {
  const auto& [error, bytes] = progress;
  if (!reason_.ok()) return reason_;
  if (error == asio::error::eof) return absl::UnavailableError("the peer closed the connection");
  if (error) return StreamError("read", error);
  observer_->OnBytesReceived(bytes);
  return absl::OkStatus();
}

awaitable<Stream::Progress> Connection::Await(std::span<const asio::mutable_buffer> buffers,
                                              asio::cancellation_slot stop) {
  Uncork();
  const Stream::Progress progress = co_await stream_->Read(buffers, stop);
  corked_ = true;
  co_return progress;
}

awaitable<Status> Connection::Fill(size_t need, size_t limit) {
  while (ahead_.size() < need) {
    const asio::mutable_buffer room = BufferOf(ahead_.Prepare(limit - ahead_.size()));
    Stream::Progress progress = stream_->TryRead({&room, 1});
    if (progress.error == asio::error::would_block) progress = co_await Await({&room, 1}, {});
    SIMURGH_CO_RETURN_IF_ERROR(AfterRead(progress));
    ahead_.Commit(progress.bytes);
  }
  co_return absl::OkStatus();
}

awaitable<StatusOr<IncomingFrame>> Connection::ReadFrame() {
  if (ahead_.size() < kHeaderBytes) {
    SIMURGH_CO_RETURN_IF_ERROR(co_await Fill(kHeaderBytes, ahead_limit_));
  }
  IncomingFrame frame;
  SIMURGH_CO_ASSIGN_OR_RETURN(frame.header,
                              DecodeHeader(ahead_.bytes().first<kHeaderBytes>(), limits_));
  ahead_.Drop(kHeaderBytes);

  const FrameHeader& header = frame.header;
  ahead_limit_ = std::clamp<uint64_t>(header.read_ahead, kMinAheadBytes, ReadAhead::kCapacity);
  payload_left_ = header.following_bytes();
  const bool small = header.payload_is_small();
  const uint64_t head = TableBytes(header) + header.metadata_length;
  const uint64_t rest = head + (small ? payload_left_ : 0);
  if (ahead_.size() < rest && rest <= ReadAhead::kCapacity) {
    const uint64_t limit = rest + (small ? ahead_limit_ : 0);
    SIMURGH_CO_RETURN_IF_ERROR(
        co_await Fill(rest, std::min<uint64_t>(limit, ReadAhead::kCapacity)));
  }
  frame.lengths.resize(header.segment_count);
  frame.metadata.resize(header.metadata_length);
  Places places({std::as_writable_bytes(std::span(frame.lengths)), std::span(frame.metadata)});
  const uint64_t taken = places.FillFrom(ahead_, head);
  SIMURGH_CO_RETURN_IF_ERROR((co_await ReadInto(places, head - taken, 0)).status());
  SIMURGH_CO_RETURN_IF_ERROR(CheckSegmentTable(header, frame.lengths));
  co_return std::move(frame);
}

awaitable<Status> Connection::ReadPayload(Landing& landing) {
  const uint64_t bytes = std::exchange(payload_left_, 0);
  if (bytes > landing.left_) {
    co_return absl::DataLossError("malformed frame: a chunk goes beyond the payload announced");
  }
  landing.left_ -= bytes;
  uint64_t left = bytes;
  if (!landing.abandoned()) {
    const uint64_t ahead = landing.places_.FillFrom(ahead_, bytes);
    const uint64_t copied = stream_->copies() ? bytes : ahead;
    if (copied != 0) observer_->OnPayloadCopied(copied);
    left -= ahead;
  }
  if (left != 0 && !landing.abandoned()) {
    reading_ = &landing;
    const StatusOr<uint64_t> rest = co_await ReadInto(landing.places_, left, ahead_limit_);
    reading_ = nullptr;
    SIMURGH_CO_RETURN_IF_ERROR(rest.status());
    left = *rest;
  }
  if (left == 0) co_return absl::OkStatus();
  co_return co_await Skip(left);
}

awaitable<StatusOr<uint64_t>> Connection::ReadInto(Places& places, uint64_t bytes, uint64_t ahead) {
  std::array<asio::mutable_buffer, kMaxGather> buffers;
  while (bytes != 0) {
    Places::Gathered gathered = places.Gather(std::span(buffers).first(kMaxGather - 1), bytes);
    if (ahead != 0 && gathered.bytes == bytes) {
      buffers[gathered.buffers++] = BufferOf(ahead_.Prepare(ahead));
    }
    const auto room = std::span<const asio::mutable_buffer>(buffers).first(gathered.buffers);
    Stream::Progress progress = stream_->TryRead(room);
    if (progress.error == asio::error::would_block) {
      progress = co_await Await(room, stop_reading_.slot());
    }
    const bool abandoned = reading_ != nullptr && reading_->abandoned();
    if (abandoned && progress.error == asio::error::operation_aborted && reason_.ok()) break;
    SIMURGH_CO_RETURN_IF_ERROR(AfterRead(progress));
    const uint64_t landed = std::min<uint64_t>(progress.bytes, bytes);
    places.Advance(landed);
    bytes -= landed;
    ahead_.Commit(progress.bytes - landed);
    if (abandoned) break;
  }
  co_return bytes;
}

awaitable<Status> Connection::SkipPayload() {
  co_return co_await Skip(std::exchange(payload_left_, 0));
}

awaitable<Status> Connection::Skip(uint64_t bytes) {
  const uint64_t buffered = std::min<uint64_t>(bytes, ahead_.size());
  ahead_.Drop(buffered);
  bytes -= buffered;
  std::vector<std::byte> scratch(std::min<uint64_t>(bytes, kScratchBytes));
  while (bytes != 0) {
    const asio::mutable_buffer room =
        BufferOf(std::span(scratch).first(std::min<uint64_t>(bytes, scratch.size())));
    Stream::Progress progress = stream_->TryRead({&room, 1});
    if (progress.error == asio::error::would_block) progress = co_await Await({&room, 1}, {});
    SIMURGH_CO_RETURN_IF_ERROR(AfterRead(progress));
    bytes -= progress.bytes;
  }
  co_return absl::OkStatus();
}

void Connection::Abandon(Landing& landing) {
  landing.abandoned_ = true;
  if (reading_ == &landing) stop_reading_.emit(asio::cancellation_type::terminal);
}

}  // namespace simurgh::rpc
