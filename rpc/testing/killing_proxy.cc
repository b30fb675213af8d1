#include "rpc/testing/killing_proxy.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include <sys/socket.h>
#include <sys/uio.h>

#include <boost/asio/write.hpp>

#include "rpc/unix_socket.h"
#include "simurgh/base/random.h"

namespace simurgh::rpc::testing {
namespace {

constexpr size_t kChunkBytes = 65'536;

using Passed = std::tuple<boost::system::error_code, size_t>;  // The completion of an Asio read.

boost::system::error_code LastError() { return {errno, boost::system::system_category()}; }

// Receives files with the first bytes; Asio's read would drop them.
[[nodiscard]] awaitable<Passed> Read(Socket& from, std::span<std::byte> chunk, FilePassing& files) {
  if (files.receives()) {
    auto [failed] = co_await from.async_wait(Socket::wait_read, kNoThrow);
    if (failed) co_return Passed(failed, 0);
    iovec piece{.iov_base = chunk.data(), .iov_len = chunk.size()};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    files.PrepareToReceive(message);
    constexpr int kFlags = MSG_DONTWAIT | MSG_CMSG_CLOEXEC;
    const ssize_t count = ::recvmsg(from.native_handle(), &message, kFlags);
    if (count < 0) co_return Passed(LastError(), 0);
    if (count == 0) co_return Passed(asio::error::eof, 0);
    files.Received(message);
    files.Send(files.TakeAll());
    co_return Passed(boost::system::error_code(), static_cast<size_t>(count));
  }
  co_return co_await from.async_read_some(asio::buffer(chunk.data(), chunk.size()), kNoThrow);
}

// Passes the files with the first bytes, for which a new socket has space.
[[nodiscard]] awaitable<Passed> Write(Socket& to, std::span<std::byte> chunk, FilePassing& files) {
  iovec piece{.iov_base = chunk.data(), .iov_len = chunk.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  files.PrepareToSend(message);
  const ssize_t count = ::sendmsg(to.native_handle(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (count < 0 && errno != EAGAIN) co_return Passed(LastError(), 0);
  if (count > 0) files.Sent();
  const std::span<std::byte> rest = chunk.subspan(static_cast<size_t>(std::max<ssize_t>(count, 0)));
  co_return co_await asio::async_write(to, asio::buffer(rest.data(), rest.size()), kNoThrow);
}

}  // namespace

struct KillingProxy::Core {
  Random random;
  const double mean_bytes;
  const uint64_t handshake_bytes;
  bool killing = true;
  uint64_t kills = 0;

  uint64_t DrawBytes() {
    if (random.Below(16) == 0) return random.Below(handshake_bytes);
    return static_cast<uint64_t>(-std::log1p(-random.Uniform()) * mean_bytes);
  }
};

// One connection through the proxy.
class KillingProxy::Link : public std::enable_shared_from_this<Link> {
 public:
  Link(std::shared_ptr<Core> core, Socket client, Socket server)
      : core_(std::move(core)),
        client_(std::move(client)),
        server_(std::move(server)),
        left_(core_->DrawBytes()) {}

  void Start() {
    const auto executor = client_.get_executor();
    asio::co_spawn(executor, Pass(shared_from_this(), client_, server_), asio::detached);
    asio::co_spawn(executor, Pass(shared_from_this(), server_, client_), asio::detached);
  }

 private:
  // Forwards bytes until the connection ends or is cut.
  [[nodiscard]] static awaitable<void> Pass(std::shared_ptr<Link> self, Socket& from, Socket& to) {
    std::vector<std::byte> chunk(kChunkBytes);
    FilePassing files;
    for (;;) {
      auto [ended, got] = co_await Read(from, chunk, files);
      if (ended == asio::error::eof) co_return EndDirection(from, to);
      if (ended) break;
      const bool cut = self->core_->killing && !self->cut_ && got >= self->left_;
      const size_t passed = cut ? self->left_ : got;
      self->left_ -= std::min<uint64_t>(passed, self->left_);
      auto [failed, count] = co_await Write(to, std::span(chunk).first(passed), files);
      if (cut) co_return self->Cut(from, to);
      if (failed) break;
    }
    CloseBoth(from, to);
  }

  void Cut(Socket& from, Socket& to) {
    if (std::exchange(cut_, true)) return;
    ++core_->kills;
    const uint64_t how = core_->random.Below(3);
    if (how == 0) return EndDirection(from, to);
    if (how == 1) {
      // Reset: bytes in the peers' buffers are lost.
      boost::system::error_code ignored;
      from.set_option(asio::socket_base::linger(true, 0), ignored);
      to.set_option(asio::socket_base::linger(true, 0), ignored);
    }
    CloseBoth(from, to);
  }

  const std::shared_ptr<Core> core_;
  Socket client_;
  Socket server_;
  uint64_t left_;  // Bytes until the cut.
  bool cut_ = false;
};

KillingProxy::KillingProxy(asio::any_io_executor executor, uint64_t seed, double mean_bytes,
                           uint64_t handshake_bytes)
    : KillingProxy(std::move(executor),
                   std::make_shared<Core>(Random(seed), mean_bytes, handshake_bytes)) {}

KillingProxy::KillingProxy(asio::any_io_executor executor, const std::shared_ptr<Core>& core)
    : Proxy(std::move(executor),
            [core](Socket client, Socket server) {
              std::make_shared<Link>(core, std::move(client), std::move(server))->Start();
            }),
      core_(core) {}

void KillingProxy::StopKilling() { core_->killing = false; }

uint64_t KillingProxy::kills() const { return core_->kills; }

}  // namespace simurgh::rpc::testing
