// Rows from an embedding worker's cache.

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <vector>

#include <catch2/catch.hpp>

#include "services/api/row_rpc.h"
#include "tests/unit/services/worker_fixture.h"

namespace simurgh {
namespace {

// A server whose rows show when they were read. Every element is the server's clock, which advances
// with each call. Row 0 of a table is zeros, like a row that admission refuses.
class ClockServer : public RowPort {
 public:
  explicit ClockServer(double& clock) : clock_(clock) {}

  rpc::awaitable<StatusOr<PullReport>> Pull(PullRowsCall call, rpc::CallOptions) override {
    ++clock_;
    size_t id = 0;
    auto* row = reinterpret_cast<float*>(call.rows.data());
    for (const RowGroup& group : call.groups) {
      for (size_t n = PayloadOf(group).ids; n > 0; --n, row += group.dim) {
        ++asked[call.ids[id]];
        const double value = call.ids[id++] == 0 ? 0 : clock_;
        std::fill(row, row + group.dim, static_cast<float>(value));
      }
    }
    CHECK(id == call.ids.size());
    co_return PullReport{};
  }
  rpc::awaitable<StatusOr<PushReport>> Push(PushRowsCall, rpc::CallOptions) override {
    co_return PushReport{};
  }

  std::map<uint64_t, int> asked;  // Id -> times.

 private:
  double& clock_;
};

// One feature and one table of dim 1; a batch is a list of ids, one a sample.
class HotFixture {
 public:
  HotFixture() : config_(Config()) {
    auto only = std::make_unique<ClockServer>(clock);
    server = only.get();
    std::vector<std::unique_ptr<RowPort>> servers;
    servers.push_back(std::move(only));
    worker_ = std::make_unique<EmbeddingWorker>(config_, /*incarnation=*/1, compute_.get_executor(),
                                                std::move(servers), metrics);
  }
  ~HotFixture() { compute_.join(); }

  struct Outcome {
    std::vector<float> values;
    uint32_t age = 0;
  };
  Outcome Pull(const std::vector<uint64_t>& ids, const PullOptions& options) {
    BatchBuilder builder(1, 0);
    for (const uint64_t id : ids) {
      builder.AddId(0, id);
      builder.EndSample();
    }
    const auto never = rpc::Clock::time_point::max();
    const auto reference = Run(worker_->Submit(builder.Build()->sparse, {}, never));
    REQUIRE(reference.ok());
    Outcome outcome{.values = std::vector<float>(ids.size())};
    const auto answer = Run(worker_->Pull(
        *reference, options, {MatrixView(outcome.values.data(), ids.size(), 1), nullptr}, never));
    REQUIRE(answer.ok());
    outcome.age = answer->row_age_steps;
    return outcome;
  }

  double clock = 0;
  ClockServer* server = nullptr;
  MetricRegistry registry;

 private:
  static ClusterConfig Config() {
    ClusterConfig config;
    config.embedding_ps = {.instances = {{}}, .partitions = 2};
    config.embedding_worker.row_cache_bytes = 100'000;
    config.tables = {{.name = "t", .dim = 1}};
    config.features = {{.name = "f", .table_index = 0}};
    return config;
  }
  template <typename Result>
  Result Run(rpc::awaitable<Result> task) {
    return rpc::asio::co_spawn(io_.executor(), std::move(task), rpc::asio::use_future).get();
  }

  const ClusterConfig config_;

 public:
  WorkerMetrics metrics{registry, config_};

 private:
  rpc::asio::thread_pool compute_{1};
  std::unique_ptr<EmbeddingWorker> worker_;
  IoThread io_{"test"};
};

PullOptions TermsOf(uint64_t step, uint32_t age, uint32_t rank = 0, uint64_t run = 1) {
  return {.step_id = {.run = run, .rank = rank, .step = step, .ranks = 2}, .row_age_steps = age};
}

// Completes once all servers have been called; fails if only one is.
class MeetingServer : public RowPort {
 public:
  MeetingServer(int& asked, int all) : asked_(asked), all_(all) {}

  rpc::awaitable<StatusOr<PullReport>> Pull(PullRowsCall, rpc::CallOptions) override {
    SIMURGH_CO_RETURN_IF_ERROR(co_await Meet());
    co_return PullReport{};
  }
  rpc::awaitable<StatusOr<PushReport>> Push(PushRowsCall, rpc::CallOptions) override {
    SIMURGH_CO_RETURN_IF_ERROR(co_await Meet());
    co_return PushReport{};
  }

 private:
  rpc::awaitable<Status> Meet() {
    ++asked_;
    constexpr int kTurns = 1'000;
    for (int turn = 0; turn < kTurns; ++turn) {
      if (asked_ % all_ == 0) co_return absl::OkStatus();
      co_await rpc::asio::post(rpc::asio::use_awaitable);
    }
    co_return absl::DeadlineExceededError("asked alone");
  }

