#include "services/embedding_ps/parameter_server.h"

#include <chrono>
#include <future>
#include <limits>
#include <vector>

#include <boost/asio/use_future.hpp>
#include <catch2/catch.hpp>

#include "services/runtime/io_thread.h"
#include "table/memory_budget.h"
#include "tests/support/skip.h"
#include "tests/unit/services/one_table.h"

namespace simurgh {
namespace {

TEST_CASE("a memory budget without space for rows is an error at start-up") {
  const uint64_t bare = ResidentBytes();
  if (bare == 0) SIMURGH_SKIP("/proc does not show the resident memory");
  const auto start = [](uint64_t budget, uint32_t full_every = 1) {
    ClusterConfig config = OneTable(4, /*capacity_rows=*/1 << 24);
    config.embedding_ps.memory_budget = budget;
    config.checkpoint.directory = "/nowhere";
    config.checkpoint.full_every = full_every;
    MetricRegistry registry;
    ServerMetrics metrics(registry, config);
    return ParameterServer::Create(config, metrics).status();
  };
  const Status refused = start(bare);
  CHECK(absl::IsInvalidArgument(refused));
  CHECK_THAT(std::string(refused.message()),
             Catch::Contains("embedding_ps.memory_budget") && Catch::Contains("raise it"));
  CHECK(start(4 * bare + (uint64_t{1} << 30)) == absl::OkStatus());
  CHECK(start(0) == absl::OkStatus());
  // An eighth is kept free, and nearly another one to note changes.
  CHECK(start(bare / 4 * 5) == absl::OkStatus());
  CHECK(absl::IsInvalidArgument(start(bare / 4 * 5, /*full_every=*/2)));
  CHECK(start(4 * bare + (uint64_t{1} << 30), /*full_every=*/2) == absl::OkStatus());
}

TEST_CASE("only a full table with when_full: stop ends the server") {
  ClusterConfig config = OneTable(/*dim=*/4, /*capacity_rows=*/2);
  config.tables[0].when_full = WhenFull::kStop;
  MetricRegistry registry;
  ServerMetrics metrics(registry, config);
  IoThread io("test-server");  // Before the server, whose threads post to it until they end.
  const auto server = ParameterServer::Create(config, metrics).value();
  std::vector<Status> reasons;
  server->SetFatal([&](const Status& reason) { reasons.push_back(reason); });
  const std::vector<uint64_t> ids = {1, 2, 3};
  std::vector<float> rows(ids.size() * 4);
  const auto pull = [&](uint32_t count, uint64_t acknowledged_steps) {
    const auto call = [&]() -> rpc::awaitable<StatusOr<PullReport>> {
      const std::vector<RowGroup> groups = {{0, 4, {count}}};
      co_return co_await server->Pull(
          {.step_id = {.run = 1},
           .needed = {.acknowledged_steps = acknowledged_steps},
           .groups = groups,
           .ids = std::span(ids).first(count),
           .rows = std::as_writable_bytes(std::span(rows).first(count * 4))},
          {rpc::Clock::now() + std::chrono::minutes(1)});
    };
    return rpc::asio::co_spawn(io.executor(), call, rpc::asio::use_future).get().status();
  };
  CHECK(pull(2, 0) == absl::OkStatus());
  CHECK(absl::IsDataLoss(pull(2, 1)));
  CHECK(reasons.empty());
  const Status full = pull(3, 0);
  CHECK(absl::IsFailedPrecondition(full));
  CHECK(pull(3, 0) == full);
  CHECK(reasons == std::vector{full});
}

TEST_CASE("a push that is not finite is counted by server and table, with every push order") {
  const PushOrder order = GENERATE(PushOrder::kUnordered, PushOrder::kByRank, PushOrder::kSum);
  const ClusterConfig config = OneTable(/*dim=*/1, /*capacity_rows=*/10);
  MetricRegistry registry;
  ServerMetrics metrics(registry, config);
  IoThread io("test-server");
  const auto server = ParameterServer::Create(config, metrics).value();
  const std::vector<uint64_t> ids = {1, 2, 3};
  const std::vector<RowGroup> groups = {{0, 1, {3}}};
  const auto call = [&](auto method) {
    return rpc::asio::co_spawn(io.executor(), method, rpc::asio::use_future);
  };
  std::vector<float> rows(ids.size());
  const rpc::CallOptions options{rpc::Clock::now() + std::chrono::minutes(1)};
  REQUIRE(call([&] {
            return server->Pull({.step_id = {.run = 1},
                                 .groups = groups,
                                 .ids = ids,
                                 .rows = std::as_writable_bytes(std::span(rows))},
                                options);
          })
              .get()
              .ok());
  const std::vector<float> rates = {1.0F};
  const std::vector<float> good = {1, 1, 1};
  const std::vector<float> bad = {1, std::numeric_limits<float>::infinity(), 1};
  std::vector<std::future<StatusOr<PushReport>>> pushes;
  for (const uint32_t rank : {0U, 1U}) {
    pushes.push_back(call([&, rank] {
      return server->Push({.step_id = {.run = 1, .rank = rank, .ranks = 2, .order = order},
                           .groups = groups,
                           .learning_rates = rates,
                           .ids = ids,
                           .gradients = std::as_bytes(std::span(rank == 0 ? good : bad))},
                          options);
    }));
  }
  uint64_t dropped = 0;
  for (auto& push : pushes) dropped += push.get().value().gradients_not_finite;
  CHECK(dropped == 1);
  CHECK_THAT(registry.Serialize(), Catch::Contains("simurgh_ps_table_gradients_not_finite_total"
                                                   "{table=\"ids\"} 1\n"));
  CHECK_THAT(registry.Serialize(), Catch::Contains("simurgh_ps_queued_shares 0\n"));
  // A pull and two pushes.
  CHECK_THAT(registry.Serialize(), Catch::Contains("simurgh_ps_wait_seconds_count 3\n"));
}

TEST_CASE("a bad group fails the whole request of the same process before anything changes") {
  ClusterConfig config = OneTable(/*dim=*/4, /*capacity_rows=*/10);
  config.tables.push_back(config.tables[0]);
  config.tables[1].name = "wide";
  config.tables[1].dim = 8;
  MetricRegistry registry;
  ServerMetrics metrics(registry, config);
  IoThread io("test-server");
  const auto server = ParameterServer::Create(config, metrics).value();
  const auto run = [&](auto method) {
    return rpc::asio::co_spawn(io.executor(), method, rpc::asio::use_future).get();
  };
  const rpc::CallOptions options{rpc::Clock::now() + std::chrono::minutes(1)};
  std::vector<uint64_t> ids = {5, 6, 7};
  std::vector<float> floats(64, 1.0F);
  const auto bytes = [&](std::vector<RowGroup> groups) {
    return std::as_writable_bytes(std::span(floats)).first(PayloadOf(groups).bytes);
  };
  const auto pull = [&](std::vector<RowGroup> groups, size_t count, size_t more_bytes = 0) {
    const auto rows = std::as_writable_bytes(std::span(floats));
    return run([&]() -> rpc::awaitable<StatusOr<PullReport>> {
      co_return co_await server->Pull({.step_id = {.run = 1},
                                       .groups = groups,
                                       .ids = std::span(ids).first(count),
                                       .rows = rows.first(bytes(groups).size() + more_bytes)},
                                      options);
    });
  };
  const auto push = [&](std::vector<RowGroup> groups, std::vector<float> rates, StepId step_id,
                        size_t more_bytes = 0) {
    const auto gradients = std::as_bytes(std::span(floats));
    return run([&]() -> rpc::awaitable<StatusOr<PushReport>> {
      co_return co_await server->Push(
          {.step_id = step_id,
           .groups = groups,
           .learning_rates = rates,
           .ids = std::span(ids).first(2),
           .gradients = gradients.first(bytes(groups).size() + more_bytes)},
          options);
    });
  };
  const RowGroup right{0, 4, {1}};
  REQUIRE(pull({{0, 4, {2}}}, 2).ok());
  const std::vector<uint64_t> digests = server->ContentDigests();
  const std::vector<RowGroup> bad_groups = {{2, 4, {1}},
                                            {1, 4, {1}},
                                            {0, 8, {1}},
                                            {0, 4, {1}},
                                            {1, 8, {1, 0}},
                                            {1, 8, {2}},
                                            {1, 8, {1}, static_cast<RowPrecision>(3)}};
  const StepId step_id{.run = 1};
  ids[0] = 77;
  for (const RowGroup& bad : bad_groups) {
    CAPTURE(bad.table, bad.dim, bad.counts);
    CHECK(absl::IsInvalidArgument(pull({right, bad}, 2).status()));
    CHECK(absl::IsInvalidArgument(push({right, bad}, {0.1F, 0.1F}, step_id).status()));
  }
  const std::vector<RowGroup> both = {right, {1, 8, {1}}};
  CHECK(absl::IsInvalidArgument(pull(both, 2, /*more_bytes=*/4).status()));
  CHECK(absl::IsInvalidArgument(push(both, {0.1F, 0.1F}, step_id, /*more_bytes=*/4).status()));
  const float infinite = std::numeric_limits<float>::infinity();
  for (const std::vector<float>& rates :
       {std::vector<float>{0.1F}, {0.1F, -0.1F}, {infinite, 0.1F}}) {
    CHECK(absl::IsInvalidArgument(push(both, rates, step_id).status()));
  }
  for (const StepId& bad : {StepId{.run = 1, .order = static_cast<PushOrder>(3)},
                            StepId{.run = 1, .rank = 2, .ranks = 2, .order = PushOrder::kSum},
                            StepId{.run = 1, .ranks = 257, .order = PushOrder::kByRank}}) {
    CHECK(absl::IsInvalidArgument(push(both, {0.1F, 0.1F}, bad).status()));
  }
  CHECK(server->ContentDigests() == digests);

  // And the push, once it is right, is not taken for a repeat.
  ids[0] = 5;
  const auto report = push({{0, 4, {2}}}, {0.1F}, step_id);
  REQUIRE(report.ok());
  CHECK_FALSE(report->repeated);
  CHECK(report->updated == 2);
}

}  // namespace
}  // namespace simurgh
