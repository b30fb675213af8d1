#include "services/runtime/http_server.h"

#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <catch2/catch.hpp>

#include "services/serving/predict_api.h"
#include "tests/support/rpc/certificates.h"
#include "tests/support/waiting.h"
#include "tests/unit/services/serving/fake_backend.h"
#include "tests/unit/services/serving/raw_client.h"

namespace simurgh {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr char kBody[] = R"({"instances":[{"city":"abc"}]})";
constexpr char kPredictions[] = R"({"predictions":[0.03],"model_version":"120"})";

std::string Post(const std::string& body, const std::string& headers = "") {
  return absl::StrCat("POST /v1/models/m:predict HTTP/1.1\r\nContent-Length: ", body.size(), "\r\n",
                      headers, "\r\n", body);
}

std::string Get(const std::string& target, const std::string& method = "GET") {
  return absl::StrCat(method, " ", target, " HTTP/1.1\r\nHost: a\r\n\r\n");
}

struct Fixture {
  explicit Fixture(HttpServer::Options options = {}, std::shared_ptr<SSL_CTX> tls = nullptr)
      : api({.name = "m"}, backend, registry) {
    options.address = "127.0.0.1:0";
    options.key = "test.listen";
    auto started = HttpServer::Start(options, api, std::move(tls), registry);
    INFO(started.status());
    REQUIRE(started.ok());
    server = *std::move(started);
  }
  ~Fixture() {
    server->Drain(Clock::now());
    backend.AnswerHeld();  // Before the server is destroyed.
  }

  const std::string& address() const { return server->address(); }
  std::string Ask(const std::string& request) {
    RawClient client(address());
    client.Send(request);
    return client.ReadResponse();
  }

  FakeBackend backend;
  MetricRegistry registry;
  PredictApi api;
  std::unique_ptr<HttpServer> server;
};

// Waits until it holds; the test fails otherwise.
void Await(const std::function<bool()>& holds) { REQUIRE(testing::Eventually(holds)); }

}  // namespace

TEST_CASE("a connection has several requests, also sent at once", "[serving]") {
  Fixture fixture;
  RawClient client(fixture.address());
  for (int i = 0; i < 3; ++i) {
    client.Send(Post(kBody));
    CHECK_THAT(client.ReadResponse(),
               Catch::StartsWith("HTTP/1.1 200 OK\r\n") && Catch::EndsWith(kPredictions));
  }
  client.Send(Post(kBody) + Get("/v2/health/live") + Get("/none") +
              Post(kBody, "Connection: close\r\n"));
  CHECK_THAT(client.ReadResponse(), Catch::EndsWith(kPredictions));
  CHECK_THAT(client.ReadResponse(), Catch::EndsWith(R"({"live":true})"));
  CHECK_THAT(client.ReadResponse(), Catch::StartsWith("HTTP/1.1 404"));
  CHECK_THAT(client.ReadToEnd(),
             Catch::Contains("Connection: close") && Catch::EndsWith(kPredictions));
}

TEST_CASE("a response that is computed elsewhere keeps its place", "[serving]") {
  Fixture fixture;
  fixture.backend.Hold();
  RawClient client(fixture.address());
  client.Send(Post(kBody) + Get("/v2/health/live"));
  Await([&] { return fixture.backend.held() == 1; });
  std::thread thread([&] { fixture.backend.AnswerHeld(); });
  CHECK_THAT(client.ReadResponse(), Catch::EndsWith(kPredictions));
  CHECK_THAT(client.ReadResponse(), Catch::EndsWith(R"({"live":true})"));
  thread.join();
}

TEST_CASE("HEAD has the header of GET and no body", "[serving]") {
  Fixture fixture;
  RawClient client(fixture.address());
  client.Send(Get("/v2/health/live", "HEAD") + Get("/v2/health/live"));
  const std::string both = [&] {
    std::string all;
    while (all.find("{\"live\"") == std::string::npos) all += client.ReadResponse();
    return all;
  }();
  const std::string get = fixture.Ask(Get("/v2/health/live"));
  const std::string head = get.substr(0, get.find("\r\n\r\n") + 4);
  CHECK(both == head + get);
}

