#include "rpc/socket_stream.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <sys/socket.h>
#include <sys/uio.h>

#include "rpc/event_loop.h"

namespace simurgh::rpc {
namespace {

constexpr size_t kMaxGather = 256;  // Of IOV_MAX, which is 1,024.

// Returns how many bytes the buffers hold that fit.
template <typename Buffer>
size_t Gather(std::span<const Buffer> buffers, std::array<iovec, kMaxGather>& gathered,
              msghdr& message) {
  const size_t count = std::min(buffers.size(), kMaxGather);
  size_t bytes = 0;
  for (size_t i = 0; i < count; ++i) {
    gathered[i] = {const_cast<void*>(static_cast<const void*>(buffers[i].data())),
                   buffers[i].size()};
    bytes += buffers[i].size();
  }
  message.msg_iov = gathered.data();
  message.msg_iovlen = count;
  return bytes;
}

template <typename Call>
ssize_t Repeat(const Call& call) {
  for (;;) {
    const ssize_t result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

Stream::ErrorCode LastError() {
  if (errno == EAGAIN) return asio::error::would_block;
  return {errno, boost::system::system_category()};
}

}  // namespace

// TryRead and TryWrite go past Asio, whose own reads and writes take at most 64 buffers and report
// what they have done through the event loop.
Stream::Progress SocketStream::TryRead(std::span<const asio::mutable_buffer> buffers) {
  if (drained_) return {asio::error::would_block, 0};
  std::array<iovec, kMaxGather> gathered;
  msghdr message{};
  const size_t room = Gather(buffers, gathered, message);
  if (files_ != nullptr) files_->PrepareToReceive(message);
  constexpr int kFlags = MSG_DONTWAIT | MSG_CMSG_CLOEXEC;
  const ssize_t count =
      Repeat([&] { return ::recvmsg(socket_.native_handle(), &message, kFlags); });
  if (count == 0) return {asio::error::eof, 0};
  if (count < 0) {
    drained_ = true;
    return {LastError(), 0};
  }
  if (files_ != nullptr) files_->Received(message);
  drained_ = static_cast<size_t>(count) < room;
  NoteTraffic(static_cast<size_t>(count));
  return {ErrorCode(), static_cast<size_t>(count)};
}

awaitable<Stream::Progress> SocketStream::Read(std::span<const asio::mutable_buffer> buffers,
                                               asio::cancellation_slot stop) {
  while (files_ != nullptr && files_->receives()) {
    // Asio's own read would lose them.
    auto [failed] = co_await socket_.async_wait(Socket::wait_read,
                                                asio::bind_cancellation_slot(stop, kNoThrow));
    if (failed) co_return Progress{failed, 0};
    drained_ = false;
    const Progress progress = TryRead(buffers);
    if (progress.error != asio::error::would_block) co_return progress;
  }
  auto [error, bytes] =
      co_await socket_.async_read_some(buffers, asio::bind_cancellation_slot(stop, kNoThrow));
  drained_ = false;
  NoteTraffic(bytes);
  co_return Progress{error, bytes};
}

Stream::Progress SocketStream::TryWrite(std::span<const asio::const_buffer> buffers) {
  std::array<iovec, kMaxGather> gathered;
  msghdr message{};
  Gather(buffers, gathered, message);
  if (files_ != nullptr) files_->PrepareToSend(message);
  const ssize_t count = Repeat(
      [&] { return ::sendmsg(socket_.native_handle(), &message, MSG_DONTWAIT | MSG_NOSIGNAL); });
  if (count < 0) return {LastError(), 0};
  if (files_ != nullptr) files_->Sent();
  NoteTraffic(static_cast<size_t>(count));
  return {ErrorCode(), static_cast<size_t>(count)};
}

void SocketStream::WhenWritable(std::function<void(const ErrorCode&)> ready) {
  socket_.async_wait(Socket::wait_write, std::move(ready));
}

void SocketStream::Close() {
  ErrorCode ignored;
  socket_.close(ignored);
}

}  // namespace simurgh::rpc
