#include "tests/support/rpc/proxy.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include <sys/socket.h>
#include <sys/uio.h>

#include <boost/asio/write.hpp>

#include "base/random.h"
#include "rpc/async.h"
#include "rpc/transport.h"

namespace simurgh::rpc::testing {
struct Proxy::Route {
  const Carry carry;
  Address target;
};

Proxy::Proxy(asio::any_io_executor executor, Carry carry)
    : executor_(std::move(executor)), route_(std::make_shared<Route>(std::move(carry))) {}

Proxy::~Proxy() {
  if (listener_ != nullptr) listener_->Close();
}

Status Proxy::Listen(const std::string& address) {
  SIMURGH_ASSIGN_OR_RETURN(const Address parsed, ParseAddress(address));
  SIMURGH_ASSIGN_OR_RETURN(listener_, Listener::Open(executor_, parsed));
  asio::co_spawn(executor_, AcceptLoop(route_, listener_), asio::detached);
  return absl::OkStatus();
}

void Proxy::SetTarget(const std::string& address) {
  route_->target = ParseAddress(address).value();
}

awaitable<void> Proxy::AcceptLoop(std::shared_ptr<Route> route,
                                  std::shared_ptr<Listener> listener) {
  for (;;) {
    StatusOr<Socket> client = co_await listener->Accept();
    if (!client.ok()) co_return;
    const auto executor = client->get_executor();
    asio::co_spawn(executor, Serve(route, *std::move(client)), asio::detached);
  }
}

awaitable<void> Proxy::Serve(std::shared_ptr<Route> route, Socket client) {
  const Address target = route->target;
  StatusOr<Socket> server = co_await Connect(target, Clock::now() + std::chrono::seconds(10));
  if (!server.ok()) co_return;  // Closes the client's end.
  route->carry(std::move(client), *std::move(server));
}

void Proxy::EndDirection(Socket& from, Socket& to) {
  boost::system::error_code ignored;
  to.shutdown(Socket::shutdown_send, ignored);
  from.shutdown(Socket::shutdown_receive, ignored);
}

void Proxy::CloseBoth(Socket& one, Socket& other) {
  boost::system::error_code ignored;
  one.close(ignored);
  other.close(ignored);
}

namespace {

constexpr size_t kChunkBytes = 65'536;
constexpr size_t kMaxUnsentBytes = size_t{1} << 20;

}  // namespace

// One connection through the proxy.
class DelayingProxy::Link : public std::enable_shared_from_this<Link> {
 public:
  Link(Clock::duration delay, double bytes_per_second, Socket client, Socket server)
      : client_(std::move(client)),
        server_(std::move(server)),
        there_(client_, server_, delay, bytes_per_second),
        back_(server_, client_, delay, bytes_per_second) {}

  void Start() {
    const auto executor = client_.get_executor();
    for (Direction* direction : {&there_, &back_}) {
      asio::co_spawn(executor, Collect(shared_from_this(), *direction), asio::detached);
      asio::co_spawn(executor, Deliver(shared_from_this(), *direction), asio::detached);
    }
  }

 private:
  using Bytes = std::vector<std::byte>;  // Empty: the end of the direction.

  struct Direction {
    Direction(Socket& source, Socket& sink, Clock::duration delay, double bytes_per_second)
        : from(source),
          to(sink),
          line(delay, bytes_per_second,
               kMaxUnsentBytes + static_cast<size_t>(std::chrono::duration<double>(delay).count() *
                                                     bytes_per_second)),
          entered(source.get_executor()),
          left(source.get_executor()) {}

    Socket& from;
    Socket& to;
    DelayLine<Bytes> line;
    WaitList entered, left;  // The line.
  };

  [[nodiscard]] static awaitable<void> Collect(std::shared_ptr<Link> self, Direction& direction) {
    Bytes chunk(kChunkBytes);
    for (;;) {
      auto [ended, got] = co_await direction.from.async_read_some(asio::buffer(chunk), kNoThrow);
      if (ended && ended != asio::error::eof) co_return self->Close();
      while (!direction.line.HasRoom(got)) {
        if (!co_await direction.left.Wait(Clock::time_point::max()) || self->closed_) co_return;
      }
      direction.line.Push(Clock::now(), got, Bytes(chunk.begin(), chunk.begin() + got));
      direction.entered.NotifyAll();
      if (ended) co_return;
    }
  }

  [[nodiscard]] static awaitable<void> Deliver(std::shared_ptr<Link> self, Direction& direction) {
    asio::steady_timer timer(direction.to.get_executor());
    for (;;) {
      const std::optional<Clock::time_point> due = direction.line.due();
      if (!due) {
        if (!co_await direction.entered.Wait(Clock::time_point::max()) || self->closed_) co_return;
        continue;
      }
      timer.expires_at(*due);
      co_await timer.async_wait(kNoThrow);
      const Bytes bytes = direction.line.Pop();
      direction.left.NotifyAll();
      if (bytes.empty()) co_return EndDirection(direction.from, direction.to);
      auto [failed, count] =
          co_await asio::async_write(direction.to, asio::buffer(bytes), kNoThrow);
      if (failed) co_return self->Close();
    }
  }

  void Close() {
    closed_ = true;
    CloseBoth(client_, server_);
    for (Direction* direction : {&there_, &back_}) {
      direction->entered.NotifyAll();
      direction->left.NotifyAll();
    }
  }

  Socket client_;
  Socket server_;
  Direction there_;
  Direction back_;
  bool closed_ = false;
};

DelayingProxy::DelayingProxy(asio::any_io_executor executor, Clock::duration delay,
                             double bytes_per_second)
    : Proxy(std::move(executor), [delay, bytes_per_second](Socket client, Socket server) {
        std::make_shared<Link>(delay, bytes_per_second, std::move(client), std::move(server))
            ->Start();
      }) {}

namespace {

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
      const bool cut = !self->cut_ && got >= self->left_;
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

uint64_t KillingProxy::kills() const { return core_->kills; }

}  // namespace simurgh::rpc::testing
