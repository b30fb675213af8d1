// What other ranks, and strangers, can do to a rank's mesh.

#include "services/nn_worker/rank_mesh.h"

#include <array>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/use_future.hpp>
#include <catch2/catch.hpp>

#include "rpc/token.h"
#include "tests/unit/collective/rank_threads.h"

namespace simurgh::testing {
namespace {

using std::chrono_literals::operator""ms;

// A rank 1 that calls the methods of others itself.
class BareRank {
 public:
  explicit BareRank(const std::string& address, rpc::Hello hello = HelloOfRank(1),
                    const rpc::ClientOptions& options = {}) {
    thread_.RunAndWait([&] {
      client_ = std::make_unique<rpc::Client>(thread_.executor(), address, std::move(hello),
                                              options, nullptr);
    });
  }
  ~BareRank() {
    thread_.RunAndWait([this] { client_.reset(); });
  }

  Status Send(uint64_t run, uint8_t channel, uint64_t number, size_t bytes = 1,
              std::chrono::milliseconds timeout = 10'000ms) {
    flatbuffers::FlatBufferBuilder builder;
    const auto root = api::wire::CreateExchangeRequest(builder, run, channel, number);
    const auto part = std::make_shared<const std::vector<std::byte>>(bytes, std::byte{1});
    return Result(rpc::Call(*client_, api::kExchange, {builder, root, {*part, part}},
                            rpc::Clock::now() + timeout));
  }

  Status AwaitEnd(uint64_t run, std::chrono::milliseconds timeout = 10'000ms) {
    flatbuffers::FlatBufferBuilder builder;
    const auto root = api::wire::CreateAwaitEndRequest(builder, run);
    return Result(
        rpc::Call(*client_, api::kAwaitEnd, {builder, root}, rpc::Clock::now() + timeout));
  }

 private:
  // Threads must not share a Status.
  template <typename Response>
  static rpc::awaitable<std::pair<absl::StatusCode, std::string>> Parts(
      rpc::awaitable<StatusOr<Response>> call) {
    const StatusOr<Response> response = co_await std::move(call);
    co_return std::pair(response.status().code(), std::string(response.status().message()));
  }

  template <typename Response>
  Status Result(rpc::awaitable<StatusOr<Response>> call) {
    const auto [code, message] =
        rpc::asio::co_spawn(thread_.executor(), Parts(std::move(call)), rpc::asio::use_future)
            .get();
    return {code, message};
  }

  std::unique_ptr<rpc::Client> client_;
  IoThread thread_{"bare"};
};

// Rank 0 of two, and a rank 1 whose server and calls are the test's.
struct Pair {
  explicit Pair(std::chrono::milliseconds timeout = 60'000ms,
                const rpc::ServerOptions& options = {})
      : server({.rank = 0, .ranks = 2, .timeout = timeout}, "127.0.0.1:0", options),
        silent({.rank = 1, .ranks = 2}, "127.0.0.1:0"),
        joining([this] { joined = server.Join({server.address(), silent.address()}); }) {}
  ~Pair() {
    if (joining.joinable()) joining.join();
    // Its messages to the silent rank would be waited for.
    if (joined.ok()) (*joined)->Abort(absl::CancelledError("the test has ended"));
  }

  // Rank 1's part of the exchange that ends the setup.
  Status Join(BareRank& bare) {
    SIMURGH_RETURN_IF_ERROR(bare.Send(kRun, 0, 0));
    joining.join();
    return joined.status();
  }

