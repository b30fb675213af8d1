#include "services/runtime/http_endpoint.h"

#include <optional>
#include <sstream>

#include <spdlog/spdlog.h>

#include "absl/strings/str_cat.h"
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>

#include "services/runtime/io_thread.h"

namespace simurgh {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using Request = http::request<http::empty_body>;
using Response = http::response<http::string_body>;

constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);
// After a failed accept (no descriptors left), before the next attempt.
constexpr std::chrono::milliseconds kAcceptPause{100};

struct HostAndPort {
  std::string host;
  std::string port;
};

// "host:port" or "[v6 address]:port".
std::optional<HostAndPort> SplitAddress(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == address.size()) return std::nullopt;
  HostAndPort result{address.substr(0, colon), address.substr(colon + 1)};
  uint32_t port = 0;
  for (const char c : result.port) {
    if (c < '0' || c > '9') return std::nullopt;
    port = 10 * port + static_cast<uint32_t>(c - '0');
    if (port > 65'535) return std::nullopt;
  }
  if (result.host.front() == '[' && result.host.back() == ']') {
    result.host = result.host.substr(1, result.host.size() - 2);
  } else if (result.host.find(':') != std::string::npos) {
    return std::nullopt;
  }
  return result;
}

Status ListenOn(tcp::acceptor& acceptor, const tcp::endpoint& endpoint, const std::string& place) {
  boost::system::error_code error;
  if (acceptor.is_open()) acceptor.close();
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (!error) return absl::OkStatus();
  if (error == asio::error::address_in_use) {
    return absl::AlreadyExistsError(absl::StrCat(
        place, " is in use by another process; choose another port, or 0 for any free one"));
  }
  return absl::UnavailableError(absl::StrCat(place, ": cannot listen: ", error.message()));
}

// What the client sent is no request, as opposed to a connection that ended or took too long.
bool IsMalformed(const boost::system::error_code& error) {
  static const auto& http_category = http::make_error_code(http::error::bad_method).category();
  return error.category() == http_category && error != http::error::end_of_stream &&
         error != http::error::partial_message;
}

std::string Text(const tcp::endpoint& endpoint) {
  std::ostringstream text;
  text << endpoint;
  return text.str();
}

Response Page(http::status status, std::string body) {
  Response response(status, 11);
  response.set(http::field::content_type, "text/plain; charset=utf-8");
  response.body() = std::move(body);
  return response;
}

}  // namespace

class HttpEndpoint::Impl {
 public:
  Impl(const MetricRegistry& registry, std::function<Readiness()> readiness, HttpLimits limits)
      : registry_(registry),
        readiness_(std::move(readiness)),
        limits_(limits),
        thread_("http"),
        acceptor_(thread_.executor()) {}

  // Sessions use the members: none may run any more when those go.
  ~Impl() { thread_.Stop(); }

