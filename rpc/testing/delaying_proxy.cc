#include "rpc/testing/delaying_proxy.h"

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include <boost/asio/write.hpp>

#include "rpc/testing/delay_line.h"
#include "rpc/waiter.h"

namespace simurgh::rpc::testing {
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

}  // namespace simurgh::rpc::testing
