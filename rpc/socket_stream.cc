#include "rpc/socket_stream.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "rpc/event_loop.h"

namespace simurgh::rpc {
namespace {

constexpr size_t kMaxGather = 256;  // Of IOV_MAX, which is 1,024.

// To pin pages costs about half of copying them, and the report some 3 us more; both are equal at
// some 16 KiB.
constexpr size_t kMinZeroCopyBytes = 32'768;

// With room for twice as much the thread is woken for pieces of this size, not for each that
// arrives. The kernel's own buffer holds as much where this is used.
constexpr int kLargeWakeBytes = 131'072;

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

// From now on reads tell how much there is behind them, counting the end of the stream as a byte.
// That they have not filled their buffers would not tell whether the end is there.
bool TellRest(Socket& socket) {
  const int on = 1;
  return IsTcp(socket) &&
         ::setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_INQ, &on, sizeof(on)) == 0;
}

int RestOf(msghdr& message) {
  const cmsghdr* const control = CMSG_FIRSTHDR(&message);
  int bytes = 1;
  if (control == nullptr || control->cmsg_type != TCP_CM_INQ) return bytes;
  std::memcpy(&bytes, CMSG_DATA(control), sizeof(bytes));
  return bytes;
}

int Release(Socket& socket) {
  Stream::ErrorCode none;  // As nothing waits.
  return socket.release(none);
}

}  // namespace

SocketStream::SocketStream(Socket socket, std::shared_ptr<FilePassing> files, bool zero_copy)
    : executor_(socket.get_executor()),
      peer_(PeerName(socket)),
      local_(IsLocal(socket)),
      may_wake_late_(local_ && IsTcp(socket)),
      tells_rest_(TellRest(socket)),
      files_(std::move(files)),
      zero_copy_(zero_copy && IsTcp(socket) ? std::make_unique<ZeroCopy>(socket.native_handle())
                                            : nullptr),
      watch_(executor_, Release(socket), [this] { return AttemptRead(); }) {}

// TryRead and TryWrite go past Asio, whose own reads and writes take at most 64 buffers and report
// what they have done through the event loop.
Stream::Progress SocketStream::TryRead(std::span<const asio::mutable_buffer> buffers) {
  if (drained_) return {asio::error::would_block, 0};
  std::array<iovec, kMaxGather> gathered;
  msghdr message{};
  (void)Gather(buffers, gathered, message);
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control;
  if (files_ != nullptr) {
    files_->PrepareToReceive(message);
  } else if (tells_rest_) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
  }
  constexpr int kFlags = MSG_DONTWAIT | MSG_CMSG_CLOEXEC;
  const ssize_t count = Repeat([&] { return ::recvmsg(watch_.socket(), &message, kFlags); });
  if (count == 0) return {asio::error::eof, 0};
  if (count < 0) {
    drained_ = true;
    return {LastError(), 0};
  }
  if (files_ != nullptr) files_->Received(message);
  drained_ = tells_rest_ && RestOf(message) == 0;
  NoteTraffic(static_cast<size_t>(count));
  return {ErrorCode(), static_cast<size_t>(count)};
}

// No coroutine of its own, as every wait for the peer comes this way.
awaitable<Stream::Progress> SocketStream::Read(std::span<const asio::mutable_buffer> buffers,
                                               asio::cancellation_slot stop) {
  return asio::async_initiate<const asio::use_awaitable_t<>, void(Progress)>(
      [this, buffers, stop](auto resume) {
        watch_.Wait(Way::kRead, [this, resume = std::move(resume)](bool /*closed*/) mutable {
          std::move(resume)(EndRead());
        });
        BeginRead(buffers, stop);
      },
      asio::use_awaitable);
}

void SocketStream::BeginRead(std::span<const asio::mutable_buffer> buffers,
                             asio::cancellation_slot stop) {
  SetWakeBytes(asio::buffer_size(buffers) > 2 * kLargeWakeBytes ? kLargeWakeBytes : 1);
  wanted_ = buffers;
  read_ = {asio::error::operation_aborted, 0};
  stop_ = stop;
  if (stop_.is_connected()) {
    stop_.assign([this](asio::cancellation_type /*type*/) { watch_.End(Way::kRead); });
  }
  // What is here already makes no event.
  if (!drained_ && AttemptRead()) watch_.End(Way::kRead);
}

