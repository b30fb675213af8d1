// Mixed calls over TCP, TLS, Unix sockets and shared memory through proxies that cut connections at
// random, while servers restart: every call ends with exactly one result, which is its own, and is
// executed at most once, and not at all if the server refused it.
//
// SIMURGH_SOAK_CALLS sets the number of calls; SIMURGH_TEST_SEED repeats the calls and cuts of a
// run, but not the interleaving of threads.

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

#include "tests/concurrency/soak_caller.h"
#include "tests/concurrency/soak_server.h"
#include "tests/support/rpc/certificates.h"
#include "tests/support/rpc/proxy.h"

namespace simurgh::rpc {
namespace {

#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr uint64_t kCalls = 15'000;  // Six times slower.
#else
constexpr uint64_t kCalls = 60'000;
#endif
constexpr size_t kCallersAClient = 8;
constexpr uint64_t kRestarts = 4;
constexpr std::chrono::milliseconds kDrainTime{100};
constexpr std::chrono::seconds kPatience{120};  // Without the end of a call.

uint64_t Environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 0) : otherwise;
}

// A thread with an executor, until all its work has ended.
class Thread {
 public:
  Thread() : thread_([this] { context_.run(); }) {}
  ~Thread() { Join(); }

  asio::any_io_executor executor() { return context_.get_executor(); }

  void Join() {
    work_.reset();
    if (thread_.joinable()) thread_.join();
  }

  // Runs a function and waits for it.
  void Run(std::function<void()> function) {
    std::packaged_task<void()> task(std::move(function));
    asio::post(context_, [&task] { task(); });
    task.get_future().get();
  }