  RankServer server;
  RankServer silent;
  StatusOr<std::unique_ptr<Collective>> joined;
  std::thread joining;
};

Status GatherByte(Collective& collective) {
  const std::byte own{};
  std::array<std::byte, 2> all{};
  return collective.Gather(Channel::kStep, std::span(&own, 1), all);
}

void CheckRefused(const Status& status, absl::StatusCode code, const std::string& text) {
  CAPTURE(status.ToString());
  CHECK(status.code() == code);
  CHECK_THAT(std::string(status.message()), Catch::Contains(text));
}

TEST_CASE("Messages of a wrong run, rank, channel or number are refused and do no harm") {
  Pair pair;
  BareRank bare(pair.server.address());
  using enum absl::StatusCode;
  CheckRefused(bare.Send(kRun + 1, 0, 0), kAborted, "takes part in another run");
  CheckRefused(bare.AwaitEnd(kRun + 1), kAborted, "takes part in another run");
  CheckRefused(bare.Send(kRun, 5, 0), kInvalidArgument, "channel 5 is out of range; use 0 to 4");
  CheckRefused(bare.Send(kRun, 0, 2), kInvalidArgument,
               "message 2 on channel 0 is out of range; message 0 is expected next");
  CheckRefused(bare.Send(kRun, 0, UINT64_MAX), kInvalidArgument, "is out of range");
  rpc::Hello loader = HelloOfRank(1);
  loader.role = "loader";
  for (const rpc::Hello& hello : {HelloOfRank(2), HelloOfRank(0), loader}) {
    BareRank stranger(pair.server.address(), hello);
    CheckRefused(stranger.Send(kRun, 0, 0), kInvalidArgument, "is not another rank of rank 0 of 2");
    CheckRefused(stranger.AwaitEnd(kRun), kInvalidArgument, "is not another rank of rank 0 of 2");
  }
  REQUIRE(pair.Join(bare) == absl::OkStatus());
  CHECK(bare.Send(kRun, 0, 0) == absl::OkStatus());  // A repetition.
  CHECK(bare.Send(kRun, 0, 1) == absl::OkStatus());
  CHECK(GatherByte(**pair.joined) == absl::OkStatus());
}

TEST_CASE("Messages can arrive in any order, and before the call that needs them") {
  Pair pair;
  BareRank bare(pair.server.address());
  REQUIRE(pair.Join(bare) == absl::OkStatus());
  CHECK(bare.Send(kRun, 0, 2) == absl::OkStatus());
  CHECK(bare.Send(kRun, 0, 1) == absl::OkStatus());
  for (int call = 0; call < 2; ++call) CHECK(GatherByte(**pair.joined) == absl::OkStatus());
}

TEST_CASE("A message of another length ends the run and names the rank") {
  const bool early = GENERATE(false, true);
  Pair pair;
  BareRank bare(pair.server.address());
  REQUIRE(pair.Join(bare) == absl::OkStatus());
  std::future<Status> gathering;
  if (early) REQUIRE(bare.Send(kRun, 0, 1, 3) == absl::OkStatus());
  gathering = std::async(std::launch::async, [&] { return GatherByte(**pair.joined); });
  if (!early) REQUIRE(bare.Send(kRun, 0, 1, 3) == absl::OkStatus());
  CheckRefused(gathering.get(), absl::StatusCode::kInvalidArgument,
               "rank 1 of 2 (nn_worker.instances.1) sent 3 bytes, expected 1");
}

// Two ranks that have joined.
struct JoinedPair {
  explicit JoinedPair(const rpc::ServerOptions& options = {},
                      const rpc::ClientOptions& client_options = {})
      : servers{std::make_unique<RankServer>(RankMesh::Options{.rank = 0, .ranks = 2},
                                             "127.0.0.1:0", options),
                std::make_unique<RankServer>(RankMesh::Options{.rank = 1, .ranks = 2},
                                             "127.0.0.1:0", options)} {
    const std::vector<std::string> addresses{servers[0]->address(), servers[1]->address()};
    std::thread joining([&] { ranks[1] = servers[1]->Join(addresses, client_options); });
    ranks[0] = servers[0]->Join(addresses, client_options);
    joining.join();
  }

  std::array<std::unique_ptr<RankServer>, 2> servers;
  std::array<StatusOr<std::unique_ptr<Collective>>, 2> ranks;
};

TEST_CASE("A rank without the token is refused and does not disturb the run") {
  const auto token =
      std::make_shared<const rpc::Token>("a secret of more than 32 bytes for a test");
  JoinedPair pair({.token = token}, {.token = token});
  REQUIRE(pair.ranks[0].status() == absl::OkStatus());
  REQUIRE(pair.ranks[1].status() == absl::OkStatus());
  BareRank stranger(pair.servers[0]->address());
  CheckRefused(stranger.Send(kRun, 0, 1), absl::StatusCode::kUnauthenticated, "token");
  CheckRefused(stranger.AwaitEnd(kRun), absl::StatusCode::kUnauthenticated, "token");
  auto gathering = std::async(std::launch::async, [&] { return GatherByte(**pair.ranks[1]); });
  CHECK(GatherByte(**pair.ranks[0]) == absl::OkStatus());
  CHECK(gathering.get() == absl::OkStatus());
}

TEST_CASE("A rank that is silent during setup is named after the timeout") {
  Pair pair(1'000ms);
  pair.joining.join();
  CheckRefused(pair.joined.status(), absl::StatusCode::kDeadlineExceeded,
               "rank 1 of 2 (nn_worker.instances.1) sent nothing for 1000 ms");
}

TEST_CASE("A rank that cannot be reached during setup is named with its address") {
  RankServer server({.rank = 0, .ranks = 2, .timeout = 1'000ms}, "127.0.0.1:0");
  CheckRefused(server.Join({server.address(), "127.0.0.1:1"}).status(),
               absl::StatusCode::kUnavailable,
               "rank 1 of 2 (nn_worker.instances.1) disconnected: cannot reach 127.0.0.1:1");
}

TEST_CASE("A lost connection ends the run and names the rank") {
  JoinedPair pair;
  REQUIRE(pair.ranks[0].status() == absl::OkStatus());
  auto gathering = std::async(std::launch::async, [&] { return GatherByte(**pair.ranks[0]); });
  pair.servers[1]->Cut();
  CheckRefused(gathering.get(), absl::StatusCode::kUnavailable,
               "rank 1 of 2 (nn_worker.instances.1) disconnected: connection to");
}

TEST_CASE("A wait for a loss ends with the lost rank, or in time without one") {
  JoinedPair pair;
  REQUIRE(pair.ranks[0].status() == absl::OkStatus());
  CHECK((*pair.ranks[0])->AwaitLoss(1ms) == absl::OkStatus());
  pair.servers[1]->Cut();
  CheckRefused((*pair.ranks[0])->AwaitLoss(10'000ms), absl::StatusCode::kUnavailable,
               "rank 1 of 2 (nn_worker.instances.1) disconnected: connection to");
}

}  // namespace
}  // namespace simurgh::testing
