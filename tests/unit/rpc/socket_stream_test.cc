#include "rpc/socket_stream.h"

#include <optional>
#include <span>
#include <string>

#include <boost/asio/write.hpp>
#include <catch2/catch.hpp>

#include "tests/unit/rpc/ends.h"

namespace simurgh::rpc {
namespace {

using testing::Loop;

// A stream whose peer is a plain socket, over TCP.
class Scene {
 public:
  Scene() : peer(loop_.executor()) {
    auto listener = *Listener::Open(loop_.executor(), *ParseAddress("127.0.0.1:0"));
    Socket socket(loop_.executor());
    const auto connect = [&]() -> awaitable<Status> {
      SIMURGH_CO_ASSIGN_OR_RETURN(peer,
                                  co_await Connect(*ParseAddress(listener->address()), Soon()));
      co_return absl::OkStatus();
    };
    const auto accept = [&]() -> awaitable<Status> {
      SIMURGH_CO_ASSIGN_OR_RETURN(socket, co_await listener->Accept());
      co_return absl::OkStatus();
    };
    REQUIRE(loop_.Run(Both(connect(), accept())) == absl::OkStatus());
    stream.emplace(std::move(socket));
  }

  void StartReadLate(size_t least) {
    Start([this, least](auto room) { return stream->ReadLate(room, least, stop.slot()); });
  }
  void StartRead() {
    Start([this](auto room) { return stream->Read(room, {}); });
  }

  // Everything that has arrived has been seen when it returns.
  void Send(size_t bytes) {
    const size_t before = stream->unread();
    asio::write(peer, asio::buffer(std::string(bytes, 'x')));
    while (stream->unread() < before + bytes) {
    }
    loop_.context().poll();
  }

  Stream::Progress End() {
    while (!ended) loop_.context().run_one();
    return *ended;
  }

 private:
  template <typename Reading>
  void Start(Reading reading) {
    ended.reset();
    asio::co_spawn(loop_.executor(), NoteEnd(reading), asio::detached);
    loop_.context().restart();
    loop_.context().poll();
  }

  template <typename Reading>
  awaitable<void> NoteEnd(Reading reading) {
    const asio::mutable_buffer room(place_.data(), place_.size());
    ended = co_await reading(std::span(&room, 1));
  }

  Loop loop_;
  std::string place_ = std::string(1 << 20, '\0');

 public:
  Socket peer;
  std::optional<SocketStream> stream;
  std::optional<Stream::Progress> ended;
  asio::cancellation_signal stop;
};

constexpr size_t kLeast = 60'000;

TEST_CASE("who reads late is not woken before the bytes are there, and next time for any") {
  Scene scene;
  scene.StartReadLate(kLeast);
  scene.Send(kLeast - 1);
  REQUIRE(!scene.ended);
  scene.Send(1);
  CHECK(scene.End().bytes == kLeast);
  scene.StartRead();
  scene.Send(1);
  CHECK(scene.End().bytes == 1);
}

TEST_CASE("who reads late is woken by the end of the connection") {
  Scene scene;
  scene.StartReadLate(kLeast);
  scene.Send(10);
  REQUIRE(!scene.ended);
  scene.peer.close();
  CHECK(scene.End().bytes == 10);
  scene.StartRead();
  CHECK(scene.End().error == asio::error::eof);
}

TEST_CASE("who is stopped reading late finds what has come, and later any byte") {
  Scene scene;
  scene.StartReadLate(kLeast);
  scene.Send(10);
  REQUIRE(!scene.ended);
  scene.stop.emit(asio::cancellation_type::terminal);
  CHECK(scene.End().error == asio::error::operation_aborted);
  scene.StartRead();
  CHECK(scene.End().bytes == 10);
  scene.StartRead();
  scene.Send(1);
  CHECK(scene.End().bytes == 1);
}

TEST_CASE("more than the buffer holds is not waited for") {
  Scene scene;
  scene.StartReadLate(size_t{1} << 30);
  scene.Send(10);
  CHECK(scene.End().bytes == 10);
}

}  // namespace
}  // namespace simurgh::rpc
