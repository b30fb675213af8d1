#include "services/runtime/http_endpoint.h"

#include <atomic>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/streambuf.hpp>
#include <boost/asio/write.hpp>
#include <catch2/catch.hpp>

#include "telemetry/timeline.h"
#include "tests/support/waiting.h"

namespace simurgh {
namespace {

const CounterFamily kEvents("simurgh_test_http_events_total", "Events.");

using boost::asio::ip::tcp;

// Sends raw bytes and reads until the server closes.
class RawClient {
 public:
  explicit RawClient(const std::string& address) : socket_(context_) {
    const size_t colon = address.rfind(':');
    socket_.connect(tcp::endpoint(boost::asio::ip::make_address(address.substr(0, colon)),
                                  static_cast<uint16_t>(std::stoi(address.substr(colon + 1)))));
  }

  void Send(const std::string& bytes) { boost::asio::write(socket_, boost::asio::buffer(bytes)); }

  std::string ReadToEnd() {
    std::string all;
    boost::system::error_code error;
    boost::asio::read(socket_, boost::asio::dynamic_buffer(all), error);
    return all;
  }

 private:
  boost::asio::io_context context_;
  tcp::socket socket_;
};

struct Fixture {
  explicit Fixture(HttpEndpoint::Options options = {}) {
    registry.Get(kEvents).Add(7);
    options.address = "127.0.0.1:0";
    options.key = "test.metrics";
    options.process = "test/0";
    auto started = HttpEndpoint::Start(options, registry, [this] {
      return ready ? Readiness{true, ""} : Readiness{false, "loading rows"};
    });
    REQUIRE(started.ok());
    endpoint = *std::move(started);
  }

  std::string Ask(const std::string& request) {
    RawClient client(endpoint->address());
    client.Send(request);
    return client.ReadToEnd();
  }

  std::string Get(const std::string& target, const std::string& method = "GET") {
    return Ask(
        absl::StrCat(method, " ", target, " HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"));
  }

