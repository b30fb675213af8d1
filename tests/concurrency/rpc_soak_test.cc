// Mixed calls over TCP and Unix sockets through proxies that cut connections at random, while
// servers come and go: every call ends with exactly one result, which is its own, is executed at
// most once, and not at all if its caller is told so.
//
// SIMURGH_SOAK_CALLS=1000000 makes it longer; SIMURGH_TEST_SEED=<seed> repeats the calls and the
// cuts of an earlier run (not the order in which threads get to them).

#include <array>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <iostream>
#include <random>
#include <thread>

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include <boost/asio/use_future.hpp>
#include <catch2/catch.hpp>

#include "rpc/testing/killing_proxy.h"
#include "tests/concurrency/soak_caller.h"
#include "tests/concurrency/soak_server.h"

namespace simurgh::rpc {
namespace {

#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr uint64_t kCalls = 20'000;  // Each takes six times as long.
#else
constexpr uint64_t kCalls = 100'000;
#endif
constexpr size_t kCallersAClient = 16;
constexpr uint64_t kRestarts = 4;
// Of one connection: some dozens of calls, most of them small.
constexpr double kMeanBytes = 4e6;
constexpr std::chrono::milliseconds kDrainTime{100};
constexpr std::chrono::seconds kPatience{120};  // Without a single call that ends.

uint64_t Environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 0) : otherwise;
}

// One thread with an executor of its own, until everything on it has ended.
class Thread {
 public:
  Thread() : thread_([this] { context_.run(); }) {}
  ~Thread() { Join(); }

  asio::any_io_executor executor() { return context_.get_executor(); }

  void Join() {
    work_.reset();
    if (thread_.joinable()) thread_.join();
  }

  // Runs a function there and waits for it.
  void Run(std::function<void()> function) {
    std::packaged_task<void()> task(std::move(function));
    asio::post(context_, [&task] { task(); });
    task.get_future().get();
  }

  // Runs a coroutine there.
  template <typename T>
  std::future<T> Start(awaitable<T> task) {
    return asio::co_spawn(context_, std::move(task), asio::use_future);
  }

 private:
  asio::io_context context_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_ =
      asio::make_work_guard(context_);
  std::thread thread_;
};

std::string UnixAddress(const std::string& name) {
  const auto path =
      std::filesystem::temp_directory_path() / absl::StrCat("simurgh-soak-", ::getpid(), "-", name);
  return "unix://" + path.string();
}

// Servers on one thread, a proxy in front of each on another, clients on two more: one of each kind
// of address on either.
class Soak {
 public:
  Soak(uint64_t seed, uint64_t calls) : ledger_(calls), numbers_{.seed = seed, .end = calls} {
    for (size_t i = 0; i < kKinds; ++i) {
      proxies_.push_back(
          std::make_unique<testing::KillingProxy>(wires_.executor(), seed + i, kMeanBytes));
    }
    StartServers();
    wires_.Run([this] {
      REQUIRE(proxies_[0]->Listen("127.0.0.1:0") == absl::OkStatus());
      REQUIRE(proxies_[1]->Listen(UnixAddress("proxy")) == absl::OkStatus());
    });
  }

  // Makes all calls and ends everything in order.
  void Run() {
    std::vector<std::future<Status>> runs;
    for (Thread& thread : callers_threads_) {
      for (const auto& proxy : proxies_) {
        callers_.push_back(
            std::make_unique<SoakCallers>(thread.executor(), proxy->address(), numbers_, ledger_));
        runs.push_back(thread.Start(callers_.back()->Run(kCallersAClient)));
      }
    }
    for (const std::future<Status>& run : runs) WaitFor(run);
    for (size_t i = 0; i < callers_.size(); ++i) {
      callers_threads_[i / kKinds].Run([this, i] { callers_[i].reset(); });
    }
    for (Thread& thread : callers_threads_) thread.Join();
    StopServers(std::exchange(present_, {}));
    server_thread_.Join();
    wires_.Run([this] {
      for (auto& proxy : proxies_) {
        kills_ += proxy->kills();
        proxy.reset();
      }
    });
    wires_.Join();
    ledger_.Settle();
  }

  const Ledger& ledger() const { return ledger_; }
  uint64_t kills() const { return kills_; }