  int& asked_;
  const int all_;
};

TEST_CASE("Pulls and pushes call all servers concurrently") {
  constexpr int kServers = 3;
  ClusterConfig config;
  config.embedding_ps = {.instances = std::vector<InstanceConfig>(kServers), .partitions = 1};
  config.tables = {{.name = "t", .dim = 1}};
  config.features = {{.name = "f", .table_index = 0}};
  MetricRegistry registry;
  WorkerMetrics metrics(registry, config);
  int asked = 0;
  std::vector<std::unique_ptr<RowPort>> servers;
  for (int i = 0; i < kServers; ++i) {
    servers.push_back(std::make_unique<MeetingServer>(asked, kServers));
  }
  rpc::asio::thread_pool compute(1);
  IoThread io("test");
  EmbeddingWorker worker(config, /*incarnation=*/1, compute.get_executor(), std::move(servers),
                         metrics);
  const auto run = [&](auto task) {
    return rpc::asio::co_spawn(io.executor(), std::move(task), rpc::asio::use_future).get();
  };
  BatchBuilder builder(1, 0);
  builder.AddId(0, 1);
  builder.EndSample();
  const auto never = rpc::Clock::time_point::max();
  const auto reference = run(worker.Submit(builder.Build()->sparse, {}, never));
  REQUIRE(reference.ok());
  std::vector<float> values(1);
  CHECK(run(worker.Pull(*reference, {}, {MatrixView(values.data(), 1, 1), nullptr}, never))
            .status() == absl::OkStatus());
  CHECK(run(worker.Push(*reference, {}, {0.1F},
                        {MatrixView<const float>(values.data(), 1, 1), nullptr}, never)) ==
        absl::OkStatus());
  compute.join();
}

TEST_CASE("Cached rows are used while valid, and pulls report their age") {
  HotFixture fixture;
  CHECK(fixture.Pull({1, 2}, TermsOf(0, 2)).values == std::vector<float>{1, 1});
  const auto mixed = fixture.Pull({2, 3, 1}, TermsOf(2, 2));
  CHECK(mixed.values == std::vector<float>{1, 2, 1});
  CHECK(mixed.age == 2);
  const auto renewed = fixture.Pull({3, 1}, TermsOf(3, 2));
  CHECK(renewed.values == std::vector<float>{2, 3});
  CHECK(renewed.age == 1);
  CHECK(fixture.server->asked == std::map<uint64_t, int>{{1, 2}, {2, 1}, {3, 1}});
  CHECK(fixture.metrics.row_cache.hits.value() == 3);
  CHECK(fixture.metrics.row_cache.misses.value() == 4);
  CHECK(fixture.metrics.row_cache.evictions.value() == 0);
  const auto ages = fixture.metrics.row_cache.age_steps.snapshot();
  CHECK(ages.total() == 3);
  CHECK(ages.sum == 2 + 2 + 1);
}

TEST_CASE("Every pull reaches its servers, even if all rows are cached") {
  HotFixture fixture;
  fixture.Pull({1, 2}, TermsOf(0, 2));
  const double before = fixture.clock;
  fixture.Pull({1, 2}, TermsOf(1, 2));
  CHECK(fixture.clock == before + 1);
}

TEST_CASE("Evaluations, pulls of age 0, other ranks and other runs get current rows") {
  HotFixture fixture;
  fixture.Pull({1}, TermsOf(0, 2));
  PullOptions evaluation = TermsOf(1, 2);
  evaluation.mode = LookupMode::kEvaluate;
  CHECK(fixture.Pull({1}, evaluation).values == std::vector<float>{2});
  CHECK(fixture.Pull({1}, TermsOf(1, 0)).values == std::vector<float>{3});
  CHECK(fixture.Pull({1}, TermsOf(1, 2, /*rank=*/1)).values == std::vector<float>{4});
  // Rank 0's cache is unchanged.
  CHECK(fixture.Pull({1}, TermsOf(1, 2)).values == std::vector<float>{1});
  CHECK(fixture.Pull({1}, TermsOf(1, 2, /*rank=*/2)).values == std::vector<float>{6});
  CHECK(fixture.Pull({1}, TermsOf(1, 2, 0, /*run=*/2)).values == std::vector<float>{7});
  CHECK(fixture.Pull({1}, TermsOf(1, 2)).values == std::vector<float>{8});
}

TEST_CASE("A row of zeros is requested every time, since admission counts requests") {
  HotFixture fixture;
  for (uint64_t step = 0; step < 3; ++step) {
    CHECK(fixture.Pull({0, 5}, TermsOf(step, 2)).values == std::vector<float>{0, 1});
  }
  CHECK(fixture.server->asked == std::map<uint64_t, int>{{0, 3}, {5, 1}});
}

TEST_CASE("No pull gets a row older than its limit, in any order of pulls") {
  const uint64_t seed = GENERATE(1, 2, 3);
  const uint32_t age = GENERATE(1, 3);
  CAPTURE(seed, age);
  Random random(seed);
  HotFixture fixture;
  std::map<double, uint64_t> step_of_clock;
  uint64_t old_rows = 0;
  for (uint64_t step = 0; step < 100; ++step) {
    std::vector<uint64_t> ids;
    for (int i = 0; i < 20; ++i) ids.push_back(1 + random.Below(40));
    step_of_clock[fixture.clock + 1] = step;
    const auto outcome = fixture.Pull(ids, TermsOf(step, age));
    uint32_t oldest = 0;
    for (const float value : outcome.values) {
      const auto of_row = static_cast<uint32_t>(step - step_of_clock.at(value));
      oldest = std::max(oldest, of_row);
      old_rows += of_row > 0 ? 1 : 0;
    }
    CHECK(oldest <= age);
    CHECK(outcome.age == oldest);
  }
  CHECK(old_rows > 100);
}

}  // namespace
}  // namespace simurgh
