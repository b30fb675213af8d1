#include <optional>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "tests/unit/rpc/ends.h"

namespace simurgh::rpc {
namespace {

using testing::Loop;

// Limits this process to one more open file.
class LastDescriptor {
 public:
  LastDescriptor() {
    const int lowest_free = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    REQUIRE(lowest_free >= 0);
    ::close(lowest_free);
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
    rlimit low = before_;
    low.rlim_cur = static_cast<rlim_t>(lowest_free) + 1;
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &low) == 0);
  }
  LastDescriptor(const LastDescriptor&) = delete;
  LastDescriptor& operator=(const LastDescriptor&) = delete;
  ~LastDescriptor() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST_CASE("a server without free descriptors reports it and accepts later") {
  struct : RecordingObserver {
    void OnThrottle(std::string_view peer, ThrottleReason reason) override {
      RecordingObserver::OnThrottle(peer, reason);
      if (reason != ThrottleReason::kAccept) return;
      addresses.emplace_back(peer);
      shortage.reset();
    }
    std::vector<std::string> addresses;
    std::optional<LastDescriptor> shortage;
  } observer;
  Loop loop;
  const auto server = NewServer(loop, "127.0.0.1:0", &observer);
  Client client(loop.executor(), server->address(), TestHello("client"), {}, nullptr);
  observer.shortage.emplace();  // The client takes the last one.
  const auto answer = loop.Run(client.Call(kEcho, Message(Text("x")), IntoVectors(), Soon()));
  CHECK(answer.status() == absl::OkStatus());
  CHECK(observer.addresses == std::vector{server->address()});
  CHECK(observer.throttled(ThrottleReason::kAccept) == 1);
  CHECK(observer.connects == 1);
}

}  // namespace
}  // namespace simurgh::rpc
