// Peers that misuse shared memory.

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "rpc/control.h"
#include "rpc/region.h"
#include "rpc/sharing.h"
#include "rpc/stream.h"
#include "tests/unit/rpc/ends.h"

namespace simurgh::rpc {
namespace {

using testing::Encode;
using testing::HelloFrame;
using testing::Loop;
using testing::RawFrame;
using testing::RawPeer;

constexpr uint64_t kRegionBytes = 8 * kPageBytes;

// A server that keeps its requests, and a client that the test controls.
struct Scene {
  Scene() : server(loop.executor(), TestHello("server"), {.max_frame_bytes = 100'000}, &observer) {
    server.Register({.id = kWork,
                     .placement = AllocateAll(8),
                     .handle = [this](Request request) -> awaitable<StatusOr<OutgoingMessage>> {
                       held.push_back(std::move(request.message));
                       co_return OutgoingMessage();
                     }});
    REQUIRE(server.Listen("shm://" + UnixPath("abuse")) == absl::OkStatus());
  }

  RawPeer Dial() {
    auto peer = loop.Run(RawPeer::Dial(server.address()));
    REQUIRE(peer.ok());
    return *std::move(peer);
  }

  // The server's answer to a HELLO with these files.
  RawFrame Greet(RawPeer& peer, const std::vector<int>& files) {
    const auto hello = Encode(HelloFrame(TestHello("client"), kFeatureSharedMemory));
    REQUIRE(peer.SendFiles(hello, files) == absl::OkStatus());
    auto answer = loop.Run(peer.Read());
    REQUIRE(answer.status() == absl::OkStatus());
    return *std::move(answer);
  }

  // The message of the ERROR.
  std::string Refusal(const std::vector<int>& files) {
    RawPeer peer = Dial();
    const RawFrame answer = Greet(peer, files);
    CHECK(answer.header.kind == FrameKind::kError);
    Status error;
    REQUIRE(DecodeError(answer.header, answer.metadata, error) == absl::OkStatus());
    loop.Run(peer.ReadToEnd());
    return std::string(error.message());
  }

  // Agrees on shared memory correctly.
  RawPeer Agreed() {
    RawPeer peer = Dial();
    const RawFrame answer = Greet(peer, {region.number(), board.number()});
    CHECK(answer.header.kind == FrameKind::kHello);
    CHECK((DecodeHello(answer.metadata)->features & kFeatureSharedMemory) != 0);
    return peer;
  }

  RawFrame Lending(std::vector<RawFrame::Borrowed> lent) {
    RawFrame frame;
    frame.header.kind = FrameKind::kRequest;
    frame.header.request_id = ++last_id;
    frame.header.method = kWork.number;
    frame.borrowed = std::move(lent);
    return frame;
  }

  // The reason for which the server closes the connection after the frame.
  std::string Cut(RawPeer& peer, const RawFrame& frame) {
    const size_t before = observer.closes.size();
    REQUIRE(loop.Run(peer.Send(Encode(frame))) == absl::OkStatus());
    loop.Run(peer.ReadToEnd());
    REQUIRE(observer.closes.size() == before + 1);
    CHECK(observer.closes.back() == CloseReason::kMalformed);
    return observer.errors.back();
  }
  std::string Cut(const std::vector<RawFrame::Borrowed>& lent) {
    RawPeer peer = Agreed();
    return Cut(peer, Lending(lent));
  }

  Loop loop;
  RecordingObserver observer;
  std::vector<IncomingMessage> held;
  Server server;
  FileDescriptor region = (*OutgoingRegion::Create(kRegionBytes))->TakeFile();
  FileDescriptor board = (*IncomingRegion::Create())->TakeBoard();
  uint64_t last_id = 0;
};

TEST_CASE("invalid borrowed segments close the connection with a reason") {
  Scene scene;
  RawPeer other = scene.Agreed();
  CHECK_THAT(scene.Cut({{{.offset = kRegionBytes - 64, .slot = 0}, 65}}),
             Catch::Contains("the region has 32768 bytes"));
  CHECK_THAT(scene.Cut({{{.offset = 0, .slot = kMaxBorrowedSegments}, 1}}),
             Catch::Contains("there are"));
  CHECK_THAT(scene.Cut({{{.slot = 5, .generation = 1}, 1}, {{.slot = 5, .generation = 1}, 1}}),
             Catch::Contains("slot is in use"));
  // Each is in the region, but together they exceed a frame.
  CHECK_THAT(scene.Cut({{{.slot = 0, .generation = 1}, kRegionBytes},
                        {{.slot = 1, .generation = 1}, kRegionBytes},
                        {{.slot = 2, .generation = 1}, kRegionBytes},
                        {{.slot = 3, .generation = 1}, kRegionBytes}}),
             Catch::Contains("with borrowed segments, expected at most 100000"));

  // The server holds a segment.
  RawPeer peer = scene.Agreed();
  const RawFrame::Borrowed lent{{.offset = 0, .slot = 9, .generation = 1}, 100};
  REQUIRE(scene.loop.Run(peer.Send(Encode(scene.Lending({lent})))) == absl::OkStatus());
  CHECK(scene.loop.Run(peer.Read())->header.kind == FrameKind::kResponse);
  REQUIRE(scene.held.size() == 1);
  CHECK_THAT(scene.Cut(peer, scene.Lending({lent})), Catch::Contains("slot is in use"));
  CHECK(scene.held[0].segments[0].bytes.size() == 100);

  REQUIRE(scene.loop.Run(other.Send(Encode(scene.Lending({lent})))) == absl::OkStatus());
  CHECK(scene.loop.Run(other.Read())->header.kind == FrameKind::kResponse);
}

TEST_CASE("borrowed segments without shared memory are malformed") {
  Scene scene;
  RawPeer peer = scene.Dial();
  REQUIRE(scene.loop.Run(peer.ShakeHands(TestHello("client"))) == absl::OkStatus());
  CHECK_THAT(scene.Cut(peer, scene.Lending({{{.slot = 0}, 1}})),
             Catch::Contains("without shared memory"));
}

TEST_CASE("a segment both borrowed and in the frame is malformed") {
  Scene scene;
  RawPeer peer = scene.Agreed();
  RawFrame frame = scene.Lending({{{.slot = 0}, 100}});
  frame.segments.emplace_back(50);
  std::vector<std::byte> bytes = Encode(frame);
  // payload_length counts both.
  FrameHeader header;
  std::memcpy(&header, bytes.data(), kHeaderBytes);
  header.payload_length += 100;
  header = Seal(header);
  std::memcpy(bytes.data(), &header, kHeaderBytes);
  bytes.resize(bytes.size() + 100);
  REQUIRE(scene.loop.Run(peer.Send(bytes)) == absl::OkStatus());
  scene.loop.Run(peer.ReadToEnd());
  CHECK_THAT(scene.observer.errors.back(), Catch::Contains("the sum of its segments"));
}

FileDescriptor Memfd(uint64_t size, int seals) {
  FileDescriptor file(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(file.number(), static_cast<off_t>(size)) == 0);
  REQUIRE(::fcntl(file.number(), F_ADD_SEALS, seals) == 0);
  return file;
}

TEST_CASE("wrong files are refused before anything else is sent") {
  Scene scene;
  const int region = scene.region.number(), board = scene.board.number();
  const FileDescriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const FileDescriptor open_ended = Memfd(1 << 20, F_SEAL_GROW), tiny = Memfd(8, F_SEAL_SHRINK);
  CHECK_THAT(scene.Refusal({null.number(), board}), Catch::Contains("not a memfd"));
  CHECK_THAT(scene.Refusal({region, null.number()}), Catch::Contains("not a memfd"));
  CHECK_THAT(scene.Refusal({open_ended.number(), board}), Catch::Contains("not sealed"));
  CHECK_THAT(scene.Refusal({region, open_ended.number()}), Catch::Contains("not sealed"));
  CHECK_THAT(scene.Refusal({tiny.number(), board}), Catch::Contains("has 8 bytes"));
  CHECK_THAT(scene.Refusal({region, tiny.number()}), Catch::Contains("has 8 bytes"));
  CHECK_THAT(scene.Refusal({board, region}), Catch::Contains("expected 16384 to 16384"));
  CHECK_THAT(scene.Refusal({region}), Catch::Contains("received 1 of the peer's 2 files"));
  CHECK(scene.observer.closes == std::vector<CloseReason>(8, CloseReason::kRefused));
  scene.Agreed();  // Other clients are served.
}

TEST_CASE("a peer that offers memory but passes no file is refused") {
  Scene scene;
  RawPeer peer = scene.Dial();
  const auto hello = Encode(HelloFrame(TestHello("client"), kFeatureSharedMemory));
  REQUIRE(scene.loop.Run(peer.Send(hello)) == absl::OkStatus());
  CHECK(scene.loop.Run(peer.Read())->header.kind == FrameKind::kError);
}

size_t OpenFiles() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(files), end(files)));
}

