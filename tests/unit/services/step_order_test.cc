// Pushes of several ranks at a server, and later pulls.

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
    auto report = Start([=, this]() -> rpc::awaitable<StatusOr<PullReport>> {
      const std::vector<RowGroup> groups = GroupsOf(ids);
      PullRowsCall call{.mode = mode,
                        .step_id = {.run = 1},
                        .groups = groups,
                        .ids = ids,
                        .rows = std::as_writable_bytes(rows),
                        .client = 1};
      co_return co_await server_->Pull(std::move(call), Patient());
    });
    return report.get();
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

}  // namespace
}  // namespace simurgh
