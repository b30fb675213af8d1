#include "services/runtime/http_endpoint.h"

#include <filesystem>
#include <fstream>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/write.hpp>

#include "services/runtime/io_thread.h"
#include "services/runtime/listener.h"
#include "simurgh/base/log.h"
#include "simurgh/telemetry/timeline.h"

namespace simurgh {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

constexpr std::string_view kHeadEnd = "\r\n\r\n";
// Between a failed accept, as when no descriptors are left, and the next one.
constexpr std::chrono::milliseconds kAcceptPause{100};

struct Response {
  const char* status;
  std::string body;
  const char* content_type = "text/plain; charset=utf-8";
  const char* more_headers = "";
};

// A name of the machine and the namespace whose clock this process reads.
std::string ClockName() {
  std::string name;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), name);
  if (name.empty()) return name;
  std::error_code none;
  return name + std::filesystem::read_symlink("/proc/self/ns/time", none).string();
}

class Endpoint final : public HttpEndpoint {
 public:
  Endpoint(std::string process, const MetricRegistry& registry,
           std::function<Readiness()> readiness, HttpLimits limits, std::string configuration)
      : process_(std::move(process)),
        registry_(registry),
        readiness_(std::move(readiness)),
        limits_(limits),
        configuration_(std::move(configuration)),
        thread_("http"),
        acceptor_(thread_.executor()) {}

  // Sessions use the members, so the thread stops first. Its context outlives the sockets.
  ~Endpoint() override {
    thread_.Stop();
    sessions_.clear();
  }

  Status Listen(const std::string& address, const std::string& key) {
    SIMURGH_ASSIGN_OR_RETURN(TcpListener listener, ListenAt(thread_.executor(), address, key));
    acceptor_ = std::move(listener.acceptor);
    address_ = std::move(listener.address);
    is_loopback_ = listener.is_loopback;
    asio::co_spawn(thread_.executor(), Accept(), asio::detached);
    return absl::OkStatus();
  }

  const std::string& address() const override { return address_; }
  bool is_loopback() const override { return is_loopback_; }

 private:
  [[nodiscard]] asio::awaitable<void> Accept() {
    asio::steady_timer pause(thread_.executor());
    for (;;) {
      auto [error, socket] = co_await acceptor_.async_accept(rpc::kNoThrow);
      if (error) {
        spdlog::warn("http: accept failed: {}{}", error.message(), RemedyOf(error.value()));
        pause.expires_after(kAcceptPause);
        co_await pause.async_wait(rpc::kNoThrow);
        continue;
      }
      if (sessions_.size() >= limits_.connections) {
        boost::system::error_code ignored;
        sessions_.front()->close(ignored);
        sessions_.pop_front();
      }
      const auto session = std::make_shared<tcp::socket>(std::move(socket));
      sessions_.push_back(session);
      asio::co_spawn(thread_.executor(), Serve(session),
                     [this, session](const std::exception_ptr&) { sessions_.remove(session); });
    }
  }

  [[nodiscard]] asio::awaitable<void> Serve(std::shared_ptr<tcp::socket> socket) {
    asio::steady_timer timeout(thread_.executor());
    const auto close_after = [&](std::chrono::milliseconds time) {
      timeout.expires_after(time);
      timeout.async_wait([socket](const boost::system::error_code& error) {
        boost::system::error_code ignored;
        if (!error) socket->close(ignored);
      });
    };
    std::string received;
    for (bool open = true; open && socket->is_open();) {
      // The last to begin a request; it is still in the list, since its socket is open.
      sessions_.remove(socket);
      sessions_.push_back(socket);
      close_after(limits_.request_timeout);
      size_t end = received.find(kHeadEnd);
      while (end == std::string::npos && received.size() < limits_.request_bytes) {
        const size_t before = received.size();
        received.resize(limits_.request_bytes);
        const auto [error, bytes] = co_await socket->async_read_some(
            asio::buffer(received.data() + before, received.size() - before), rpc::kNoThrow);
        received.resize(before + bytes);
        if (error) co_return;
        end = received.find(kHeadEnd);
      }
      std::optional<EndpointRequest> request;
      if (end != std::string::npos) {
        request = EndpointRequest::Parse(received.substr(0, end));
        received.erase(0, end + kHeadEnd.size());
      }
      Response response{"400 Bad Request", "malformed request\n"};
      if (request && request->method == "GET" && request->target == "/trace") {
        close_after(limits_.request_timeout + std::chrono::seconds(kMaxTraceSeconds));
        response = co_await Record(request->query);
        close_after(limits_.request_timeout);
      } else if (request) {
        response = Answer(*request);
      }
      open = request && request->keep_alive;
      // The header of HEAD announces the length that GET would send.
      const std::string head =
          absl::StrCat("HTTP/1.1 ", response.status, "\r\nContent-Type: ", response.content_type,
                       "\r\nContent-Length: ", response.body.size(), "\r\n", response.more_headers,
                       open ? "" : "Connection: close\r\n", "\r\n");
      if (request && request->method == "HEAD") response.body.clear();
      const std::array<asio::const_buffer, 2> bytes = {asio::buffer(head),
                                                       asio::buffer(response.body)};
      const auto [error, sent] = co_await asio::async_write(*socket, bytes, rpc::kNoThrow);
      if (error) co_return;
    }
    boost::system::error_code ignored;
    socket->shutdown(tcp::socket::shutdown_send, ignored);
  }

