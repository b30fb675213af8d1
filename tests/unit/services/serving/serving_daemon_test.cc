#include "services/serving/serving_daemon.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <sstream>
#include <string>
#include <thread>

#include <unistd.h>

#include <catch2/catch.hpp>

#include "base/mutex.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/waiting.h"
#include "tests/unit/services/serving/fake_backend.h"
#include "tests/unit/services/serving/raw_client.h"

namespace simurgh {
namespace {

constexpr char kRequest[] =
    "POST /v1/models/ads:predict HTTP/1.1\r\nContent-Length: 30\r\n\r\n"
    R"({"instances":[{"city":"abc"}]})";

// A server in this process, which signals stop.
class Running {
 public:
  explicit Running(const ServingConfig& config) {
    ServingParts parts;
    parts.make_backend = [this](const ServingConfig&, MetricRegistry&) {
      auto backend = std::make_unique<FakeBackend>();
      backend_ = backend.get();
      return StatusOr<std::unique_ptr<ScoringBackend>>(std::move(backend));
    };
    parts.reload = [this, config]() -> StatusOr<ServingConfig> {
      ++reloads_;
      return config;
    };
    thread_ = std::thread([this, config, parts] { status_ = RunServing(config, parts, out_); });
    Await([&] { return !url().empty(); });
  }
  ~Running() {
    if (thread_.joinable()) (void)Stop();
  }

  // SIGTERM, and waits for the end.
  Status Stop() {
    ::kill(::getpid(), SIGTERM);
    return Join();
  }
  Status Join() {
    thread_.join();
    return status_;
  }

  std::string url() { return out_.text(); }
  // host:port
  std::string address() {
    const std::string text = url();
    const size_t begin = text.find("://") + 3;
    return text.substr(begin, text.find('/', begin) - begin);
  }
  FakeBackend& backend() { return *backend_; }
  int reloads() const { return reloads_; }

  static void Await(const std::function<bool()>& holds) { REQUIRE(testing::Eventually(holds)); }

 private:
  // A stream that another thread may read.
  class Output : public std::ostream {
   public:
    Output() : std::ostream(&buffer_) {}
    std::string text() { return buffer_.text(); }

   private:
    class Buffer : public std::streambuf {
     public:
      std::string text() {
        MutexLock lock(mutex_);
        return text_.ends_with('\n') ? text_ : "";
      }

     protected:
      int_type overflow(int_type c) override {
        MutexLock lock(mutex_);
        text_.push_back(static_cast<char>(c));
        return c;
      }

     private:
      Mutex mutex_;
      std::string text_;
    };
    Buffer buffer_;
  };

  Output out_;
  std::atomic<FakeBackend*> backend_ = nullptr;
  std::atomic<int> reloads_ = 0;
  Status status_;
  std::thread thread_;
};

ServingConfig Config() {
  ServingConfig config;
  config.model = "/models/ads";
  config.listen = "127.0.0.1:0";
  return config;
}

std::string Ask(const std::string& address, const std::string& request) {
  RawClient client(address);
  client.Send(request);
  return client.ReadResponse();
}

}  // namespace

TEST_CASE("the server prints its address, answers and stops by SIGTERM", "[serving]") {
  Running running(Config());
  CHECK_THAT(running.url(), Catch::StartsWith("simurgh: serving at http://127.0.0.1:") &&
                                Catch::EndsWith("/v2/models/ads\n"));
  CHECK_THAT(Ask(running.address(), kRequest), Catch::Contains("\"predictions\":[0.03]"));
  CHECK(running.Stop().ok());
}

TEST_CASE("SIGTERM loses no request that has arrived", "[serving]") {
  Running running(Config());
  running.backend().Hold();
  RawClient waiting(running.address());
  waiting.Send(kRequest);
  Running::Await([&] { return running.backend().held() == 1; });
  ::kill(::getpid(), SIGTERM);
  // The listening socket closes, the request still waits.
  Running::Await([&] {
    try {
      RawClient probe(running.address());
      return false;
    } catch (const boost::system::system_error&) {
      return true;
    }
  });
  CHECK(running.backend().held() == 1);
  running.backend().AnswerHeld();
  CHECK_THAT(waiting.ReadToEnd(), Catch::Contains("\"predictions\":[0.03]"));
  CHECK(running.Join().ok());
}

TEST_CASE("SIGHUP reads tokens again, and keeps them after an error", "[serving]") {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& token) {
    const std::string path = folder.Write("tokens", token);
    std::filesystem::permissions(
        path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    return path;
  };
  const std::string first = std::string(31, 'a') + '0';
  const std::string second = std::string(31, 'b') + '0';
  ServingConfig config = Config();
  config.token_file = write(first);
  Running running(config);
  const auto code_with = [&](const std::string& token) {
    return Ask(running.address(), "GET /v2 HTTP/1.1\r\nAuthorization: Bearer " + token + "\r\n\r\n")
        .substr(9, 3);
  };
  CHECK(code_with(first) == "200");
  CHECK(code_with(second) == "401");
  write(second);
  ::kill(::getpid(), SIGHUP);
  Running::Await([&] { return code_with(second) == "200"; });
  CHECK(code_with(first) == "401");
  write("short");
  const int before = running.reloads();
  ::kill(::getpid(), SIGHUP);
  Running::Await([&] { return running.reloads() > before; });
  CHECK(code_with(second) == "200");
}

TEST_CASE("files that cannot be used are errors of the configuration", "[serving]") {
  const auto problem = [](const ServingConfig& config) {
    ServingParts parts;
    parts.make_backend = [](const ServingConfig&, MetricRegistry&) {
      return StatusOr<std::unique_ptr<ScoringBackend>>(std::make_unique<FakeBackend>());
    };
    std::ostringstream out;
    const Status status = RunServing(config, parts, out);
    CHECK(absl::IsInvalidArgument(status));
    return std::string(status.message());
  };
  ServingConfig config = Config();
  config.token_file = "/none";
  config.token_key = "serving.token_file";
  CHECK_THAT(problem(config), Catch::StartsWith("serving.token_file: '/none' cannot be read"));
  config = Config();
  config.security = Security::kTls;
  config.tls = {.certificate = "/none", .key = "/none", .where = "serving.tls"};
  CHECK_THAT(problem(config), Catch::StartsWith("serving.tls.certificate: '/none' cannot be used"));
  Running running(Config());
  config = Config();
  config.listen = running.address();
  CHECK_THAT(problem(config), Catch::Contains("is in use by another process"));
}

}  // namespace simurgh
