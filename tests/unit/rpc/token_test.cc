// Tokens: their files, their proofs, and connections of ends with and without them.

#include "rpc/token.h"

#include <filesystem>
#include <fstream>

#include <unistd.h>

#include <catch2/catch.hpp>

#include "tests/support/rpc/certificates.h"
#include "tests/support/skip.h"
#include "tests/unit/rpc/ends.h"

namespace simurgh::rpc {
namespace {

using testing::Encode;
using testing::RawFrame;
using testing::RawPeer;

std::shared_ptr<const Token> TokenOf(const std::string& secret) {
  return std::make_shared<const Token>(secret);
}

TEST_CASE("a token's file is private and long enough") {
  const std::string path = UnixPath("token");
  const auto load = [&](const std::string& content, int mode) {
    std::ofstream(path, std::ios::trunc) << content;
    std::filesystem::permissions(path, std::filesystem::perms(mode));
    return Token::Load(path);
  };
  const std::string secret = "0123456789abcdef0123456789abcdef";
  const auto first = load(secret + " \n", 0600);
  REQUIRE(first.status() == absl::OkStatus());
  const auto same = load(secret, 0400);
  REQUIRE(same.status() == absl::OkStatus());
  const Token::Nonce nonce{};
  CHECK((*first)->Prove("a", nonce, nonce, "") == (*same)->Prove("a", nonce, nonce, ""));

  const auto problem = [&](const StatusOr<std::shared_ptr<const Token>>& token) {
    CHECK(absl::IsInvalidArgument(token.status()));
    const std::string message(token.status().message());
    CHECK_THAT(message,
               Catch::StartsWith("'" + path + "' ") &&
                   Catch::EndsWith("; create it with: head -c 32 /dev/urandom | base64 > " + path +
                                   "; chmod 600 " + path));
    return message;
  };
  CHECK_THAT(problem(load(secret.substr(1) + "\n", 0600)), Catch::Contains("has 31 bytes"));
  CHECK_THAT(problem(load(std::string(5'000, 's'), 0600)), Catch::Contains("exceeds 4096 bytes"));
  // HMAC pads keys with zeros: the empty key would prove the first one.
  CHECK_THAT(problem(load(std::string(64, '\0'), 0600)), Catch::Contains("has a byte of value 0"));
  CHECK_THAT(problem(load(secret + '\0', 0600)), Catch::Contains("has a byte of value 0"));
  CHECK_THAT(problem(load(std::string(64, 's') + "\n", 0600)), Catch::Contains("repeats one byte"));
  for (const int mode : {0640, 0610, 0604, 0602, 0601}) {
    CHECK_THAT(problem(load(secret, mode)), Catch::Contains("can be accessed by other users"));
  }
  std::filesystem::remove(path);
  CHECK_THAT(problem(Token::Load(path)), Catch::Contains("cannot be read: No such file"));
  std::filesystem::create_directory(path);
  CHECK_THAT(problem(Token::Load(path)), Catch::Contains("is not a regular file"));
  std::filesystem::remove(path);
}

TEST_CASE("a token's file of another user is refused") {
  if (::geteuid() != 0) SIMURGH_SKIP("only root can give a file to another user");
  constexpr uid_t kNobody = 65'534;
  const std::string path = UnixPath("token");
  std::ofstream(path) << "0123456789abcdef0123456789abcdef";
  std::filesystem::permissions(path, std::filesystem::perms(0600));
  REQUIRE(Token::Load(path).ok());
  if (::chown(path.c_str(), kNobody, kNobody) != 0) {
    std::filesystem::remove(path);
    SIMURGH_SKIP("this user namespace has no other user");
  }
  CHECK_THAT(std::string(Token::Load(path).status().message()),
             Catch::Contains("belongs to another user"));
  std::filesystem::remove(path);
}

// Source: Python's hmac.
TEST_CASE("a proof is the HMAC of label, nonces and claims") {
  const Token token("key");
  Token::Nonce peer;
  Token::Nonce own;
  peer.fill(std::byte{1});
  own.fill(std::byte{2});
  const Token::Proof proof = token.Prove(Token::kServer, peer, own, "claims");
  std::string hex;
  for (const std::byte byte : proof) {
    constexpr char kDigits[] = "0123456789abcdef";
    hex += kDigits[static_cast<int>(byte) / 16];
    hex += kDigits[static_cast<int>(byte) % 16];
  }
  CHECK(hex == "efca0b9890507f963472bc2c0d87c4d2625d1e03e705e6ea1fe90b9f6c42b23f");
  CHECK(token.IsProof(proof, Token::kServer, peer, own, "claims"));
  CHECK_FALSE(token.IsProof(proof, Token::kClient, peer, own, "claims"));
  CHECK_FALSE(token.IsProof(proof, Token::kServer, own, peer, "claims"));
  CHECK_FALSE(token.IsProof(proof, Token::kServer, peer, own, "other"));
  CHECK_FALSE(Token("another").IsProof(proof, Token::kServer, peer, own, "claims"));
  CHECK_FALSE(token.IsProof(std::span(proof).first(31), Token::kServer, peer, own, "claims"));
  CHECK(Token::NewNonce() != Token::NewNonce());
}

// A server at the address, with an echo.
struct Guarded {
  Guarded(testing::Loop& loop, const std::string& address, ServerOptions options,
          Hello hello = TestHello("server"))
      : server(loop.executor(), std::move(hello), options, &observer) {
    server.Register(EchoMethod());
    REQUIRE(server.Listen(address) == absl::OkStatus());
  }

  RecordingObserver observer;
  Server server;
};

TEST_CASE("ends with the same token connect over every transport") {
  testing::TestAuthority authority;
  testing::Loop loop;
  ServerOptions server{.token = TokenOf("secret")};
  ClientOptions client{.token = TokenOf("secret")};
  std::string address = "127.0.0.1:0";
  SECTION("TCP") {}
  SECTION("TLS") {
    server.tls = authority.Context("server");
    client.tls = authority.Context("client");
  }
  SECTION("a Unix socket") { address = "unix://" + UnixPath("token"); }
  SECTION("shared memory") { address = "shm://" + UnixPath("token"); }
  SECTION("both") { address = "auto://127.0.0.1:0"; }
  Guarded guarded(loop, address, server);
  Client caller(loop.executor(), guarded.server.address(), TestHello("client"), client, nullptr);
  Random random(5);
  const std::vector<Bytes> segments{RandomBytes(random, 100'000)};
  const auto answer =
      loop.Run(caller.Call(kEcho, Message(Text("x"), segments), IntoVectors(), Soon()));
  REQUIRE(answer.status() == absl::OkStatus());
  CHECK(Segments(*answer) == segments);
  CHECK(guarded.observer.closes.empty());
}

TEST_CASE("ends whose tokens differ refuse each other, naming the key and nothing else") {
  testing::Loop loop;
  const std::string address =
      GENERATE(std::string("127.0.0.1:0"), "unix://" + UnixPath("token"), "auto://127.0.0.1:0");
  const auto check = [&](const std::shared_ptr<const Token>& of_server,
                         const std::shared_ptr<const Token>& of_client,
                         const std::string& problem) {
    Guarded guarded(loop, address, {.token = of_server});
    // The TCP port of auto://, too.
    std::string where = guarded.server.address();
    if (where.starts_with("auto://")) where = where.substr(7);
    Client client(loop.executor(), where, TestHello("client"), {.token = of_client}, nullptr);
    const Status refused = loop.Run(client.Call(kEcho, {}, NoSegments(), Soon())).status();
    CHECK(absl::IsUnauthenticated(refused));
    const std::string message(refused.message());
    CHECK_THAT(message, Catch::Contains("cluster.token_file: " + problem +
                                        "; use the same file for all daemons"));
    CHECK_THAT(message, !Catch::Contains("'test'") && !Catch::Contains("tables.0.dim"));
    CHECK(guarded.observer.connects == 0);
  };
  check(TokenOf("secret"), nullptr, "the server has a token, the client has none");
  check(nullptr, TokenOf("secret"), "the client has a token, the server has none");
  check(TokenOf("secret"), TokenOf("another"), "the server has another token or cluster");
}

// The frame with the nonce of a client.
RawFrame ProofFrame(const Bytes& metadata) {
  RawFrame frame;
  frame.header.kind = FrameKind::kProof;
  frame.metadata = metadata;
  return frame;
}

TEST_CASE("a server says nothing of its cluster before the client's proof") {
  Ends ends(EchoMethod().handle, {.token = TokenOf("secret")});
  const auto converse = [&](Bytes proof) -> awaitable<StatusOr<RawFrame>> {
    SIMURGH_CO_ASSIGN_OR_RETURN(RawPeer peer, co_await RawPeer::Dial(ends.server->address()));
    SIMURGH_CO_RETURN_IF_ERROR(co_await peer.Send(Encode(ProofFrame(Bytes(32)))));
    SIMURGH_CO_ASSIGN_OR_RETURN(const RawFrame answer, co_await peer.Read());
    CHECK(answer.header.kind == FrameKind::kProof);
    CHECK(answer.metadata.size() > 64);
    const std::string text(reinterpret_cast<const char*>(answer.metadata.data()),
                           answer.metadata.size());
    CHECK_THAT(text, !Catch::Contains("test") && !Catch::Contains("tables.0.dim"));
    // The server's own proof, sent back, is none of a client.
    if (proof.empty()) proof.assign(answer.metadata.begin() + 32, answer.metadata.begin() + 64);
    RawFrame frame = testing::HelloFrame(TestHello("peer"));
    frame.metadata.insert(frame.metadata.end(), proof.begin(), proof.end());
    SIMURGH_CO_RETURN_IF_ERROR(co_await peer.Send(Encode(frame)));
    co_return co_await peer.Read();
  };
  for (const Bytes& proof : {Bytes(), Bytes(32), Bytes(31)}) {
    const auto answer = ends.loop.Run(converse(proof));
    REQUIRE(answer.status() == absl::OkStatus());
    CHECK(answer->header.kind == FrameKind::kError);
    CHECK(answer->header.code == static_cast<uint16_t>(absl::StatusCode::kUnauthenticated));
  }
  CHECK(ends.observer.closes == std::vector(3, CloseReason::kRefused));
}

TEST_CASE("a client sends no HELLO to a server that does not prove the token") {
  testing::Loop loop;
  const auto listener = *Listener::Open(loop.executor(), *ParseAddress("127.0.0.1:0"));
  Client client(loop.executor(), listener->address(), TestHello("client"),
                {.token = TokenOf("secret")}, nullptr);
  const RawFrame answer = GENERATE(ProofFrame(Bytes(64)), ProofFrame(Bytes(63)),
                                   testing::HelloFrame(TestHello("server")));
  const auto serve = [&]() -> awaitable<Status> {
    SIMURGH_CO_ASSIGN_OR_RETURN(Socket socket, co_await listener->Accept());
    RawPeer peer(std::move(socket));
    SIMURGH_CO_ASSIGN_OR_RETURN(const RawFrame first, co_await peer.Read());
    CHECK(first.header.kind == FrameKind::kProof);
    SIMURGH_CO_RETURN_IF_ERROR(co_await peer.Send(Encode(answer)));
    CHECK_FALSE((co_await peer.Read()).ok());
    client.Stop();
    co_return absl::OkStatus();
  };
  const auto call = [&]() -> awaitable<Status> {
    CHECK_FALSE((co_await client.Call(kEcho, {}, NoSegments(), Soon())).ok());
    co_return absl::OkStatus();
  };
  CHECK(loop.Run(Both(serve(), call())) == absl::OkStatus());
}

// Forwards the frames of one connection, as a man in the middle who changes them.
[[nodiscard]] awaitable<Status> Relay(Listener& listener, std::string target,
                                      std::function<void(RawFrame&)> change) {
  SIMURGH_CO_ASSIGN_OR_RETURN(Socket socket, co_await listener.Accept());
  RawPeer client(std::move(socket));
  SIMURGH_CO_ASSIGN_OR_RETURN(RawPeer server, co_await RawPeer::Dial(target));
  for (RawPeer *from = &client, *to = &server;; std::swap(from, to)) {
    StatusOr<RawFrame> frame = co_await from->Read();
    if (!frame.ok()) break;
    change(*frame);
    SIMURGH_CO_RETURN_IF_ERROR(co_await to->Send(Encode(*frame)));
  }
  co_return absl::OkStatus();
}

Bytes Introduction(const std::string& role, uint32_t index) {
  const OutgoingSegment table = EncodeHello({.role = role, .index = index}, FrameLimits());
  return {table.bytes.begin(), table.bytes.end()};
}

TEST_CASE("a client sends no HELLO to another server than it dialled, whose proofs are relayed") {
  testing::Loop loop;
  const auto listener = *Listener::Open(loop.executor(), *ParseAddress("127.0.0.1:0"));
  Hello hello = TestHello("server");
  std::function<void(RawFrame&)> change = [](RawFrame&) {};
  std::string problem;
  SECTION("none: proofs do not detect a relay to the right server") {}
  SECTION("of another role") {
    hello.role = "other";
    problem = "found other/3";
  }
  SECTION("of another index") {
    hello.index = 4;
    problem = "found server/4";
  }
  SECTION("of another index, which the relay changes") {
    hello.index = 4;
    problem = "the server has another token or cluster";
    change = [](RawFrame& frame) {
      if (frame.header.kind != FrameKind::kProof || frame.metadata.size() == 32) return;
      frame.metadata.resize(64);
      const Bytes wanted = Introduction("server", 3);
      frame.metadata.insert(frame.metadata.end(), wanted.begin(), wanted.end());
    };
  }
  SECTION("of another cluster") {
    hello.cluster = "other";
    problem = "the server has another token or cluster";
  }
  Guarded guarded(loop, "127.0.0.1:0", {.token = TokenOf("secret")}, hello);
  bool said_hello = false;
  const auto relayed = [&](RawFrame& frame) {
    said_hello |= frame.header.kind == FrameKind::kHello;
    change(frame);
  };
  const auto check = [](const Hello& server) -> Status {
    if (server.role == "server" && server.index == 3) return absl::OkStatus();
    return absl::InvalidArgumentError("found " + server.role + "/" + std::to_string(server.index));
  };
  Client client(loop.executor(), listener->address(), TestHello("client"),
                {.token = TokenOf("secret"), .check_server = check}, nullptr);
  Status called;
  const auto call = [&]() -> awaitable<Status> {
    called = (co_await client.Call(kEcho, {}, NoSegments(), Soon())).status();
    client.Stop();
    co_return absl::OkStatus();
  };
  CHECK(loop.Run(Both(Relay(*listener, guarded.server.address(), relayed), call())) ==
        absl::OkStatus());
  CHECK(called.ok() == problem.empty());
  CHECK_THAT(std::string(called.message()), Catch::Contains(problem));
  CHECK(said_hello == problem.empty());
}

TEST_CASE("a server refuses a client's proof for another server or another HELLO") {
  const Token token("secret");
  Ends ends(EchoMethod().handle, {.token = TokenOf("secret")});
  struct Case {
    std::string cluster = "test", role = "server";
    uint32_t index = 3;
    Hello claimed = TestHello("peer");
  };
  const auto converse = [&](const Case& one) -> awaitable<StatusOr<RawFrame>> {
    SIMURGH_CO_ASSIGN_OR_RETURN(RawPeer peer, co_await RawPeer::Dial(ends.server->address()));
    const Token::Nonce own = Token::NewNonce();
    SIMURGH_CO_RETURN_IF_ERROR(
        co_await peer.Send(Encode(ProofFrame(Bytes(own.begin(), own.end())))));
    SIMURGH_CO_ASSIGN_OR_RETURN(const RawFrame answer, co_await peer.Read());
    Token::Nonce server;
    std::copy_n(answer.metadata.begin(), server.size(), server.begin());
    const std::string claims = Claims(Claims(one.cluster, Introduction(one.role, one.index)),
                                      testing::HelloFrame(one.claimed).metadata);
    const Token::Proof proof = token.Prove(Token::kClient, server, own, claims);
    RawFrame hello = testing::HelloFrame(TestHello("peer"));
    hello.metadata.insert(hello.metadata.end(), proof.begin(), proof.end());
    SIMURGH_CO_RETURN_IF_ERROR(co_await peer.Send(Encode(hello)));
    co_return co_await peer.Read();
  };
  const auto is_refused = [&](const Case& one) {
    const auto answer = ends.loop.Run(converse(one));
    REQUIRE(answer.status() == absl::OkStatus());
    return answer->header.kind == FrameKind::kError &&
           answer->header.code == static_cast<uint16_t>(absl::StatusCode::kUnauthenticated);
  };
  CHECK_FALSE(is_refused({}));
  CHECK(is_refused({.cluster = "other"}));
  CHECK(is_refused({.role = "other"}));
  CHECK(is_refused({.index = 4}));
  Hello other = TestHello("peer");
  SECTION("its role") { other.role = "client"; }
  SECTION("its index") { other.index = 4; }
  SECTION("its cluster") { other.cluster = "other"; }
  SECTION("its settings") { other.configuration = "embedding_ps.instances = 3\n"; }
  CHECK(is_refused({.claimed = other}));
}

TEST_CASE("only a client that is known learns which settings differ") {
  testing::Loop loop;
  testing::TestAuthority authority;
  ServerOptions server;
  ClientOptions client;
  std::string address = "127.0.0.1:0";
  bool is_known = true;
  SECTION("TCP") { is_known = false; }
  SECTION("TLS") { client.tls = server.tls = authority.Context("both"); }
  SECTION("a Unix socket of this user") { address = "unix://" + UnixPath("known"); }
  Guarded guarded(loop, address, server);
  const auto refusal = [&](const Hello& hello) {
    Client caller(loop.executor(), guarded.server.address(), hello, client, nullptr);
    const Status status = loop.Run(caller.Call(kEcho, {}, NoSegments(), Soon())).status();
    CHECK(absl::IsInvalidArgument(status));
    return std::string(status.message());
  };
  Hello other = TestHello("client");
  other.configuration = "tables.0.dim = 16\n";
  const std::string of_settings = refusal(other);
  CHECK_THAT(guarded.observer.errors.at(0), Catch::Contains("tables.0.dim = 8 (server/3)"));
  other = TestHello("client");
  other.cluster = "other";
  const std::string of_cluster = refusal(other);
  CHECK_THAT(guarded.observer.errors.at(1), Catch::Contains("this end to 'test'"));
  if (is_known) {
    CHECK_THAT(of_cluster, Catch::Contains("this end to 'test'"));
    CHECK_THAT(of_settings, Catch::Contains("tables.0.dim = 8 (server/3)"));
  } else {
    CHECK(of_cluster == of_settings);
    CHECK_THAT(of_cluster, Catch::Contains("configurations differ; the server's log"));
    CHECK_THAT(of_cluster, !Catch::Contains("tables.0.dim") && !Catch::Contains("'test'"));
  }
}

}  // namespace
}  // namespace simurgh::rpc