  // Other requests are answered meanwhile.
  [[nodiscard]] asio::awaitable<Response> Record(std::string query) {
    absl::string_view text = query;
    uint32_t seconds = 0;
    if (!absl::ConsumePrefix(&text, "seconds=") || !absl::SimpleAtoi(text, &seconds) ||
        seconds < 1 || seconds > kMaxTraceSeconds) {
      co_return Response{"400 Bad Request", absl::StrCat("use /trace?seconds=N, with N from 1 to ",
                                                         kMaxTraceSeconds, "\n")};
    }
    const std::unique_ptr<Timeline> timeline = Timeline::Record();
    if (timeline == nullptr) {
      co_return Response{"409 Conflict", "a recording is in progress; try again after its end\n"};
    }
    spdlog::info("recording a trace: seconds={}", seconds);
    asio::steady_timer end(thread_.executor(), std::chrono::seconds(seconds));
    co_await end.async_wait(rpc::kNoThrow);
    if (!writer_) writer_.emplace(1);
    std::string json =
        co_await rpc::RunOn(writer_->get_executor(), [&] { return timeline->Finish(process_); });
    co_return Response{"200 OK", std::move(json), "application/json"};
  }

  Response Answer(const EndpointRequest& request) const {
    if (request.method != "GET" && request.method != "HEAD") {
      return {.status = "405 Method Not Allowed",
              .body = "only GET and HEAD\n",
              .more_headers = "Allow: GET, HEAD\r\n"};
    }
    if (request.target == "/metrics") {
      return {"200 OK", registry_.Serialize(), "text/plain; version=0.0.4; charset=utf-8"};
    }
    if (request.target == "/healthz") return {"200 OK", "ok\n"};
    if (request.target == "/readyz") {
      const Readiness state = readiness_();
      if (state.ready) return {"200 OK", "ready\n"};
      return {"503 Service Unavailable", state.reason + "\n"};
    }
    if (request.target == "/configuration" && !configuration_.empty()) {
      return {"200 OK", configuration_};
    }
    if (request.target == "/trace/clock") {
      const auto time = std::chrono::nanoseconds(Timeline::Clock::now().time_since_epoch());
      return {"200 OK", absl::StrCat(time.count(), " ", clock_name_, "\n")};
    }
    return {"404 Not Found", "use /metrics, /healthz, /readyz or /trace?seconds=N\n"};
  }

  const std::string process_;
  const std::string clock_name_ = ClockName();
  const MetricRegistry& registry_;
  const std::function<Readiness()> readiness_;
  const HttpLimits limits_;
  const std::string configuration_;
  std::list<std::shared_ptr<tcp::socket>> sessions_;  // By the begin of their request.
  std::string address_;
  bool is_loopback_ = false;
  IoThread thread_;
  tcp::acceptor acceptor_;
  std::optional<asio::thread_pool> writer_;  // Of traces, from the first one on.
};

}  // namespace

std::optional<EndpointRequest> EndpointRequest::Parse(const std::string& head) {
  const std::vector<std::string> lines = absl::StrSplit(head, "\r\n");
  const std::vector<std::string> words = absl::StrSplit(lines[0], ' ');
  if (words.size() != 3 || (words[2] != "HTTP/1.1" && words[2] != "HTTP/1.0")) return std::nullopt;
  const std::pair<std::string, std::string> target =
      absl::StrSplit(words[1], absl::MaxSplits('?', 1));
  EndpointRequest request{.method = words[0],
                          .target = target.first,
                          .query = target.second,
                          .keep_alive = words[2] == "HTTP/1.1"};
  for (size_t i = 1; i < lines.size(); ++i) {
    const size_t colon = lines[i].find(':');
    if (colon == std::string::npos || colon == 0) return std::nullopt;
    const std::string name = absl::AsciiStrToLower(lines[i].substr(0, colon));
    std::string value = absl::AsciiStrToLower(lines[i].substr(colon + 1));
    absl::StripAsciiWhitespace(&value);
    if (name == "transfer-encoding" || (name == "content-length" && value != "0")) {
      return std::nullopt;
    }
    if (name == "connection" && value == "close") request.keep_alive = false;
    if (name == "connection" && value == "keep-alive") request.keep_alive = true;
  }
  return request;
}

StatusOr<std::unique_ptr<HttpEndpoint>> HttpEndpoint::Start(
    const std::string& address, const std::string& key, const std::string& process,
    const MetricRegistry& registry, std::function<Readiness()> readiness, HttpLimits limits,
    std::string configuration) {
  auto endpoint = std::make_unique<Endpoint>(process, registry, std::move(readiness), limits,
                                             std::move(configuration));
  SIMURGH_RETURN_IF_ERROR(endpoint->Listen(address, key));
  return endpoint;
}

}  // namespace simurgh