 private:
  static constexpr size_t kKinds = 2;  // TCP and Unix.
  using Servers = std::vector<std::unique_ptr<SoakServer>>;

  // New servers, to which the proxies lead from now on.
  void StartServers() {
    const std::string path = UnixAddress(absl::StrCat("server-", generation_++));
    Servers servers;
    server_thread_.Run([&] {
      for (const std::string& address : {std::string("127.0.0.1:0"), path}) {
        servers.push_back(
            std::make_unique<SoakServer>(server_thread_.executor(), numbers_.seed, ledger_));
        REQUIRE(servers.back()->Listen(address) == absl::OkStatus());
      }
    });
    wires_.Run([&] {
      for (size_t i = 0; i < kKinds; ++i) proxies_[i]->SetTarget(servers[i]->address());
    });
    present_ = std::move(servers);
  }

  void StopServers(Servers servers) {
    for (auto& server : servers) {
      const auto drain = [&]() -> awaitable<void> {
        co_await server->Drain(Clock::now() + kDrainTime);
      };
      server_thread_.Start(drain()).get();
    }
    server_thread_.Run([&] { servers.clear(); });
  }

  void RestartServers() {
    Servers old = std::exchange(present_, {});
    StartServers();
    StopServers(std::move(old));
  }

  // Waits, restarts the servers now and then, and gives up loudly when nothing moves any more.
  void WaitFor(const std::future<Status>& run) {
    size_t ended = ledger_.ended();
    Clock::time_point moved = Clock::now();
    while (run.wait_for(std::chrono::milliseconds(10)) != std::future_status::ready) {
      if (ledger_.ended() * (kRestarts + 1) > generation_ * numbers_.end) RestartServers();
      if (std::exchange(ended, ledger_.ended()) != ended) moved = Clock::now();
      if (Clock::now() < moved + kPatience) continue;
      std::vector<uint64_t> pending = ledger_.Pending();
      std::erase_if(pending, [&](uint64_t id) { return id >= numbers_.next; });
      std::cerr << "seed " << numbers_.seed
                << ": these calls never end: " << absl::StrJoin(pending, " ") << std::endl;
      std::abort();
    }
  }

  Ledger ledger_;
  CallNumbers numbers_;
  uint64_t generation_ = 0;  // Of servers.
  uint64_t kills_ = 0;
  Servers present_;
  std::vector<std::unique_ptr<testing::KillingProxy>> proxies_;
  std::vector<std::unique_ptr<SoakCallers>> callers_;
  Thread wires_;
  Thread server_thread_;
  std::array<Thread, 2> callers_threads_;
};

TEST_CASE("a million mixed calls over breaking wires: none is lost, doubled or mixed up") {
  const uint64_t seed = Environment("SIMURGH_TEST_SEED", std::random_device()());
  const uint64_t calls = Environment("SIMURGH_SOAK_CALLS", kCalls);
  CAPTURE(seed, calls);
  std::cout << "soak: SIMURGH_TEST_SEED=" << seed << " SIMURGH_SOAK_CALLS=" << calls << std::endl;
  Soak soak(seed, calls);
  soak.Run();

  const auto sums = soak.ledger().Sums();
  const auto sum = [&](Ending ending) { return sums[static_cast<size_t>(ending)]; };
  std::cout << "soak: " << soak.kills() << " connections cut; " << sum(Ending::kOk)
            << " calls answered, " << sum(Ending::kAnsweredError) << " answered with an error, "
            << sum(Ending::kNotExecuted) << " not executed, " << sum(Ending::kMaybeExecuted)
            << " maybe executed" << std::endl;
  INFO(absl::StrJoin(soak.ledger().faults(), "\n"));
  CHECK(soak.ledger().fault_count() == 0);
  // It was a soak: most calls came through, and every kind of failure was met.
  CHECK(sum(Ending::kPending) == 0);
  CHECK(sum(Ending::kOk) > calls / 2);
  CHECK(sum(Ending::kAnsweredError) > 0);
  CHECK(sum(Ending::kNotExecuted) > 0);
  CHECK(sum(Ending::kMaybeExecuted) > 0);
  CHECK(soak.kills() > calls / 10'000);
}

}  // namespace
}  // namespace simurgh::rpc