// When bytes may be here that were not: into the buffers that wait for them.
bool SocketStream::AttemptRead() {
  drained_ = false;
  if (!watch_.waits(Way::kRead)) return false;
  const Progress progress = TryRead(wanted_);
  if (progress.error == asio::error::would_block) return false;
  read_ = progress;
  return true;
}

Stream::Progress SocketStream::EndRead() {
  stop_.clear();
  return read_;
}

// Between machines the kernel would take this for the size of buffer that is wanted; Unix sockets
// do not know it.
void SocketStream::SetWakeBytes(int bytes) {
  if (!may_wake_late_ || bytes == wake_bytes_) return;
  wake_bytes_ = bytes;
  (void)::setsockopt(watch_.socket(), SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof(bytes));
}

Stream::Progress SocketStream::TryWrite(std::span<const asio::const_buffer> buffers) {
  return Send(buffers, 0);
}

Stream::Progress SocketStream::TryWriteKept(std::span<const asio::const_buffer> buffers) {
  if (!zero_copy()) return Send(buffers, 0);
  const auto large = [](const asio::const_buffer& buffer) {
    return buffer.size() >= kMinZeroCopyBytes;
  };
  if (buffers.empty() || !large(buffers.front())) {
    const auto next = std::ranges::find_if(buffers, large);
    const auto before = static_cast<size_t>(next - buffers.begin());
    return Send(buffers.first(before), next == buffers.end() ? 0 : MSG_MORE);
  }
  const auto end = std::ranges::find_if_not(buffers, large);
  const auto run = buffers.first(static_cast<size_t>(end - buffers.begin()));
  const uint64_t begin = bytes_written_;
  const Progress progress = Send(run, MSG_ZEROCOPY);
  // Too many reports are outstanding, or too many pages pinned.
  if (progress.error == asio::error::no_buffer_space) return Send(run, 0);
  if (!progress.error) zero_copy_->Wrote(begin);
  return progress;
}

Stream::Progress SocketStream::Send(std::span<const asio::const_buffer> buffers, int flags) {
  // To try again before the peer has read would most often find no room, or a little.
  if (std::exchange(full_, false)) return {asio::error::would_block, 0};
  std::array<iovec, kMaxGather> gathered;
  msghdr message{};
  const size_t bytes = Gather(buffers, gathered, message);
  if (files_ != nullptr) files_->PrepareToSend(message);
  flags |= MSG_DONTWAIT | MSG_NOSIGNAL;
  const ssize_t count = Repeat([&] { return ::sendmsg(watch_.socket(), &message, flags); });
  if (count < static_cast<ssize_t>(bytes)) watch_.Full();
  if (count < 0) return {LastError(), 0};
  if (files_ != nullptr) files_->Sent();
  NoteTraffic(static_cast<size_t>(count));
  full_ = static_cast<size_t>(count) < bytes;
  bytes_written_ += static_cast<uint64_t>(count);
  return {ErrorCode(), static_cast<size_t>(count)};
}

Stream::Free SocketStream::Freed() {
  if (zero_copy_ == nullptr || !zero_copy_->waiting()) return {};
  const bool on = zero_copy_->on();
  zero_copy_->Collect();
  return {.until = zero_copy_->free_until(bytes_written_), .gave_up = on && !zero_copy_->on()};
}

void SocketStream::WhenFreed(std::function<void()> freed) {
  // Reports come as an error condition of the socket, each of them anew.
  watch_.Wait(Way::kError, [freed = std::move(freed)](bool /*closed*/) { freed(); });
}

void SocketStream::WhenWritable(std::function<void(const ErrorCode&)> ready) {
  watch_.Wait(Way::kWrite, [ready = std::move(ready)](bool closed) {
    ready(closed ? asio::error::operation_aborted : ErrorCode());
  });
}

void SocketStream::Close() {
  if (zero_copy_ != nullptr && zero_copy_->waiting()) {
    // The kernel must not go on sending from memory that is about to be used for something else.
    const linger at_once = {.l_onoff = 1, .l_linger = 0};
    (void)::setsockopt(watch_.socket(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  }
  watch_.Close();
}

}  // namespace simurgh::rpc