TEST_CASE("a client that expects 100-continue gets it, or the refusal", "[serving]") {
  Fixture fixture;
  RawClient client(fixture.address());
  client.Send(absl::StrCat("POST /v1/models/m:predict HTTP/1.1\r\nExpect: 100-continue\r\n",
                           "Content-Length: ", sizeof(kBody) - 1, "\r\n\r\n"));
  CHECK(client.ReadResponse() == "HTTP/1.1 100 Continue\r\n\r\n");
  client.Send(kBody);
  CHECK_THAT(client.ReadResponse(), Catch::EndsWith(kPredictions));
  CHECK_THAT(fixture.Ask("POST /v1/models/none:predict HTTP/1.1\r\nExpect: 100-continue\r\n"
                         "Content-Length: 9\r\n\r\n"),
             Catch::StartsWith("HTTP/1.1 404"));
}

TEST_CASE("a refused request with a body closes its connection, after the answer", "[serving]") {
  Fixture fixture({.limits = {.header_bytes = 1024, .body_bytes = 1 << 20}});
  RawClient client(fixture.address());
  // The server answers before it has read all of it; a reset would destroy the answer.
  const std::string body(1 << 20, 'x');
  client.Send("POST /none HTTP/1.1\r\nContent-Length: 1048576\r\n\r\n" + body);
  CHECK_THAT(client.ReadToEnd(), Catch::StartsWith("HTTP/1.1 404"));
  CHECK_THAT(fixture.Ask("POST /v1/models/m:predict HTTP/1.1\r\nContent-Length: 1048577\r\n\r\n"),
             Catch::StartsWith("HTTP/1.1 413") && Catch::Contains("serving.max_body_bytes"));
  CHECK_THAT(fixture.Ask("GET / HTTP/1.1\r\nX: " + std::string(2000, 'x') + "\r\n\r\n"),
             Catch::StartsWith("HTTP/1.1 431"));
  CHECK_THAT(
      fixture.Ask("POST /v1/models/m:predict HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;" +
                  std::string(2000, 'x')),
      Catch::StartsWith("HTTP/1.1 431") || Catch::StartsWith("HTTP/1.1 400"));
  CHECK_THAT(fixture.Ask("nonsense\r\n\r\n"), Catch::StartsWith("HTTP/1.1 400"));
  CHECK_THAT(fixture.Ask(Post(kBody)), Catch::EndsWith(kPredictions));
}

TEST_CASE("a slow sender gets 408, an idle connection stays", "[serving]") {
  Fixture fixture({.request_timeout = milliseconds(50)});
  RawClient idle(fixture.address());
  for (const char* part :
       {"P", "POST /v1/models/m:predict HTTP/1.1\r\nContent-Length: 9\r\n\r\n{"}) {
    RawClient slow(fixture.address());
    slow.Send(part);
    CHECK_THAT(slow.ReadToEnd(),
               Catch::StartsWith("HTTP/1.1 408") && Catch::Contains("serving.request_timeout"));
  }
  idle.Send(Post(kBody));
  CHECK_THAT(idle.ReadResponse(), Catch::EndsWith(kPredictions));
}

TEST_CASE("a client that does not read its response is closed", "[serving]") {
  Fixture fixture({.request_timeout = milliseconds(100)});
  RawClient client(fixture.address());
  // Answers of 404 fill the buffers of both ends.
  const std::string request = Get("/" + std::string(8000, 'x'));
  while (client.Send(request)) {
  }
  CHECK_THAT(fixture.Ask(Post(kBody)), Catch::EndsWith(kPredictions));
}

TEST_CASE("a connection beyond the limit closes the one that waits longest", "[serving]") {
  Fixture fixture({.max_connections = 3});
  RawClient first(fixture.address());
  first.Send(Post(kBody));
  first.ReadResponse();
  RawClient second(fixture.address());
  second.Send("POST /v1");  // Waits for the rest.
  RawClient third(fixture.address());
  third.Send(Post(kBody));
  third.ReadResponse();
  first.Send(Post(kBody));  // Now it waits less long than the second.
  first.ReadResponse();
  RawClient fourth(fixture.address());
  fourth.Send(Post(kBody));
  CHECK_THAT(fourth.ReadResponse(), Catch::EndsWith(kPredictions));
  CHECK(second.IsClosed());
  first.Send(Post(kBody));
  CHECK_THAT(first.ReadResponse(), Catch::EndsWith(kPredictions));
}

