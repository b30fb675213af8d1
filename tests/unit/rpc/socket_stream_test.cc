#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <catch2/catch.hpp>

#include "rpc/async.h"
#include "rpc/connection.h"
#include "rpc/stream.h"
#include "tests/unit/rpc/ends.h"

namespace simurgh::rpc {
namespace {

using testing::Loop;

// A TCP stream whose peer is a plain socket.
class Scene {
 public:
  Scene()
      : pair_(loop_),
        peer(std::move(pair_.client)),
        stream(std::make_unique<SocketStream>(std::move(pair_.server))) {}

  void SleepThenRead(size_t least) {
    Start([this, least](auto room) -> awaitable<Stream::Progress> {
      (void)co_await stream->SleepUntil(least, stop.slot());
      co_return co_await stream->Read(room, {});
    });
  }
  void StartRead() {
    Start([this](auto room) { return stream->Read(room, {}); });
  }

  // Returns when the event loop has handled the arrival.
  void Send(size_t bytes) {
    const size_t before = stream->unread();
    asio::write(peer, asio::buffer(std::string(bytes, 'x')));
    while (stream->unread() < before + bytes) {
    }
    loop_.context().poll();
  }

  asio::io_context& context() { return loop_.context(); }

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
  Pair pair_;
  std::string place_ = std::string(1 << 20, '\0');

 public:
  Socket peer;
  std::unique_ptr<SocketStream> stream;
  std::optional<Stream::Progress> ended;
  asio::cancellation_signal stop;
};

constexpr size_t kLeast = 60'000;

TEST_CASE("a sleep ends when all bytes are available, and the next wait with any byte") {
  Scene scene;
  scene.SleepThenRead(kLeast);
  scene.Send(kLeast - 1);
  REQUIRE(!scene.ended);
  CHECK(LongWait::any());
  scene.Send(1);
  CHECK(scene.End().bytes == kLeast);
  CHECK(!LongWait::any());
  scene.StartRead();
  scene.Send(1);
  CHECK(scene.End().bytes == 1);
}

TEST_CASE("a sleep ends with the connection") {
  Scene scene;
  scene.SleepThenRead(kLeast);
  scene.Send(10);
  REQUIRE(!scene.ended);
  scene.peer.close();
  CHECK(scene.End().bytes == 10);
  scene.StartRead();
  CHECK(scene.End().error == asio::error::eof);
}

TEST_CASE("after a stopped sleep a read gets the available bytes") {
  Scene scene;
  scene.SleepThenRead(kLeast);
  scene.Send(10);
  REQUIRE(!scene.ended);
  scene.stop.emit(asio::cancellation_type::terminal);
  CHECK(scene.End().bytes == 10);
  scene.StartRead();
  scene.Send(1);
  CHECK(scene.End().bytes == 1);
}

TEST_CASE("a sleep for more than the buffer holds returns at once") {
  Scene scene;
  scene.SleepThenRead(size_t{1} << 30);
  scene.Send(10);
  CHECK(scene.End().bytes == 10);
}

TEST_CASE("one system call moves at most about 1 MiB") {
  Scene scene;
  Bytes bytes(4 << 20);
  const asio::const_buffer large(bytes.data(), bytes.size());
  CHECK(scene.stream->TryWrite({&large, 1}).bytes < 1'200'000);
  scene.Send(1'500'000);
  const asio::mutable_buffer room(bytes.data(), bytes.size());
  CHECK(scene.stream->TryRead({&room, 1}).bytes < 1'200'000);
}

TEST_CASE("a write with remaining buffers does not send a partial TCP segment") {
  Scene scene;
  const std::byte byte{};
  const std::vector<asio::const_buffer> buffers(257, {&byte, 1});
  bool held = false;
  for (int i = 0; i < 10 && !held; ++i) {  // The kernel holds it back for a limited time.
    const size_t before = scene.peer.available();
    REQUIRE(scene.stream->TryWrite(buffers).bytes == 256);
    held = scene.peer.available() == before;
    REQUIRE(scene.stream->TryWrite(std::span(buffers).last(1)).bytes == 1);
    while (scene.peer.available() != before + 257) {
    }
  }
  CHECK(held);
}

OutgoingFrame LargeFrame() {
  OutgoingFrame frame;
  frame.header.kind = FrameKind::kRequest;
  frame.header.request_id = 1;
  frame.message = Message({}, {Bytes(16 << 20)});
  return frame;
}

// The head of a message of 4 MiB and its first bytes.
Bytes ResponseInChunks(size_t first) {
  const testing::RawFrame head = HeadOf(Response(2, {Bytes(4 << 20)}));
  testing::RawFrame chunk = Response(2, {Bytes(first, std::byte{7})});
  chunk.header.kind = FrameKind::kChunk;
  return EncodeAll({head, chunk});
}

// A connection that sleeps for the first chunk of a message.
struct Receiver {
  static constexpr size_t kChunk = 600'000, kBegun = 1'000;

