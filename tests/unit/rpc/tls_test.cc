// Clients and servers over TLS, and listening without it.

#include <numeric>

#include <catch2/catch.hpp>

#include "tests/support/rpc/certificates.h"
#include "tests/unit/rpc/ends.h"

namespace simurgh::rpc {
namespace {

using testing::TestAuthority;

struct CopyObserver : Observer {
  void OnPayloadCopied(uint64_t bytes) override { copied += bytes; }
  uint64_t copied = 0;
};

TEST_CASE("calls go over TLS, and every byte of their payload counts as copied", "[tls]") {
  TestAuthority authority;
  CopyObserver observer;
  Ends ends(EchoMethod().handle, {.tls = authority.Context("server")});
  ends.client =
      std::make_unique<Client>(ends.loop.executor(), ends.server->address(), TestHello("client"),
                               ClientOptions{.tls = authority.Context("client")}, &observer);
  Random random(17);
  const std::vector<size_t> sizes{0, 1, 4'095, 70'000, 3'000'000};
  std::vector<Bytes> segments;
  for (const size_t size : sizes) segments.push_back(RandomBytes(random, size));
  const auto answer =
      ends.loop.Run(ends.client->Call(kEcho, Message(Text("x"), segments), IntoVectors(), Soon()));
  REQUIRE(answer.status() == absl::OkStatus());
  CHECK(Segments(*answer) == segments);
  CHECK(observer.copied == 2 * std::accumulate(sizes.begin(), sizes.end(), uint64_t{0}));
  CHECK(ends.observer.closes.empty());
}

TEST_CASE("ends that do not trust each other or do not use TLS close with a reason", "[tls]") {
  TestAuthority authority, stranger;
  const bool server_has_tls = GENERATE(true, false);
  ServerOptions options;
  if (server_has_tls) options.tls = authority.Context("server");
  Ends ends(EchoMethod().handle, options);
  const auto call = [&](std::shared_ptr<const TlsContext> tls, std::chrono::milliseconds patience) {
    ends.client = ends.NewClient({.tls = std::move(tls)});
    return ends.Call(kEcho, In(patience)).status();
  };
  constexpr std::chrono::seconds kPatience(20);
  if (!server_has_tls) {
    // Retried, because the server may be restarting.
    const Status error = call(authority.Context("client"), std::chrono::milliseconds(500));
    CHECK(absl::IsUnavailable(error));
    CHECK_THAT(std::string(error.message()), Catch::Contains("may not use TLS"));
    REQUIRE_FALSE(ends.observer.closes.empty());
    CHECK(ends.observer.closes[0] == CloseReason::kMalformed);
    CHECK_THAT(ends.observer.errors[0], Catch::Contains("the peer uses TLS"));
    return;
  }
  const Status plain = call(nullptr, kPatience);
  CHECK(absl::IsInvalidArgument(plain));
  CHECK_THAT(std::string(plain.message()), Catch::Contains("configure TLS for the client"));
  const Status unknown = call(stranger.Context("client"), kPatience);
  CHECK(absl::IsUnauthenticated(unknown));
  CHECK_THAT(std::string(unknown.message()), Catch::Contains("certificate is not trusted"));
  TlsOptions careless = stranger.Issue("careless");
  careless.authority_file =
      stranger.Write("both.pem", TestAuthority::Read(stranger.certificate_file()) +
                                     TestAuthority::Read(authority.certificate_file()));
  const Status refused = call(*TlsContext::Load(careless), kPatience);
  CHECK(absl::IsUnauthenticated(refused));
  CHECK_THAT(std::string(refused.message()), Catch::Contains("unknown ca"));
  CHECK(ends.observer.connects == 0);

  ends.client = ends.NewClient({.tls = authority.Context("good")});
  CHECK(ends.EchoWorks());
  CHECK(ends.observer.closes == std::vector(3, CloseReason::kTls));
}

TEST_CASE("a certificate permits the roles that list one of its names", "[tls]") {
  TestAuthority authority;
  TlsOptions files = authority.Issue("all", {.alternative_names = "DNS:test.cluster"});
  const auto permits = [&](std::map<std::string, std::vector<std::string>> allowed,
                           const std::string& role, const std::string& name) {
    files.allowed_names = std::move(allowed);
    const auto context = TlsContext::Load(files);
    REQUIRE(context.status() == absl::OkStatus());
    const Status status = (*context)->CheckRole(role, std::vector<std::string>{"other", name});
    CHECK((status.ok() || absl::IsUnauthenticated(status)));
    return status.ok();
  };
  CHECK(permits({}, "trainer", "any"));
  CHECK(permits({{"trainer", {}}}, "worker", "any"));
  CHECK(permits({{"trainer", {}}, {"worker", {"w"}}}, "trainer", "any"));
  CHECK_FALSE(permits({{"trainer", {"t"}}}, "unlisted", "t"));
  CHECK(permits({{"trainer", {"t.test", "u.test"}}}, "trainer", "U.test"));
  CHECK_FALSE(permits({{"trainer", {"t.test"}}}, "trainer", "u.t.test"));
  CHECK(permits({{"trainer", {"*.test"}}}, "trainer", "u.TEST"));
  for (const char* name : {"test", ".test", "a.b.test", "utest", ""}) {
    INFO(name);
    CHECK_FALSE(permits({{"trainer", {"*.test"}}}, "trainer", name));
  }
}

TEST_CASE("each end refuses a peer whose certificate does not permit its role", "[tls]") {
  TestAuthority authority;
  TlsOptions of_server = authority.Issue("server", {.alternative_names = "DNS:one,IP:127.0.0.1"});
  TlsOptions of_client = authority.Issue("client", {.alternative_names = "DNS:two,DNS:three"});
  of_server.allowed_names = {{"client", {"four", "three"}}, {"server", {}}};
  Ends ends(EchoMethod().handle, {.tls = *TlsContext::Load(of_server)});
  const auto call = [&](const std::string& role) {
    ends.client = ends.NewClient({.tls = *TlsContext::Load(of_client)}, TestHello(role));
    return ends.Call(kEcho).status();
  };
  CHECK(call("client") == absl::OkStatus());
  const Status unlisted = call("stranger");
  CHECK(absl::IsUnauthenticated(unlisted));
  CHECK_THAT(std::string(unlisted.message()),
             Catch::Contains("a certificate for 'two, three' does not permit the role 'stranger'"));
  CHECK(ends.observer.closes == std::vector{CloseReason::kTls});
  of_client.allowed_names = {{"server", {"another"}}};
  const Status server = call("client");
  CHECK(absl::IsUnauthenticated(server));
  CHECK_THAT(std::string(server.message()), Catch::Contains("does not permit the role 'server'"));
}

TEST_CASE("a TLS handshake that does not end closes its connection", "[tls]") {
  TestAuthority authority;
  Ends ends(EchoMethod().handle, {.tls = authority.Context("server")});
  ends.client = ends.NewClient({.tls = authority.Context("client")});
  const auto visit = [&]() -> awaitable<Status> {
    StatusOr<testing::RawPeer> peer = co_await testing::RawPeer::Dial(ends.server->address());
    CHECK(peer.ok());
    SIMURGH_CO_RETURN_IF_ERROR(co_await peer->Send(Text("\x16\x03\x01")));
    const auto known = co_await ends.client->Call(kEcho, {}, NoSegments(), Soon());
    CHECK(known.ok());  // So the server has accepted the other peer, too.
    co_await ends.server->Drain(Soon());
    co_await peer->ReadToEnd();
    co_return absl::OkStatus();
  };
  CHECK(ends.loop.Run(visit()) == absl::OkStatus());
}

TEST_CASE("local sockets of a TLS server need no TLS", "[tls]") {
  TestAuthority authority;
  testing::Loop loop;
  const std::string address =
      GENERATE(std::string("auto://127.0.0.1:0"), "unix://" + UnixPath("t"));
  Server server(loop.executor(), TestHello("server"), {.tls = authority.Context("server")},
                nullptr);
  server.Register(EchoMethod());
  REQUIRE(server.Listen(address) == absl::OkStatus());
  Client client(loop.executor(), server.address(), TestHello("client"), {}, nullptr);
  CHECK(loop.Run(client.Call(kEcho, {}, NoSegments(), Soon())).status() == absl::OkStatus());
}

TEST_CASE("a server listens beyond loopback only with TLS or `insecure`") {
  TestAuthority authority;
  testing::Loop loop;
  const auto listen = [&](const std::string& address, ServerOptions options) {
    Server server(loop.executor(), TestHello("server"), std::move(options), nullptr);
    return server.Listen(address);
  };
  // The last is a name that resolves to 0.0.0.0.
  for (const char* open : {"0.0.0.0:0", "[::]:0", "tcp://0.0.0.0:0", "auto://0.0.0.0:0", "0:0"}) {
    INFO(open);
    const Status refused = listen(open, {});
    CHECK(absl::IsFailedPrecondition(refused));
    CHECK_THAT(std::string(refused.message()), Catch::Contains("other machines can reach"));
    CHECK(listen(open, {.insecure = true}) == absl::OkStatus());
    CHECK(listen(open, {.tls = authority.Context("server")}) == absl::OkStatus());
  }
  const std::string path = UnixPath("loop");
  for (const std::string& closed :
       {std::string("127.0.0.1:0"), std::string("127.0.0.77:0"), std::string("[::1]:0"),
        std::string("localhost:0"), "unix://" + path, "shm://" + path}) {
    INFO(closed);
    CHECK(listen(closed, {}) == absl::OkStatus());
  }
}

}  // namespace
}  // namespace simurgh::rpc