  Status Listen(const std::string& address, const std::string& key) {
    const std::string place = absl::StrCat(key, ": '", address, "'");
    const auto parts = SplitAddress(address);
    if (!parts.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat(place, " is not host:port; write for example 127.0.0.1:9100"));
    }
    boost::system::error_code error;
    tcp::resolver resolver(thread_.executor());
    const auto found = resolver.resolve(parts->host, parts->port, tcp::resolver::passive, error);
    if (error) {
      return absl::InvalidArgumentError(
          absl::StrCat(place, ": host cannot be resolved: ", error.message()));
    }
    Status status;
    for (const auto& entry : found) {
      status = ListenOn(acceptor_, entry.endpoint(), place);
      if (!status.ok()) continue;
      address_ = Text(acceptor_.local_endpoint());
      asio::co_spawn(thread_.executor(), Accept(), asio::detached);
      return absl::OkStatus();
    }
    return status;
  }

  const std::string& address() const { return address_; }

 private:
  [[nodiscard]] asio::awaitable<void> Accept() {
    asio::steady_timer pause(thread_.executor());
    for (;;) {
      auto [error, socket] = co_await acceptor_.async_accept(kTuple);
      if (error) {
        spdlog::warn("http: accept failed: {}", error.message());
        pause.expires_after(kAcceptPause);
        co_await pause.async_wait(kTuple);
        continue;
      }
      if (sessions_ >= limits_.connections) continue;
      ++sessions_;
      asio::co_spawn(thread_.executor(), Serve(beast::tcp_stream(std::move(socket))),
                     [this](const std::exception_ptr&) { --sessions_; });
    }
  }

  [[nodiscard]] asio::awaitable<void> Serve(beast::tcp_stream stream) {
    beast::flat_buffer buffer(limits_.request_bytes);
    for (bool open = true; open;) {
      http::request_parser<http::empty_body> parser;
      parser.header_limit(limits_.request_bytes);
      stream.expires_after(limits_.request_timeout);
      const auto [read_error, read_bytes] =
          co_await http::async_read(stream, buffer, parser, kTuple);
      const bool malformed = IsMalformed(read_error);
      if (read_error && !malformed) break;

      Response response = malformed ? Page(http::status::bad_request, read_error.message() + "\n")
                                    : Answer(parser.get());
      open = !malformed && parser.get().keep_alive();
      response.keep_alive(open);
      response.prepare_payload();
      stream.expires_after(limits_.request_timeout);
      const auto write_error =
          co_await Write(stream, response, !malformed && parser.get().method() == http::verb::head);
      if (write_error) break;
    }
    boost::system::error_code ignored;
    stream.socket().shutdown(tcp::socket::shutdown_send, ignored);
  }

  // For HEAD the header alone: its length is what GET would send.
  [[nodiscard]] static asio::awaitable<boost::system::error_code> Write(beast::tcp_stream& stream,
                                                                        Response& response,
                                                                        bool header_only) {
    http::response_serializer<http::string_body> serializer(response);
    if (header_only) {
      serializer.split(true);
      const auto [error, bytes] = co_await http::async_write_header(stream, serializer, kTuple);
      co_return error;
    }
    const auto [error, bytes] = co_await http::async_write(stream, serializer, kTuple);
    co_return error;
  }

  Response Answer(const Request& request) const {
    if (request.method() != http::verb::get && request.method() != http::verb::head) {
      Response response = Page(http::status::method_not_allowed, "only GET and HEAD\n");
      response.set(http::field::allow, "GET, HEAD");
      return response;
    }
    const auto target = request.target().substr(0, request.target().find('?'));
    if (target == "/metrics") {
      Response response = Page(http::status::ok, registry_.Serialize());
      response.set(http::field::content_type, "text/plain; version=0.0.4; charset=utf-8");
      return response;
    }
    if (target == "/healthz") return Page(http::status::ok, "ok\n");
    if (target == "/readyz") {
      const Readiness state = readiness_();
      if (state.ready) return Page(http::status::ok, "ready\n");
      return Page(http::status::service_unavailable, state.reason + "\n");
    }
    return Page(http::status::not_found, "here are /metrics, /healthz and /readyz\n");
  }

  const MetricRegistry& registry_;
  const std::function<Readiness()> readiness_;
  const HttpLimits limits_;
  uint32_t sessions_ = 0;
  std::string address_;
  IoThread thread_;
  tcp::acceptor acceptor_;
};

HttpEndpoint::HttpEndpoint(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

HttpEndpoint::~HttpEndpoint() = default;

StatusOr<std::unique_ptr<HttpEndpoint>> HttpEndpoint::Start(const std::string& address,
                                                            const std::string& key,
                                                            const MetricRegistry& registry,
                                                            std::function<Readiness()> readiness,
                                                            HttpLimits limits) {
  auto impl = std::make_unique<Impl>(registry, std::move(readiness), limits);
  SIMURGH_RETURN_IF_ERROR(impl->Listen(address, key));
  return std::unique_ptr<HttpEndpoint>(new HttpEndpoint(std::move(impl)));
}

std::string HttpEndpoint::address() const { return impl_->address(); }

}  // namespace simurgh
