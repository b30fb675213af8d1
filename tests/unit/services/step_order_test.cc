// Pushes at a server, and the pulls that must see them.

#include <chrono>
#include <future>
#include <numeric>
#include <vector>

#include <boost/asio/use_future.hpp>
#include <catch2/catch.hpp>

#include "services/embedding_ps/parameter_server.h"
#include "services/runtime/io_thread.h"
#include "tests/unit/services/one_table.h"

namespace simurgh {
namespace {

constexpr uint32_t kDim = 4;
constexpr size_t kManyIds = 64 * ParameterServer::kIdsPerTurn;

class Server {
  template <typename Call>
  auto Start(Call call) {
    return rpc::asio::co_spawn(io_.executor(), std::move(call), rpc::asio::use_future);
  }
  static rpc::CallOptions Patient() { return {rpc::Clock::now() + std::chrono::minutes(1)}; }

 public:
  StatusOr<PullReport> Pull(LookupMode mode, std::span<const uint64_t> ids, std::span<float> rows) {
    return StartPull({.run = 1}, {}, ids, rows, Patient(), mode).get();
  }

  std::future<StatusOr<PullReport>> StartPull(const StepId& step_id, const NeededPushes& needed,
                                              std::span<const uint64_t> ids, std::span<float> rows,
                                              rpc::CallOptions options = Patient(),
                                              LookupMode mode = LookupMode::kTrain) {
    return Start([=, this]() -> rpc::awaitable<StatusOr<PullReport>> {
      const std::vector<RowGroup> groups = GroupsOf(ids);
      PullRowsCall call{.mode = mode,
                        .step_id = step_id,
                        .needed = needed,
                        .groups = groups,
                        .ids = ids,
                        .rows = std::as_writable_bytes(rows),
                        .client = 2};
      co_return co_await server_->Pull(std::move(call), options);
    });
  }

  void CloseBarriers() {
    Start([this]() -> rpc::awaitable<void> {
      server_->CloseBarriers();
      co_return;
    }).get();
  }

  std::future<StatusOr<PushReport>> StartPush(const StepId& step_id, std::span<const uint64_t> ids,
                                              std::span<const float> gradients) {
    return Start([=, this]() -> rpc::awaitable<StatusOr<PushReport>> {
      const std::vector<RowGroup> groups = GroupsOf(ids);
      PushRowsCall call{.step_id = step_id,
                        .groups = groups,
                        .learning_rates = kRates,
                        .ids = ids,
                        .gradients = std::as_bytes(gradients),
                        .client = 2};
      co_return co_await server_->Push(std::move(call), Patient());
    });
  }

 private:
  static constexpr float kRates[] = {0.5F};

  static std::vector<RowGroup> GroupsOf(std::span<const uint64_t> ids) {
    return {{0, kDim, {static_cast<uint32_t>(ids.size())}}};
  }

  const ClusterConfig config_ = OneTable(kDim, 2 * kManyIds);
  MetricRegistry registry_;
  ServerMetrics metrics_{registry_, config_};
  std::unique_ptr<ParameterServer> server_ = ParameterServer::Create(config_, metrics_).value();
  IoThread io_{"test-server"};
};

// After the answer a rank pulls. In reproducible runs this pull must see the gradients of all
// ranks, even those that are applied after its own.
TEST_CASE("A push is acknowledged once the step's pushes of all ranks are applied") {
  const PushOrder order = GENERATE(PushOrder::kByRank, PushOrder::kSum);
  std::vector<uint64_t> ids(kManyIds);
  std::iota(ids.begin(), ids.end(), uint64_t{1});
  Server server;
  std::vector<float> rows(kManyIds * kDim);
  REQUIRE(server.Pull(LookupMode::kTrain, ids, rows).ok());

  const std::vector<float> gradients(kManyIds * kDim, 1.0F);
  const std::span<const uint64_t> first(ids.data(), 1);
  const std::span<const uint64_t> last(&ids.back(), 1);
  auto many = server.StartPush({.run = 1, .rank = 1, .step = 0, .ranks = 2, .order = order}, ids,
                               gradients);
  auto few = server.StartPush({.run = 1, .rank = 0, .step = 0, .ranks = 2, .order = order}, first,
                              std::span(gradients).first(kDim));
  REQUIRE(few.get().ok());
  std::vector<float> seen(kDim);
  REQUIRE(server.Pull(LookupMode::kEvaluate, last, seen).ok());
  REQUIRE(many.get().ok());

  for (size_t d = 0; d < kDim; ++d) CHECK(seen[d] == rows[(kManyIds - 1) * kDim + d] - 0.5F);
}

TEST_CASE("A pull that awaits a push is answered with the rows after it") {
  const uint32_t ranks = GENERATE(1U, 2U);
  const auto step_id = [ranks](uint32_t rank, uint64_t step) -> StepId {
    return {.run = 1, .rank = rank, .step = step, .ranks = ranks, .order = PushOrder::kSum};
  };
  const std::vector<uint64_t> ids = {1, 2, 3};
  const std::vector<uint64_t> next_ids = {4, 3, 5};
  Server server;
  std::vector<float> rows(3 * kDim);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    REQUIRE(server.StartPull(step_id(rank, 0), {}, ids, rows).get().ok());
  }
  std::vector<float> next_rows(3 * kDim);
  auto next = server.StartPull(step_id(0, 1), {0, 1}, next_ids, next_rows);
  const std::vector<float> gradients(3 * kDim, 1.0F);
  // The pull is first in the queue of this client.
  std::vector<std::future<StatusOr<PushReport>>> pushes;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    pushes.push_back(server.StartPush(step_id(rank, 0), ids, gradients));
  }
  for (auto& push : pushes) REQUIRE(push.get().ok());
  REQUIRE(next.get().ok());
  // Id 3: one update with the sum of the ranks' gradients, at rate 0.5.
  for (size_t d = 0; d < kDim; ++d) {
    CHECK(next_rows[kDim + d] == rows[2 * kDim + d] - 0.5F * static_cast<float>(ranks));
  }
  std::vector<float> seen(3 * kDim);
  REQUIRE(server.Pull(LookupMode::kEvaluate, next_ids, seen).ok());
  CHECK(seen == next_rows);
}

TEST_CASE("A pull that awaits a push ends at its deadline, and when the server stops") {
  const std::vector<uint64_t> ids = {1, 2, 3};
  const std::vector<uint64_t> others = {7};
  Server server;
  std::vector<float> rows(3 * kDim);
  REQUIRE(server.StartPull({.run = 1}, {}, ids, rows).get().ok());
  const StepId second{.run = 1, .step = 1};
  CHECK(absl::IsDeadlineExceeded(
      server.StartPull(second, {0, 1}, ids, rows, {rpc::Clock::now()}).get().status()));
  // No push changes this row.
  CHECK(server.StartPull(second, {0, 1}, others, std::span(rows).first(kDim)).get().ok());
  auto waiting = server.StartPull(second, {0, 1}, ids, rows);
  server.CloseBarriers();
  CHECK(absl::IsAborted(waiting.get().status()));
}

}  // namespace
}  // namespace simurgh
