#include "rpc/zero_copy.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "rpc/connection.h"
#include "tests/unit/rpc/ends.h"

namespace simurgh::rpc {
namespace {

// Takes what is written and keeps the kept buffers until the test lets them go.
class KeepingStream : public Stream {
 public:
  explicit KeepingStream(asio::any_io_executor executor) : executor_(std::move(executor)) {}

  Progress TryRead(std::span<const asio::mutable_buffer>) override {
    return {asio::error::would_block, 0};
  }
  awaitable<Progress> Read(std::span<const asio::mutable_buffer>,
                           asio::cancellation_slot) override {
    co_return Progress{asio::error::eof, 0};
  }
  Progress TryWrite(std::span<const asio::const_buffer> buffers) override {
    const size_t bytes = asio::buffer_size(buffers);
    written += bytes;
    return {ErrorCode(), bytes};
  }
  Progress TryWriteKept(std::span<const asio::const_buffer> buffers) override {
    ++kept_writes;
    return TryWrite(buffers);
  }
  Free Freed() override { return {.until = free_until}; }
  void WhenFreed(std::function<void()> freed) override { when_freed = std::move(freed); }
  void WhenWritable(std::function<void(const ErrorCode&)>) override {}
  void Close() override { when_freed = nullptr; }
  std::string peer() const override { return "test"; }
  asio::any_io_executor executor() override { return executor_; }

  uint64_t written = 0;
  uint64_t free_until = 0;
  int kept_writes = 0;
  std::function<void()> when_freed;

 private:
  const asio::any_io_executor executor_;
};

// A connection over such a stream.
struct Keeping {
  Keeping() {
    auto stream = std::make_unique<KeepingStream>(loop.executor());
    kept = stream.get();
    connection = std::make_shared<Connection>(std::move(stream), "test", FrameLimits(),
                                              ObserverLink(nullptr));
  }
  ~Keeping() { connection->Close(absl::CancelledError("the test is over")); }

  // Sends bytes that somebody owns, or nobody.
  void Send(const Bytes& bytes, std::shared_ptr<const void> owner) {
    OutgoingFrame frame;
    frame.header.kind = FrameKind::kRequest;
    frame.header.request_id = ++id;
    frame.message.segments.push_back({.bytes = bytes, .owner = std::move(owner)});
    connection->Send(std::move(frame));
    loop.context().restart();
    loop.context().run();
  }

  testing::Loop loop;
  KeepingStream* kept = nullptr;
  std::shared_ptr<Connection> connection;
  uint64_t id = 0;
};

TEST_CASE("owners are let go only when the stream needs their bytes no more") {
  Keeping ends;
  const auto first = std::make_shared<const Bytes>(100'000);
  const auto second = std::make_shared<const Bytes>(100'000);
  ends.Send(*first, first);
  const uint64_t first_end = ends.kept->written;
  ends.Send(*second, second);
  CHECK(ends.kept->kept_writes == 2);
  CHECK(ends.connection->outbox().empty());
  CHECK(first.use_count() == 2);
  CHECK(second.use_count() == 2);
  REQUIRE(ends.kept->when_freed != nullptr);

  const auto free = [&](uint64_t until) {
    ends.kept->free_until = until;
    std::exchange(ends.kept->when_freed, nullptr)();
  };
  free(first_end - 1);
  CHECK(first.use_count() == 2);
  REQUIRE(ends.kept->when_freed != nullptr);
  SECTION("in order") {
    free(first_end);
    CHECK(first.use_count() == 1);
    CHECK(second.use_count() == 2);
    REQUIRE(ends.kept->when_freed != nullptr);
    free(ends.kept->written);
    CHECK(second.use_count() == 1);
    CHECK(ends.kept->when_freed == nullptr);
  }
  SECTION("at the latest when the connection ends") {
    ends.connection->Close(absl::CancelledError("enough"));
    CHECK(first.use_count() == 1);
    CHECK(second.use_count() == 1);
  }
}

TEST_CASE("bytes without an owner are not kept") {
  Keeping ends;
  const Bytes bytes(100'000);
  ends.Send(bytes, nullptr);
  CHECK(ends.kept->written > bytes.size());
  CHECK(ends.kept->kept_writes == 0);
}

bool KernelOffersZeroCopy() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  const bool on = ZeroCopy(socket).on();
  ::close(socket);
  return on;
}

TEST_CASE("a report that waits is not the end of a connection") {
  testing::Loop loop;
  Pair ends(loop);
  const int socket = ends.client.native_handle();
  const ZeroCopy zero_copy(socket);
  if (zero_copy.on()) {
    const Bytes bytes(40'000);
    REQUIRE(::send(socket, bytes.data(), bytes.size(), MSG_ZEROCOPY) > 0);
    pollfd report{.fd = socket, .events = 0, .revents = 0};
    REQUIRE(::poll(&report, 1, 20'000) == 1);
    REQUIRE((report.revents & POLLERR) != 0);
  }
  CHECK_FALSE(HasHungUp(ends.client));
  SECTION("when the peer closes") { ends.server.close(); }
  SECTION("when it only sends no more") { ends.server.shutdown(Socket::shutdown_send); }
  pollfd end{.fd = socket, .events = POLLRDHUP, .revents = 0};
  while ((end.revents & POLLRDHUP) == 0) REQUIRE(::poll(&end, 1, 20'000) == 1);
  CHECK(HasHungUp(ends.client));
}

TEST_CASE("within one machine both ends find that the kernel copies, and switch it off") {
  Ends ends(EchoMethod().handle, {.zero_copy_send = true});
  RecordingObserver observer;
  Client client(ends.loop.executor(), ends.server->address(), TestHello("client"),
                {.zero_copy_send = true}, &observer);
  for (const size_t size : {100, 40'000, 1'000'000, 40'000}) {
    Bytes bytes(size);
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7);
    const auto answer =
        ends.loop.Run(client.Call(kEcho, Message({}, {bytes}), IntoVectors(), Soon()));
    REQUIRE(answer.status() == absl::OkStatus());
    CHECK(Segments(*answer) == std::vector<Bytes>{bytes});
  }
  if (!KernelOffersZeroCopy()) {
    WARN("this kernel has no MSG_ZEROCOPY; only the fallback was tested");
    CHECK(observer.zero_copy_off + ends.observer.zero_copy_off == 0);
    return;
  }
  CHECK(observer.zero_copy_off == 1);
  CHECK(ends.observer.zero_copy_off == 1);
}

TEST_CASE("where the kernel refuses it, sending is as without") {
  int pair[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
  ZeroCopy refused(pair[0]);
  CHECK_FALSE(refused.on());
  CHECK_FALSE(refused.waiting());
  CHECK(refused.free_until(100) == 100);
  ::close(pair[0]);
  ::close(pair[1]);
}

}  // namespace
}  // namespace simurgh::rpc