  // Runs a coroutine.
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

// Kinds of connections.
struct Kind {
  const char* name;
  const char* scheme;
  // Mean bytes of a connection before it is cut: dozens of calls.
  double mean_bytes;
  uint64_t handshake_bytes = testing::KillingProxy::kHelloBytes;
  bool tls = false;
};
constexpr std::array<Kind, 4> kKinds{{
    {.name = "tcp", .scheme = "tcp", .mean_bytes = 4e6},
    {.name = "unix", .scheme = "unix", .mean_bytes = 4e6},
    // Large segments are not sent over the socket.
    {.name = "shm", .scheme = "shm", .mean_bytes = 2e5},
    {.name = "tls", .scheme = "tcp", .mean_bytes = 4e6, .handshake_bytes = 6'000, .tls = true},
}};

std::string AddressOf(const Kind& kind, const std::string& who) {
  if (std::string_view(kind.scheme) == "tcp") return "tcp://127.0.0.1:0";
  const auto path = std::filesystem::temp_directory_path() /
                    absl::StrCat("simurgh-soak-", ::getpid(), "-", kind.name, "-", who);
  return absl::StrCat(kind.scheme, "://", path.string());
}

// Servers on one thread, their proxies on another, clients on two more, each with one of each kind.
class Soak {
 public:
  Soak(uint64_t seed, uint64_t calls) : ledger_(calls), numbers_{.seed = seed, .end = calls} {
    for (const Kind& kind : kKinds) {
      proxies_.push_back(std::make_unique<testing::KillingProxy>(
          wires_.executor(), seed + proxies_.size(), kind.mean_bytes, kind.handshake_bytes));
    }
    StartServers();
    wires_.Run([this] {
      for (size_t i = 0; i < kKinds.size(); ++i) {
        REQUIRE(proxies_[i]->Listen(AddressOf(kKinds[i], "proxy")) == absl::OkStatus());
      }
    });
  }

  // Makes all calls and stops everything.
  void Run() {
    std::vector<std::future<Status>> runs;
    for (Thread& thread : callers_threads_) {
      for (size_t i = 0; i < kKinds.size(); ++i) {
        ClientOptions options;
        if (kKinds[i].tls) options.tls = client_identity_;
        callers_.push_back(std::make_unique<SoakCallers>(thread.executor(), proxies_[i]->address(),
                                                         numbers_, ledger_, std::move(options)));
        runs.push_back(thread.Start(callers_.back()->Run(kCallersAClient)));
      }
    }
    for (const std::future<Status>& run : runs) WaitFor(run);
    for (size_t i = 0; i < callers_.size(); ++i) {
      callers_threads_[i / kKinds.size()].Run([this, i] { callers_[i].reset(); });
    }
    for (Thread& thread : callers_threads_) thread.Join();
    StopServers(std::exchange(present_, {}));
    server_thread_.Join();
    wires_.Run([this] {
      for (size_t i = 0; i < kKinds.size(); ++i) kills_[i] = proxies_[i]->kills();
      proxies_.clear();
    });
    wires_.Join();
    ledger_.Settle();
  }

  const Ledger& ledger() const { return ledger_; }
  // Cut connections of one kind.
  uint64_t kills(size_t kind) const { return kills_[kind]; }
  uint64_t sharing_requests() const { return sharing_requests_; }

 private:
  using Servers = std::vector<std::unique_ptr<SoakServer>>;

  // New servers, the targets of the proxies.
  void StartServers() {
    const std::string who = absl::StrCat("server-", generation_++);
    Servers servers;
    server_thread_.Run([&] {
      for (const Kind& kind : kKinds) {
        ServerOptions options;
        if (kind.tls) options.tls = server_identity_;
        servers.push_back(std::make_unique<SoakServer>(server_thread_.executor(), numbers_.seed,
                                                       ledger_, options));
        REQUIRE(servers.back()->Listen(AddressOf(kind, who)) == absl::OkStatus());
      }
    });
    wires_.Run([&] {
      for (size_t i = 0; i < kKinds.size(); ++i) proxies_[i]->SetTarget(servers[i]->address());
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
    server_thread_.Run([&] {
      for (const auto& server : servers) sharing_requests_ += server->sharing_requests();
      servers.clear();
    });
  }

  void RestartServers() {
    Servers old = std::exchange(present_, {});
    StartServers();
    StopServers(std::move(old));
  }

  // Waits, restarts the servers at times, and aborts without progress.
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
                << ": calls without end: " << absl::StrJoin(pending, " ") << std::endl;
      std::abort();
    }
  }

  testing::TestAuthority authority_;
  const std::shared_ptr<const TlsContext> server_identity_ = authority_.Context("server");
  const std::shared_ptr<const TlsContext> client_identity_ = authority_.Context("client");
  Ledger ledger_;
  CallNumbers numbers_;
  uint64_t generation_ = 0;  // Of the servers.
  std::array<uint64_t, kKinds.size()> kills_{};
  uint64_t sharing_requests_ = 0;
  Servers present_;
  std::vector<std::unique_ptr<testing::KillingProxy>> proxies_;
  std::vector<std::unique_ptr<SoakCallers>> callers_;
  Thread wires_;
  Thread server_thread_;
  std::array<Thread, 2> callers_threads_;
};

TEST_CASE("no call over breaking links is lost, executed twice or mixed up") {
  const uint64_t seed = Environment("SIMURGH_TEST_SEED", std::random_device()());
  const uint64_t calls = Environment("SIMURGH_SOAK_CALLS", kCalls);
  CAPTURE(seed, calls);
  std::cout << "soak: SIMURGH_TEST_SEED=" << seed << " SIMURGH_SOAK_CALLS=" << calls << std::endl;
  Soak soak(seed, calls);
  soak.Run();

  const auto sums = soak.ledger().Sums();
  const auto sum = [&](Ending ending) { return sums[static_cast<size_t>(ending)]; };
  std::cout << "soak: connections cut:";
  for (size_t i = 0; i < kKinds.size(); ++i) {
    std::cout << " " << soak.kills(i) << " " << kKinds[i].name;
  }
  std::cout << "; " << soak.sharing_requests() << " requests over shared memory; "
            << sum(Ending::kOk) << " calls answered, " << sum(Ending::kAnsweredError)
            << " answered with an error, " << sum(Ending::kRefused) << " refused, "
            << sum(Ending::kFailed) << " lost, late or cancelled" << std::endl;
  INFO(absl::StrJoin(soak.ledger().faults(), "\n"));
  CHECK(soak.ledger().fault_count() == 0);
  // Most calls succeeded, and every kind of failure occurred.
  CHECK(sum(Ending::kPending) == 0);
  CHECK(sum(Ending::kOk) > calls / 2);
  CHECK(sum(Ending::kAnsweredError) > 0);
  CHECK(sum(Ending::kRefused) > 0);
  CHECK(sum(Ending::kFailed) > 0);
  for (size_t i = 0; i < kKinds.size(); ++i) {
    INFO(kKinds[i].name);
    CHECK(soak.kills(i) > calls / 20'000);
  }
  CHECK(soak.sharing_requests() > calls / 20);
}

}  // namespace
}  // namespace simurgh::rpc