TEST_CASE("connections whose requests are being answered are not closed for others", "[serving]") {
  Fixture fixture({.max_connections = 2});
  fixture.backend.Hold();
  RawClient first(fixture.address());
  RawClient second(fixture.address());
  first.Send(Post(kBody));
  second.Send(Post(kBody));
  Await([&] { return fixture.backend.held() == 2; });
  RawClient third(fixture.address());
  CHECK(third.IsClosed());
  fixture.backend.AnswerHeld();
  CHECK_THAT(first.ReadResponse(), Catch::EndsWith(kPredictions));
  CHECK_THAT(second.ReadResponse(), Catch::EndsWith(kPredictions));
}

TEST_CASE("bodies of all connections have a limit together", "[serving]") {
  Fixture fixture({.max_received_bytes = 100'000});
  const std::string head = "POST /v1/models/m:predict HTTP/1.1\r\nContent-Length: 80000\r\n\r\n";
  const std::string whole = head + std::string(80'000 - sizeof(kBody) + 1, ' ') + kBody;
  const std::string part = head + std::string(60'000, ' ');
  const auto is_refused = [](RawClient& client) {
    const std::string answer = client.ReadToEnd();
    return answer.starts_with("HTTP/1.1 503") && answer.find("Retry-After: 1") != answer.npos;
  };
  SECTION("the one that is received for longest goes") {
    RawClient slow(fixture.address());
    slow.Send(part);
    const std::string received =
        "\nsimurgh_serve_received_bytes_total " + std::to_string(part.size()) + "\n";
    Await([&] { return fixture.registry.Serialize().find(received) != received.npos; });
    CHECK_THAT(fixture.Ask(whole), Catch::EndsWith(kPredictions));
    CHECK(is_refused(slow));
  }
  SECTION("those that are being answered stay") {
    fixture.backend.Hold();
    RawClient first(fixture.address());
    first.Send(whole);
    Await([&] { return fixture.backend.held() == 1; });
    RawClient second(fixture.address());
    second.Send(part);
    CHECK(is_refused(second));
    fixture.backend.AnswerHeld();
    CHECK_THAT(first.ReadResponse(), Catch::EndsWith(kPredictions));
  }
  CHECK_THAT(fixture.Ask(whole), Catch::EndsWith(kPredictions));
}

TEST_CASE("hundreds of idle and slow connections do not keep others out", "[serving]") {
  Fixture fixture({.max_connections = 300});
  std::vector<std::unique_ptr<RawClient>> crowd;
  for (int i = 0; i < 450; ++i) {
    crowd.push_back(std::make_unique<RawClient>(fixture.address()));
    if (i % 3 == 1) crowd.back()->Send("POST /v1/models/m");
    if (i % 3 == 2) crowd.back()->Send("POST / HTTP/1.1\r\nContent-Length: 99\r\n\r\n{");
  }
  for (int i = 0; i < 20; ++i) {
    CHECK_THAT(fixture.Ask(Post(kBody)), Catch::EndsWith(kPredictions));
  }
  CHECK_THAT(fixture.registry.Serialize(),
             Catch::Contains("simurgh_serve_evicted_connections_total"));
}

TEST_CASE("a drain answers what has arrived and closes the rest", "[serving]") {
  Fixture fixture;
  fixture.backend.Hold();
  RawClient idle(fixture.address());
  idle.Send(Get("/v2/health/live"));
  idle.ReadResponse();
  RawClient waiting(fixture.address());
  waiting.Send(Post(kBody));
  RawClient begun(fixture.address());
  begun.Send(absl::StrCat("POST /v1/models/m:predict HTTP/1.1\r\nExpect: 100-continue\r\n",
                          "Content-Length: ", sizeof(kBody) - 1, "\r\n\r\n"));
  CHECK(begun.ReadResponse() == "HTTP/1.1 100 Continue\r\n\r\n");
  RawClient stopped(fixture.address());
  stopped.Send("GET /v2/health/ready HTTP/1.1\r\n");
  Await([&] { return fixture.backend.held() == 1; });
  fixture.api.BeginDrain();
  auto drained = std::async(
      std::launch::async, [&] { fixture.server->Drain(Clock::now() + std::chrono::seconds(20)); });
  CHECK(idle.IsClosed());
  fixture.backend.AnswerHeld();
  CHECK_THAT(waiting.ReadToEnd(),
             Catch::Contains("Connection: close") && Catch::EndsWith(kPredictions));
  begun.Send(kBody);
  CHECK_THAT(begun.ReadToEnd(),
             Catch::Contains("Connection: close") && Catch::EndsWith(kPredictions));
  stopped.Send("\r\n");
  CHECK_THAT(stopped.ReadToEnd(), Catch::StartsWith("HTTP/1.1 503"));
  drained.wait();
  CHECK_THROWS(RawClient(fixture.address()));
}

TEST_CASE("a drain ends at its deadline", "[serving]") {
  Fixture fixture;
  fixture.backend.Hold();
  RawClient client(fixture.address());
  client.Send(Post(kBody));
  Await([&] { return fixture.backend.held() == 1; });
  fixture.server->Drain(Clock::now() + milliseconds(20));
  CHECK(client.IsClosed());
}

TEST_CASE("requests are counted by route and code", "[serving]") {
  Fixture fixture;
  fixture.Ask(Post(kBody));
  fixture.Ask(Post("{}"));
  fixture.Ask(Get("/x"));
  const std::string metrics = fixture.registry.Serialize();
  for (const char* line : {"simurgh_serve_requests_total{code=\"200\",route=\"predict\"} 1",
                           "simurgh_serve_requests_total{code=\"400\",route=\"predict\"} 1",
                           "simurgh_serve_requests_total{code=\"404\",route=\"other\"} 1",
                           "simurgh_serve_request_seconds_count{stage=\"score\"} 1",
                           "simurgh_serve_request_seconds_count{stage=\"read\"} 3"}) {
    INFO(metrics);
    CHECK_THAT(metrics, Catch::Contains(line));
  }
}

TEST_CASE("addresses that other machines reach need TLS or insecure", "[serving]") {
  FakeBackend backend;
  MetricRegistry registry;
  PredictApi api({.name = "m"}, backend, registry);
  HttpServer::Options options{
      .address = "0.0.0.0:0", .key = "serving.listen", .only_loopback = true};
  const auto refused = HttpServer::Start(options, api, nullptr, registry);
  CHECK(refused.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(refused.status().message()),
             Catch::StartsWith("serving.listen: '0.0.0.0:0' is reachable"));
}

namespace {

// Asks over TLS. certificate: of the client, or null. Empty after an error.
std::string AskTls(const std::string& address, const std::string& authority,
                   const rpc::TlsOptions* certificate, const std::string& request) {
  namespace ssl = boost::asio::ssl;
  boost::asio::io_context context;
  ssl::context tls(ssl::context::tls_client);
  tls.load_verify_file(authority);
  tls.set_verify_mode(ssl::verify_peer);
  if (certificate != nullptr) {
    tls.use_certificate_chain_file(certificate->certificate_file);
    tls.use_private_key_file(certificate->key_file, ssl::context::pem);
  }
  ssl::stream<boost::asio::ip::tcp::socket> stream(context, tls);
  const size_t colon = address.rfind(':');
  stream.lowest_layer().connect({boost::asio::ip::make_address(address.substr(0, colon)),
                                 static_cast<uint16_t>(std::stoi(address.substr(colon + 1)))});
  boost::system::error_code error;
  stream.handshake(ssl::stream_base::client, error);
  if (error) return "";
  boost::asio::write(stream, boost::asio::buffer(request), error);
  std::string answer;
  boost::asio::read(stream, boost::asio::dynamic_buffer(answer), error);
  return answer;
}

}  // namespace

TEST_CASE("a TLS server answers those who trust it", "[serving]") {
  rpc::testing::TestAuthority authority;
  rpc::testing::TestAuthority other;
  const rpc::TlsOptions files = authority.Issue("server", {.usage = "serverAuth"});
  const auto tls = LoadServerTls(files.certificate_file, files.key_file, "");
  INFO(tls.status());
  REQUIRE(tls.ok());
  Fixture fixture({}, *tls);
  const std::string request = Post(kBody, "Connection: close\r\n");
  CHECK_THAT(AskTls(fixture.address(), authority.certificate_file(), nullptr, request),
             Catch::EndsWith(kPredictions));
  CHECK(AskTls(fixture.address(), other.certificate_file(), nullptr, request).empty());
  // Plain HTTP, and a client that sends nothing.
  CHECK(fixture.Ask(request).empty());
  const Fixture hasty({.request_timeout = milliseconds(50)}, *tls);
  RawClient silent(hasty.address());
  CHECK(silent.IsClosed());

  // Another certificate for new connections.
  const rpc::TlsOptions next = other.Issue("server", {.usage = "serverAuth"});
  fixture.server->SetTls(*LoadServerTls(next.certificate_file, next.key_file, ""));
  CHECK_THAT(AskTls(fixture.address(), other.certificate_file(), nullptr, request),
             Catch::EndsWith(kPredictions));
}

TEST_CASE("clients need a certificate if there is an authority for them", "[serving]") {
  rpc::testing::TestAuthority authority;
  rpc::testing::TestAuthority other;
  const rpc::TlsOptions files = authority.Issue("server", {.usage = "serverAuth"});
  const auto tls =
      LoadServerTls(files.certificate_file, files.key_file, authority.certificate_file());
  REQUIRE(tls.ok());
  Fixture fixture({}, *tls);
  const std::string request = Post(kBody, "Connection: close\r\n");
  const rpc::TlsOptions client = authority.Issue("client", {.usage = "clientAuth"});
  const rpc::TlsOptions stranger = other.Issue("client", {.usage = "clientAuth"});
  const std::string trusted = authority.certificate_file();
  CHECK_THAT(AskTls(fixture.address(), trusted, &client, request), Catch::EndsWith(kPredictions));
  CHECK(AskTls(fixture.address(), trusted, &stranger, request).empty());
  CHECK(AskTls(fixture.address(), trusted, nullptr, request).empty());
}

TEST_CASE("certificates that clients would refuse are errors", "[serving]") {
  rpc::testing::TestAuthority authority;
  const auto problem = [](const rpc::TlsOptions& files, const std::string& client_authority = "") {
    const auto tls = LoadServerTls(files.certificate_file, files.key_file, client_authority);
    return tls.ok() ? "" : std::string(tls.status().message());
  };
  const rpc::TlsOptions good = authority.Issue("good", {.usage = "serverAuth"});
  CHECK(problem(good).empty());
  CHECK_THAT(problem(authority.Issue("client", {.usage = "clientAuth"})),
             Catch::Contains("is not meant for TLS servers"));
  CHECK_THAT(problem(authority.Issue(
                 "old", {.begins = std::chrono::hours(-3), .ends = std::chrono::hours(-2)})),
             Catch::Contains("has expired"));
  CHECK_THAT(problem(authority.Issue("new", {.begins = std::chrono::hours(2)})),
             Catch::Contains("is not valid yet"));
  rpc::TlsOptions files = good;
  files.key_file = authority.Issue("another").key_file;
  CHECK_THAT(problem(files), Catch::StartsWith("key: '") && Catch::Contains("mismatch"));
  files.key_file = "/none";
  CHECK_THAT(problem(files), Catch::StartsWith("key: '/none' cannot be used"));
  files.certificate_file = authority.Write("text", "no PEM");
  CHECK_THAT(problem(files), Catch::StartsWith("certificate: '"));
  CHECK_THAT(problem(good, files.certificate_file), Catch::StartsWith("client_authority: '"));
}

}  // namespace simurgh
