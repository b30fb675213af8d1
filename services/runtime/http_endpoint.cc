#include "services/runtime/http_endpoint.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <variant>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "base/log.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "services/runtime/http_server.h"
#include "services/runtime/process.h"
#include "telemetry/timeline.h"

namespace simurgh {
namespace {

// Largest header of a request, and largest body, which is ignored.
constexpr uint32_t kMaxBytes = 8 * 1024;

// Returns a name of the machine and the namespace whose clock this process reads.
std::string ClockName() {
  std::string name;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), name);
  if (name.empty()) return name;
  std::error_code none;
  return name + std::filesystem::read_symlink("/proc/self/ns/time", none).string();
}

HttpResponse Text(int code, std::string body) {
  return {.code = code, .content_type = "text/plain; charset=utf-8", .body = std::move(body)};
}

class Endpoint final : public HttpEndpoint, HttpHandler {
 public:
  Endpoint(Options options, const MetricRegistry& registry, std::function<Readiness()> readiness)
      : options_(std::move(options)), registry_(registry), readiness_(std::move(readiness)) {}

  ~Endpoint() override {
    std::jthread recorder;  // Its destructor ends the recording, whose request is then answered.
    MutexLock lock(mutex_);
    has_ended_ = true;
    recorder = std::move(recorder_);
  }

  Status Listen() {
    HttpServer::Options options{.address = options_.address,
                                .key = options_.key,
                                .max_connections = options_.max_connections,
                                .request_timeout = options_.request_timeout};
    options.limits = {.header_bytes = kMaxBytes, .body_bytes = kMaxBytes};
    SIMURGH_ASSIGN_OR_RETURN(server_, HttpServer::Start(options, *this, /*tls=*/nullptr, own_));
    spdlog::info("http://{} serves /metrics, /healthz and /readyz", address());
    if (!server_->is_loopback() && !options_.is_public) {
      spdlog::warn(
          "{}: other machines can read the metrics at {}, which are not encrypted; use a loopback "
          "address, or a firewall",
          options_.key, address());
    }
    return absl::OkStatus();
  }

  const std::string& address() const override { return server_->address(); }

 private:
  std::variant<Answer, HttpResponse> Accept(const HttpHead& head) override {
    if (head.method == "GET" || head.method == "HEAD") {
      return [this](const HttpRequest& request, Respond respond) {
        Handle(request, std::move(respond));
      };
    }
    HttpResponse response = Text(405, "only GET and HEAD\n");
    response.headers.emplace_back("Allow", "GET, HEAD");
    return response;
  }

  void Handle(const HttpRequest& request, Respond respond) {
    const std::pair<std::string, std::string> target =
        absl::StrSplit(request.head.target, absl::MaxSplits('?', 1));
    if (request.head.method == "GET" && target.first == "/trace") {
      return Record(target.second, std::move(respond));
    }
    std::move(respond)(Page(target.first));
  }

  // Other requests are answered meanwhile.
  void Record(absl::string_view query, Respond respond) {
    uint32_t seconds = 0;
    if (!absl::ConsumePrefix(&query, "seconds=") || !absl::SimpleAtoi(query, &seconds) ||
        seconds < 1 || seconds > kMaxTraceSeconds) {
      return std::move(respond)(Text(
          400, absl::StrCat("use /trace?seconds=N, with N from 1 to ", kMaxTraceSeconds, "\n")));
    }
    MutexLock lock(mutex_);
    std::unique_ptr<Timeline> timeline;
    if (!has_ended_ && !is_recording_) timeline = Timeline::Record();
    if (timeline == nullptr) {
      return std::move(respond)(Text(409, "a recording is in progress; try again after its end\n"));
    }
    spdlog::info("recording a trace: seconds={}", seconds);
    recorder_ = std::jthread([this, seconds, timeline = std::move(timeline),
                              respond = std::move(respond)](const std::stop_token& stop) mutable {
      is_recording_ = true;  // Until then, the timeline refuses others.
      SetThreadName("trace");
      AwaitStop(stop, std::chrono::seconds(seconds));
      HttpResponse response;
      try {
        response.body = timeline->Finish(options_.process);
      } catch (const std::bad_alloc&) {
        response = Text(503, "no memory for the trace; record fewer seconds\n");
      }
      is_recording_ = false;
      std::move(respond)(std::move(response));
    });
  }

  HttpResponse Page(const std::string& path) const {
    if (path == "/metrics") {
      return {.content_type = "text/plain; version=0.0.4; charset=utf-8",
              .body = registry_.Serialize()};
    }
    if (path == "/healthz") return Text(200, "ok\n");
    if (path == "/readyz") {
      const Readiness state = readiness_();
      return state.ready ? Text(200, "ready\n") : Text(503, state.reason + "\n");
    }
    if (path == "/configuration" && !options_.configuration.empty()) {
      return Text(200, options_.configuration);
    }
    if (path == "/trace/clock") {
      const auto time = std::chrono::nanoseconds(Timeline::Clock::now().time_since_epoch());
      return Text(200, absl::StrCat(time.count(), " ", clock_name_, "\n"));
    }
    return Text(404, "use /metrics, /healthz, /readyz or /trace?seconds=N\n");
  }

  const Options options_;
  const std::string clock_name_ = ClockName();
  const MetricRegistry& registry_;
  const std::function<Readiness()> readiness_;
  MetricRegistry own_;  // Registry of the server: `registry_` does not count requests for metrics.
  std::atomic<bool> is_recording_ = false;
  Mutex mutex_;
  bool has_ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::jthread recorder_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<HttpServer> server_;  // Destroyed first, since it calls this object.
};

}  // namespace

StatusOr<std::unique_ptr<HttpEndpoint>> HttpEndpoint::Start(Options options,
                                                            const MetricRegistry& registry,
                                                            std::function<Readiness()> readiness) {
  auto endpoint = std::make_unique<Endpoint>(std::move(options), registry, std::move(readiness));
  SIMURGH_RETURN_IF_ERROR(endpoint->Listen());
  return endpoint;
}

}  // namespace simurgh