  MetricRegistry registry;
  std::atomic<bool> ready = false;
  std::unique_ptr<HttpEndpoint> endpoint;
};

std::string Body(const std::string& response) {
  return response.substr(response.find("\r\n\r\n") + 4);
}

TEST_CASE("metrics are served as the registry writes them") {
  Fixture fixture;
  const std::string response = fixture.Get("/metrics");
  CHECK_THAT(response, Catch::StartsWith("HTTP/1.1 200"));
  CHECK_THAT(response, Catch::Contains("Content-Type: text/plain; version=0.0.4"));
  CHECK(Body(response) == fixture.registry.Serialize());
  fixture.registry.Get(kEvents).Add();
  CHECK_THAT(fixture.Get("/metrics?x=1"), Catch::Contains("simurgh_test_http_events_total 8\n"));
}

TEST_CASE("health is constant, readiness follows the daemon") {
  Fixture fixture;
  CHECK_THAT(fixture.Get("/healthz"), Catch::StartsWith("HTTP/1.1 200"));
  const std::string not_ready = fixture.Get("/readyz");
  CHECK_THAT(not_ready, Catch::StartsWith("HTTP/1.1 503"));
  CHECK(Body(not_ready) == "loading rows\n");
  fixture.ready = true;
  CHECK_THAT(fixture.Get("/readyz"), Catch::StartsWith("HTTP/1.1 200"));
}

TEST_CASE("a configuration is served if there is one") {
  Fixture fixture({.configuration = "tables.0.dim = 8\n"});
  CHECK(Body(fixture.Get("/configuration")) == "tables.0.dim = 8\n");
  CHECK_THAT(Fixture().Get("/configuration"), Catch::StartsWith("HTTP/1.1 404"));
}

TEST_CASE("other targets and methods are refused") {
  Fixture fixture;
  CHECK_THAT(fixture.Get("/"), Catch::StartsWith("HTTP/1.1 404"));
  CHECK_THAT(fixture.Get("/metricsx"), Catch::StartsWith("HTTP/1.1 404"));
  const std::string refused = fixture.Get("/metrics", "DELETE");
  CHECK_THAT(refused, Catch::StartsWith("HTTP/1.1 405"));
  CHECK_THAT(refused, Catch::Contains("Allow: GET, HEAD"));
}

TEST_CASE("HEAD answers the header of GET and no body") {
  Fixture fixture;
  const std::string get = fixture.Get("/metrics");
  const std::string head = fixture.Get("/metrics", "HEAD");
  CHECK(head == get.substr(0, get.size() - Body(get).size()));
}

TEST_CASE("a trace has the spans of its time, while other requests are answered") {
  Fixture fixture;
  RawClient client(fixture.endpoint->address());
  client.Send("GET /trace?seconds=1 HTTP/1.1\r\nConnection: close\r\n\r\n");
  testing::Eventually([&] { return !(!Timeline::is_recording()); });
  {
    const TimelineSpan span("work", 7);
  }
  // Before the trace is complete.
  CHECK_THAT(fixture.Get("/metrics"), Catch::StartsWith("HTTP/1.1 200"));
  CHECK_THAT(fixture.Get("/trace?seconds=1"),
             Catch::StartsWith("HTTP/1.1 409") && Catch::Contains("a recording is in progress"));
  CHECK(Timeline::is_recording());
  const std::string response = client.ReadToEnd();
  CHECK_THAT(response, Catch::StartsWith("HTTP/1.1 200") &&
                           Catch::Contains("Content-Type: application/json"));
  CHECK_THAT(Body(response), Catch::StartsWith("{") && Catch::EndsWith("]}\n") &&
                                 Catch::Contains("\"process\":\"test/0\"") &&
                                 Catch::Contains("\"name\":\"work\""));
  CHECK_FALSE(Timeline::is_recording());
}

TEST_CASE("a recording is bounded, and only GET begins one") {
  Fixture fixture;
  for (const char* target : {"/trace", "/trace?", "/trace?seconds=", "/trace?seconds=0",
                             "/trace?seconds=61", "/trace?seconds=-1", "/trace?seconds=1e1",
                             "/trace?seconds=4294967297", "/trace?minutes=1"}) {
    CAPTURE(target);
    CHECK_THAT(fixture.Get(target),
               Catch::StartsWith("HTTP/1.1 400") && Catch::Contains("with N from 1 to 60"));
  }
  CHECK_THAT(fixture.Get("/trace?seconds=1", "HEAD"), Catch::StartsWith("HTTP/1.1 404"));
  CHECK_THAT(fixture.Get("/trace?seconds=1", "POST"), Catch::StartsWith("HTTP/1.1 405"));
  CHECK_FALSE(Timeline::is_recording());
}

TEST_CASE("an endpoint that ends also ends its recording") {
  Fixture fixture;
  RawClient client(fixture.endpoint->address());
  client.Send("GET /trace?seconds=60 HTTP/1.1\r\n\r\n");
  testing::Eventually([&] { return !(!Timeline::is_recording()); });
  fixture.endpoint = nullptr;
  CHECK_FALSE(Timeline::is_recording());
}

TEST_CASE("the clock of traces is the steady clock, with a name") {
  Fixture fixture;
  const auto before = std::chrono::steady_clock::now().time_since_epoch();
  std::istringstream answer(Body(fixture.Get("/trace/clock")));
  const auto after = std::chrono::steady_clock::now().time_since_epoch();
  int64_t time = 0;
  std::string name;
  answer >> time >> name;
  CHECK(std::chrono::nanoseconds(time) >= before);
  CHECK(std::chrono::nanoseconds(time) <= after);
  Fixture other;
  CHECK_THAT(Body(other.Get("/trace/clock")), Catch::EndsWith(name + "\n"));
}

TEST_CASE("a connection serves several requests") {
  Fixture fixture;
  const std::string responses = fixture.Ask(
      "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\nGET /readyz HTTP/1.1\r\nHost: a\r\n\r\n"
      "GET /none HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  CHECK_THAT(responses, Catch::StartsWith("HTTP/1.1 200") && Catch::Contains("HTTP/1.1 503") &&
                            Catch::Contains("HTTP/1.1 404"));
}

TEST_CASE("garbage ends its connection and nothing else") {
  Fixture fixture;
  const auto [garbage, code] = GENERATE(table<std::string, std::string>(
      {{"\x16\x03\x01\x02 TLS on a plain port\r\n\r\n", "400"},
       {"GET\r\n\r\n", "400"},
       {"GET /metrics HTTP/9.9\r\n\r\n", "400"},
       {"POST /metrics HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", "405"},
       {"GET /metrics HTTP/1.1\r\nX: " + std::string(100'000, 'x') + "\r\n\r\n", "431"}}));
  RawClient client(fixture.endpoint->address());
  try {
    client.Send(garbage);
  } catch (const boost::system::system_error&) {
    SUCCEED("closed before everything was sent");
  }
  const std::string answer = client.ReadToEnd();
  if (!answer.empty()) CHECK_THAT(answer, Catch::StartsWith("HTTP/1.1 " + code));
  CHECK_THAT(fixture.Get("/healthz"), Catch::StartsWith("HTTP/1.1 200"));
}

TEST_CASE("a stalled client is disconnected and delays no other") {
  Fixture fixture({.request_timeout = std::chrono::milliseconds(50)});
  RawClient stalled(fixture.endpoint->address());
  stalled.Send("GET /metr");
  std::string answer;
  do {
    answer = fixture.Get("/healthz");  // Slow machines may exceed the limit too.
  } while (answer.empty() || answer.starts_with("HTTP/1.1 408"));
  CHECK_THAT(answer, Catch::StartsWith("HTTP/1.1 200"));
  CHECK_THAT(stalled.ReadToEnd(), Catch::StartsWith("HTTP/1.1 408"));  // The server closed.
}

TEST_CASE("a connection beyond the limit closes the oldest, and is answered") {
  Fixture fixture({.max_connections = 2});
  RawClient first(fixture.endpoint->address());
  first.Send("GET");
  RawClient second(fixture.endpoint->address());
  second.Send("GET");
  CHECK_THAT(fixture.Get("/healthz"), Catch::StartsWith("HTTP/1.1 200"));
  CHECK(first.ReadToEnd().empty());
  second.Send(" /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  CHECK_THAT(second.ReadToEnd(), Catch::StartsWith("HTTP/1.1 200"));
}

TEST_CASE("any number of half requests leave room for a probe") {
  Fixture fixture;
  std::vector<std::unique_ptr<RawClient>> half;
  for (int i = 0; i < 70; ++i) {
    half.push_back(std::make_unique<RawClient>(fixture.endpoint->address()));
    half.back()->Send("GET /metr");
  }
  CHECK_THAT(fixture.Get("/healthz"), Catch::StartsWith("HTTP/1.1 200"));
}

TEST_CASE("an endpoint ends with connections open") {
  Fixture fixture;
  RawClient idle(fixture.endpoint->address());
  RawClient halfway(fixture.endpoint->address());
  halfway.Send("GET /metrics HTTP/1.1\r\n");
  fixture.Get("/healthz");
  fixture.endpoint.reset();
  CHECK(idle.ReadToEnd().empty());
  CHECK(halfway.ReadToEnd().empty());
}

TEST_CASE("an address that cannot be listened on names its key and the remedy") {
  Fixture fixture;
  const auto start = [&fixture](const std::string& address) {
    return HttpEndpoint::Start(
               {.address = address, .key = "embedding_ps.instances.0.metrics", .process = "test/0"},
               fixture.registry, [] { return Readiness{true, ""}; })
        .status();
  };
  const Status used = start(fixture.endpoint->address());
  CHECK(used.code() == absl::StatusCode::kAlreadyExists);
  CHECK_THAT(std::string(used.message()), Catch::Contains("embedding_ps.instances.0.metrics") &&
                                              Catch::Contains(fixture.endpoint->address()) &&
                                              Catch::Contains("choose another port"));
  for (const char* address : {"", "127.0.0.1", ":90", "127.0.0.1:", "127.0.0.1:x",
                              "127.0.0.1:65536", "::1:80", "999.0.0.1:80"}) {
    INFO(address);
    const Status status = start(address);
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK_THAT(std::string(status.message()), Catch::Contains("embedding_ps.instances.0.metrics"));
  }
  CHECK(start("192.0.2.1:0").code() == absl::StatusCode::kUnavailable);  // Not this machine's.
}

}  // namespace
}  // namespace simurgh