  Receiver() {
    asio::co_spawn(scene.context(), Read(),
                   [this](const std::exception_ptr&, const Status& status) { end = status; });
    scene.context().restart();
  }
  ~Receiver() {
    connection->Close(absl::CancelledError("the test is over"));
    scene.context().poll();
  }

  awaitable<Status> Read() {
    SIMURGH_CO_ASSIGN_OR_RETURN(IncomingFrame head, co_await connection->ReadFrame());
    std::vector<IncomingSegment> destinations{{.bytes = destination}};
    payload = std::make_shared<IncomingPayload>(std::move(head), std::move(destinations));
    SIMURGH_CO_RETURN_IF_ERROR((co_await connection->ReadFrame()).status());
    co_return co_await connection->ReadPayload(*payload);
  }

  // The first bytes of the chunk are in their destination.
  void Begin() {
    Send(bytes.size() - kChunk + kBegun);
    while (destination[kBegun - 1] == std::byte{0}) scene.context().poll();
    scene.context().poll();
  }

  // The next ones.
  void Send(size_t count) {
    asio::write(scene.peer, asio::buffer(bytes.data() + sent, count));
    sent += count;
  }

  Scene scene;
  SocketStream* const stream = scene.stream.get();
  std::shared_ptr<Connection> connection = std::make_shared<Connection>(
      std::move(scene.stream), "peer", FrameLimits(), ObserverLink(nullptr));
  const Bytes bytes = ResponseInChunks(kChunk);
  size_t sent = 0;
  Bytes destination = Bytes(4 << 20);
  std::shared_ptr<IncomingPayload> payload;
  std::optional<Status> end;
};

// The sleep ends together with a wait for writability, whose handler runs first, and with it
// whatever was posted.
TEST_CASE("nothing is written to a destination abandoned after the sleep for its bytes") {
  const int posts = GENERATE(range(0, 6));
  Receiver receiver;
  Scene& scene = receiver.scene;
  receiver.connection->Send(LargeFrame());
  scene.context().poll();
  receiver.Begin();
  receiver.Send(receiver.bytes.size() - receiver.sent);
  Bytes written(receiver.connection->outgoing().bytes);
  REQUIRE(written.size() < 16 << 20);
  asio::read(scene.peer, asio::buffer(written));
  std::optional<Bytes> given_up;  // A copy.
  const std::function<void(int)> abandon_after = [&](int more) {
    if (more != 0) return asio::post(scene.context(), [&, more] { abandon_after(more - 1); });
    if (receiver.end) return;
    receiver.connection->Abandon(*receiver.payload);
    given_up = receiver.destination;
  };
  abandon_after(posts);
  while (!receiver.end) scene.context().run_one();
  CHECK(*receiver.end == absl::OkStatus());
  CHECK((!given_up || receiver.destination == *given_up));
  scene.context().poll();  // Posted handlers.
}

TEST_CASE("bytes that wait for the end of a sleep count as progress") {
  constexpr size_t kMore = 10'000;  // More than a new connection's TCP window would end the sleep.
  Receiver receiver;
  receiver.Begin();
  const uint64_t before = receiver.connection->incoming().bytes;
  receiver.Send(kMore);
  while (receiver.stream->unread() < kMore) continue;
  receiver.scene.context().poll();
  CHECK(receiver.destination[Receiver::kBegun] == std::byte{0});
  CHECK(receiver.connection->incoming().bytes == before + kMore);
}

}  // namespace
}  // namespace simurgh::rpc
