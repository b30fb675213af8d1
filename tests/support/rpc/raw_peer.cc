#include "tests/support/rpc/raw_peer.h"

#include <array>
#include <cstring>
#include <utility>

#include <sys/socket.h>

#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include "rpc/control.h"

namespace simurgh::rpc::testing {

std::vector<std::byte> Encode(const RawFrame& frame) {
  FrameHeader header = frame.header;
  std::vector<uint64_t> table;
  header.payload_length = 0;
  for (const auto& segment : frame.segments) {
    table.push_back(segment.size());
    header.payload_length += segment.size();
  }
  std::vector<BorrowedSegment> borrowed(frame.borrowed.empty() ? 0 : table.size(),
                                        BorrowedSegment{.slot = kNotBorrowed});
  for (const RawFrame::Borrowed& one : frame.borrowed) {
    table.push_back(one.length);
    borrowed.push_back(one.segment);
    header.flags |= kFlagBorrowed;
  }
  header.segment_count = static_cast<uint16_t>(table.size());
  header.metadata_length = static_cast<uint32_t>(frame.metadata.size());
  header = Seal(header);

  std::vector<std::byte> bytes;
  const auto append = [&](std::span<const std::byte> part) {
    bytes.insert(bytes.end(), part.begin(), part.end());
  };
  append(std::as_bytes(std::span(&header, 1)));
  append(std::as_bytes(std::span(table)));
  append(std::as_bytes(std::span(borrowed)));
  append(frame.metadata);
  if (header.chunked()) return bytes;
  for (const auto& segment : frame.segments) append(segment);
  return bytes;
}

RawFrame GatheredChunk(const std::vector<RawPiece>& pieces) {
  RawFrame frame;
  frame.header.kind = FrameKind::kChunk;
  for (const RawPiece& piece : pieces) {
    const auto id = std::as_bytes(std::span(&piece.id, 1));
    frame.metadata.insert(frame.metadata.end(), id.begin(), id.end());
    frame.segments.push_back(piece.bytes);
  }
  return frame;
}

RawFrame HelloFrame(const Hello& hello, uint64_t features) {
  const OutgoingSegment metadata = EncodeHello(hello, FrameLimits(), 0, features);
  RawFrame frame;
  frame.header.kind = FrameKind::kHello;
  frame.metadata.assign(metadata.bytes.begin(), metadata.bytes.end());
  return frame;
}

awaitable<StatusOr<RawPeer>> RawPeer::Dial(std::string address) {
  SIMURGH_CO_ASSIGN_OR_RETURN(const Address parsed, ParseAddress(address));
  SIMURGH_CO_ASSIGN_OR_RETURN(Socket socket,
                              co_await Connect(parsed, Clock::now() + std::chrono::seconds(5)));
  co_return RawPeer(std::move(socket));
}

awaitable<Status> RawPeer::ShakeHands(Hello hello) {
  SIMURGH_CO_RETURN_IF_ERROR(co_await Send(Encode(HelloFrame(hello))));
  SIMURGH_CO_ASSIGN_OR_RETURN(const RawFrame answer, co_await Read());
  if (answer.header.kind == FrameKind::kHello) co_return absl::OkStatus();
  co_return absl::FailedPreconditionError("the answer is not a HELLO");
}

Status RawPeer::SendFiles(std::vector<std::byte> bytes, const std::vector<int>& files) {
  iovec data{.iov_base = bytes.data(), .iov_len = bytes.size()};
  std::vector<char> control(CMSG_SPACE(files.size() * sizeof(int)));
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(files.size() * sizeof(int));
  std::memcpy(CMSG_DATA(header), files.data(), files.size() * sizeof(int));
  const ssize_t sent = ::sendmsg(socket_.native_handle(), &message, MSG_NOSIGNAL);
  if (sent == static_cast<ssize_t>(bytes.size())) return absl::OkStatus();
  return absl::UnavailableError("sendmsg");
}

awaitable<Status> RawPeer::Send(std::vector<std::byte> bytes) {
  auto [error, count] = co_await asio::async_write(socket_, asio::buffer(bytes), kNoThrow);
  if (error) co_return absl::UnavailableError(error.message());
  co_return absl::OkStatus();
}

size_t RawPeer::TrySend(std::span<const std::byte> bytes) {
  const ssize_t sent =
      ::send(socket_.native_handle(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  return sent < 0 ? 0 : static_cast<size_t>(sent);
}

awaitable<Status> RawPeer::Fill(std::span<std::byte> destination) {
  auto [error, count] = co_await asio::async_read(
      socket_, asio::buffer(destination.data(), destination.size()), kNoThrow);
  if (error) co_return absl::UnavailableError(error.message());
  co_return absl::OkStatus();
}

awaitable<StatusOr<RawFrame>> RawPeer::Read() {
  for (;;) {
    StatusOr<RawFrame> frame = co_await ReadAny();
    if (!frame.ok() || frame->header.kind != FrameKind::kPadding) co_return std::move(frame);
  }
}

awaitable<StatusOr<RawFrame>> RawPeer::ReadAny() {
  std::array<std::byte, kHeaderBytes> header;
  SIMURGH_CO_RETURN_IF_ERROR(co_await Fill(header));
  co_return co_await ReadAfter(header);
}

awaitable<StatusOr<RawFrame>> RawPeer::ReadAfter(std::span<const std::byte> header) {
  RawFrame frame;
  std::memcpy(&frame.header, header.data(), kHeaderBytes);
  std::vector<uint64_t> table(frame.header.segment_count);
  SIMURGH_CO_RETURN_IF_ERROR(co_await Fill(std::as_writable_bytes(std::span(table))));
  frame.metadata.resize(frame.header.metadata_length);
  SIMURGH_CO_RETURN_IF_ERROR(co_await Fill(frame.metadata));
  if (frame.header.chunked()) table.clear();  // The payload follows in CHUNK frames.
  for (const uint64_t length : table) {
    frame.segments.emplace_back(length);
    SIMURGH_CO_RETURN_IF_ERROR(co_await Fill(frame.segments.back()));
  }
  co_return std::move(frame);
}

awaitable<void> RawPeer::ReadToEnd() {
  std::vector<std::byte> scratch(65'536);
  for (;;) {
    auto [error, count] = co_await socket_.async_read_some(asio::buffer(scratch), kNoThrow);
    if (error) co_return;
  }
}

}  // namespace simurgh::rpc::testing