TEST_CASE("files beyond the two of a HELLO are dropped") {
  Scene scene;
  const int region = scene.region.number(), board = scene.board.number();
  RawPeer peer = scene.Agreed();
  const size_t before = OpenFiles();
  RawFrame request = scene.Lending({});
  for (int i = 0; i < 20; ++i) {
    request.header.request_id = ++scene.last_id;
    REQUIRE(peer.SendFiles(Encode(request), {region, board, region}) == absl::OkStatus());
    CHECK(scene.loop.Run(peer.Read())->header.kind == FrameKind::kResponse);
  }
  CHECK(OpenFiles() == before);

  // Two with each part of the HELLO.
  RawPeer greedy = scene.Dial();
  const size_t connected = OpenFiles();
  std::vector<std::byte> hello = Encode(HelloFrame(TestHello("client"), kFeatureSharedMemory));
  for (size_t at = 0; at < hello.size(); at += 16) {
    const size_t end = std::min(hello.size(), at + 16);
    REQUIRE(greedy.SendFiles({hello.begin() + static_cast<ptrdiff_t>(at),
                              hello.begin() + static_cast<ptrdiff_t>(end)},
                             {region, board}) == absl::OkStatus());
  }
  CHECK(scene.loop.Run(greedy.Read())->header.kind == FrameKind::kHello);
  CHECK(OpenFiles() == connected + 1);  // The accepted socket; mappings need none.
}

TEST_CASE("a process without free descriptors reports missing files") {
  Loop loop;
  std::array<int, 2> ends{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
  const auto files = std::make_shared<FilePassing>();
  const asio::generic::stream_protocol unix_sockets(AF_UNIX, 0);
  SocketStream stream(Socket(loop.executor(), unix_sockets, ends[0]), files);
  RawPeer sender{Socket(loop.executor(), unix_sockets, ends[1])};
  const FileDescriptor region = (*OutgoingRegion::Create(kRegionBytes))->TakeFile();
  const auto sharing = *Sharing::Offer(loop.executor(), kRegionBytes);
  REQUIRE(sender.SendFiles(Bytes(10), {region.number(), region.number()}).ok());

  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  rlimit none = limit;
  none.rlim_cur = 0;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  Bytes destination(10);
  const asio::mutable_buffer buffer(destination.data(), destination.size());
  const Stream::Progress progress = stream.TryRead({&buffer, 1});
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
  CHECK(progress.bytes == 10);
  const Status refused = sharing->Agree(files->TakeAll());
  CHECK(absl::IsResourceExhausted(refused));
  CHECK_THAT(std::string(refused.message()), Catch::Contains("raise the limit of open files"));
}

}  // namespace
}  // namespace simurgh::rpc
