#include "rpc/socket_stream.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <sys/socket.h>
#include <sys/uio.h>

namespace simurgh::rpc {
namespace {

constexpr size_t kMaxGather = 256;  // Of IOV_MAX, which is 1,024.

}  // namespace

awaitable<Stream::Progress> SocketStream::Read(std::span<const asio::mutable_buffer> buffers,
                                               asio::cancellation_slot stop) {
  auto [error, bytes] =
      co_await socket_.async_read_some(buffers, asio::bind_cancellation_slot(stop, kNoThrow));
  co_return Progress{error, bytes};
}

// Past Asio, whose own write takes no more than 64 buffers and reports through the event loop.
Stream::Progress SocketStream::TryWrite(std::span<const asio::const_buffer> buffers) {
  std::array<iovec, kMaxGather> gathered;
  const size_t count = std::min(buffers.size(), kMaxGather);
  for (size_t i = 0; i < count; ++i) {
    gathered[i] = {const_cast<void*>(buffers[i].data()), buffers[i].size()};
  }
  msghdr message{};
  message.msg_iov = gathered.data();
  message.msg_iovlen = count;
  for (;;) {
    const ssize_t sent = ::sendmsg(socket_.native_handle(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) return {ErrorCode(), static_cast<size_t>(sent)};
    if (errno == EINTR) continue;
    if (errno == EAGAIN) return {asio::error::would_block, 0};
    return {ErrorCode(errno, boost::system::system_category()), 0};
  }
}

void SocketStream::WhenWritable(std::function<void(const ErrorCode&)> ready) {
  socket_.async_wait(Socket::wait_write, std::move(ready));
}

void SocketStream::Close() {
  ErrorCode ignored;
  socket_.close(ignored);
}

}  // namespace simurgh::rpc
