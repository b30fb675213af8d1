#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"

#include "rpc/connection.h"

namespace simurgh::rpc {
namespace {

// A smaller payload is read together with its metadata: one system call less for one copy of
// little.
constexpr uint64_t kSmallPayloadBytes = 4'096;
constexpr size_t kMaxGather = 64;  // Asio passes no more buffers to one system call.
constexpr size_t kScratchBytes = 65'536;

asio::mutable_buffer BufferOf(std::span<std::byte> bytes) { return {bytes.data(), bytes.size()}; }

}  // namespace

Status Connection::AfterRead(const boost::system::error_code& error, size_t bytes) {
  if (!reason_.ok()) return reason_;
  if (error == asio::error::eof) return absl::UnavailableError("the peer closed the connection");
  if (error) return absl::UnavailableError(absl::StrCat("read: ", error.message()));
  observer_->OnBytesReceived(bytes);
  return absl::OkStatus();
}

awaitable<Status> Connection::Fill(size_t need, size_t limit) {
  while (ahead_.size() < need) {
    const asio::mutable_buffer room = BufferOf(ahead_.Prepare(limit - ahead_.size()));
    auto [error, count] = co_await stream_->Read({&room, 1}, {});
    SIMURGH_CO_RETURN_IF_ERROR(AfterRead(error, count));
    ahead_.Commit(count);
  }
  co_return absl::OkStatus();
}

awaitable<StatusOr<IncomingFrame>> Connection::ReadFrame() {
  SIMURGH_CO_RETURN_IF_ERROR(co_await Fill(kHeaderBytes, kHeaderBytes));
  IncomingFrame frame;
  SIMURGH_CO_ASSIGN_OR_RETURN(frame.header,
                              DecodeHeader(ahead_.bytes().first<kHeaderBytes>(), limits_));
  ahead_.Drop(kHeaderBytes);

  const FrameHeader& header = frame.header;
  const bool small = header.payload_length < kSmallPayloadBytes;
  const uint64_t rest =
      TableBytes(header) + header.metadata_length + (small ? header.payload_length : 0);
  // Behind a small payload only a header may follow into the buffer, as what comes after it may be
  // large.
  const uint64_t ahead = small ? kHeaderBytes : 0;
  if (rest + ahead <= ReadAhead::kCapacity) {
    SIMURGH_CO_RETURN_IF_ERROR(co_await Fill(rest, rest + ahead));
  }
  frame.lengths.resize(header.segment_count);
  frame.metadata.resize(header.metadata_length);
  Places places({std::as_writable_bytes(std::span(frame.lengths)), std::span(frame.metadata)});
  SIMURGH_CO_RETURN_IF_ERROR(co_await ReadInto(places, 0));
  SIMURGH_CO_RETURN_IF_ERROR(CheckSegmentTable(header, frame.lengths));
  payload_left_ = header.payload_length;
  co_return std::move(frame);
}

awaitable<Status> Connection::ReadPayload(std::span<const IncomingSegment> segments) {
  std::vector<std::span<std::byte>> spans;
  spans.reserve(segments.size());
  for (const IncomingSegment& segment : segments) spans.push_back(segment.bytes);
  Places places(std::move(spans));

  const uint64_t copied = std::min<uint64_t>(ahead_.size(), std::exchange(payload_left_, 0));
  if (copied != 0 && reason_.ok()) observer_->OnPayloadCopied(copied);
  const Status status = co_await ReadInto(places, kHeaderBytes);
  const bool abandoned = std::exchange(abandoned_, false);
  if (!status.ok() || !abandoned) co_return status;
  co_return co_await Skip(places.left());
}

awaitable<Status> Connection::ReadInto(Places& places, size_t ahead) {
  places.FillFrom(ahead_);
  std::array<asio::mutable_buffer, kMaxGather> gathered;
  while (!places.full() && !abandoned_) {
    size_t count = places.Gather(std::span(gathered).first(kMaxGather - 1));
    if (ahead != 0 && places.Fits(count)) gathered[count++] = BufferOf(ahead_.Prepare(ahead));
    auto [error, bytes] =
        co_await stream_->Read(std::span(gathered).first(count), stop_reading_.slot());
    if (abandoned_ && error == asio::error::operation_aborted && reason_.ok()) break;
    SIMURGH_CO_RETURN_IF_ERROR(AfterRead(error, bytes));
    ahead_.Commit(places.Advance(bytes));
  }
  co_return absl::OkStatus();
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
    auto [error, count] = co_await stream_->Read({&room, 1}, {});
    SIMURGH_CO_RETURN_IF_ERROR(AfterRead(error, count));
    bytes -= count;
  }
  co_return absl::OkStatus();
}

void Connection::AbandonPayload() {
  abandoned_ = true;
  stop_reading_.emit(asio::cancellation_type::terminal);
}

}  // namespace simurgh::rpc
