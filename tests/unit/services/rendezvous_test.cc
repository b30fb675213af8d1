#include "services/nn_worker/rendezvous.h"

#include <future>
#include <string>
#include <utility>

#include <boost/asio/use_future.hpp>
#include <catch2/catch.hpp>

#include "services/runtime/io_thread.h"
#include "tests/unit/services/hello.h"

namespace simurgh {
namespace {

using std::chrono_literals::operator""s;

constexpr uint64_t kRun = 5;
const std::string kPlan = "a = 1\n";

// A server with a rendezvous of two ranks.
struct Rank0 {
  explicit Rank0(std::string own_plan = kPlan) : plan(std::move(own_plan)) {
    thread.RunAndWait([this] {
      rendezvous.emplace(thread.executor(), 2, plan, [](uint32_t) {});
      rendezvous->Begin(kRun);
      server.emplace(thread.executor(), HelloOf("nn-worker"), rpc::ServerOptions(), nullptr);
      rendezvous->Register(*server);
      CHECK(server->Listen("127.0.0.1:0") == absl::OkStatus());
      client.emplace(thread.executor(), server->address(), HelloOf("nn-worker"),
                     rpc::ClientOptions(), nullptr);
    });
  }
  ~Rank0() {
    thread.RunAndWait([this] {
      client.reset();
      server.reset();
    });
  }

  std::future<StatusOr<uint64_t>> Meet(uint32_t rank, rpc::Clock::duration timeout,
                                       const std::string& of_rank = "") {
    return rpc::asio::co_spawn(
        thread.executor(),
        MeetRanks(*client, rank, 2, of_rank.empty() ? plan : of_rank, rpc::Clock::now() + timeout),
        rpc::asio::use_future);
  }
  // Waits until one of the ranks is there.
  void AwaitArrival() {
    for (std::string missing = "ranks 0, 1"; missing == "ranks 0, 1";) {
      thread.RunAndWait([&] { missing = rendezvous->Missing(); });
    }
  }

  const std::string plan;

  std::optional<Rendezvous> rendezvous;
  std::optional<rpc::Server> server;
  std::optional<rpc::Client> client;
  IoThread thread{"rendezvous"};
};

TEST_CASE("A rendezvous completes when all ranks have arrived") {
  rpc::asio::io_context loop;
  std::vector<uint32_t> restarted;
  Rendezvous rendezvous(loop.get_executor(), 3, kPlan,
                        [&](uint32_t rank) { restarted.push_back(rank); });
  CHECK(rendezvous.Arrive(1, 3, kPlan, 11).ok());
  CHECK(rendezvous.Missing() == "ranks 0, 2");
  CHECK(rendezvous.Arrive(0, 3, kPlan, 10).ok());
  CHECK(rendezvous.Arrive(1, 3, kPlan, 21).ok());  // The rank restarted.
  CHECK(rendezvous.Missing() == "ranks 2");
  CHECK(rendezvous.Arrive(2, 3, kPlan, 12).ok());
  CHECK(rendezvous.Missing().empty());
  // The answer may have been lost; another process is another matter.
  CHECK(rendezvous.Arrive(1, 3, kPlan, 21).ok());
  CHECK(restarted.empty());
  CHECK(absl::IsAborted(rendezvous.Arrive(1, 3, kPlan, 11)));
  CHECK(restarted == std::vector<uint32_t>{1});
}

TEST_CASE("Ranks that differ in number or plan are rejected") {
  rpc::asio::io_context loop;
  Rendezvous rendezvous(loop.get_executor(), 2, kPlan, [](uint32_t) {});
  CHECK(absl::IsInvalidArgument(rendezvous.Arrive(1, 3, kPlan, 9)));
  CHECK(absl::IsInvalidArgument(rendezvous.Arrive(2, 2, kPlan, 9)));
  const Status other = rendezvous.Arrive(1, 2, "a = 2\n", 9);
  CHECK(absl::IsInvalidArgument(other));
  CHECK_THAT(std::string(other.message()),
             Catch::Contains("configurations differ: a = 1 (rank 0), 2 (rank 1)"));
  CHECK(rendezvous.Missing() == "ranks 0, 1");
}

TEST_CASE("Ranks that meet learn the run") {
  Rank0 rank0;
  auto first = rank0.Meet(0, 60s);
  auto second = rank0.Meet(1, 60s);
  CHECK(first.get() == StatusOr<uint64_t>(kRun));
  CHECK(second.get() == StatusOr<uint64_t>(kRun));
}

TEST_CASE("Ranks that continue from different checkpoints all end at once") {
  Rank0 rank0("first step = 300\n");
  auto first = rank0.Meet(0, 60s);
  rank0.AwaitArrival();
  const Status late = rank0.Meet(1, 60s, "first step = 600\n").get().status();
  for (const Status& status : {late, first.get().status()}) {
    CHECK(absl::IsAborted(status));
    CHECK_THAT(std::string(status.message()),
               Catch::Contains("first step = 300 (rank 0), 600 (rank 1)") &&
                   Catch::Contains("start all ranks again"));
  }
}

TEST_CASE("A waiting rank learns which ranks are missing, or of a stop") {
  Rank0 rank0;
  const auto late = rank0.Meet(0, 1s).get();
  CHECK(absl::IsDeadlineExceeded(late.status()));
  CHECK_THAT(std::string(late.status().message()),
             Catch::Contains("ranks 1 did not arrive within nn_worker.rank_timeout"));
  auto stopped = rank0.Meet(0, 60s);
  rank0.thread.RunAndWait([&] { rank0.client->Stop(); });
  CHECK(absl::IsCancelled(stopped.get().status()));
}

}  // namespace
}  // namespace simurgh
