// Dense weights on servers: the store, the client of several stores, and a trainer's exchange, with
// lost requests and responses.

#include "services/embedding_ps/dense_store.h"

#include <algorithm>
#include <future>
#include <numeric>
#include <string>

#include <boost/asio/use_future.hpp>
#include <catch2/catch.hpp>

#include "base/log.h"
#include "base/random.h"
#include "services/api/dense_rpc.h"
#include "train/dense_exchange.h"

namespace simurgh {
namespace {

constexpr size_t kWeights = 23;
constexpr uint64_t kRun = 7;

using Kind = DenseOptimizerConfig::Kind;

std::vector<float> RandomFloats(Random& random, size_t count = kWeights) {
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(2 * random.Uniform() - 1);
  return values;
}

// Suppresses the lines about retries, of which a test makes hundreds.
struct QuietLog {
  QuietLog() { spdlog::set_level(spdlog::level::err); }
  ~QuietLog() { spdlog::set_level(before); }

  const spdlog::level::level_enum before = spdlog::get_level();
};

// Loses requests and responses. The first calls all fail.
class LossyServer : public DenseServer {
 public:
  LossyServer(uint64_t seed, double rate) : random_(seed), rate_(rate) {}

  rpc::awaitable<StatusOr<DenseAnswer>> Start(StartDenseCall call,
                                              rpc::CallOptions options) override {
    SIMURGH_CO_RETURN_IF_ERROR(Draw());
    StatusOr<DenseAnswer> answer = co_await store_.Start(std::move(call), options);
    SIMURGH_CO_RETURN_IF_ERROR(Draw());
    co_return answer;
  }
  rpc::awaitable<StatusOr<DenseAnswer>> Pull(PullDenseCall call,
                                             rpc::CallOptions options) override {
    SIMURGH_CO_RETURN_IF_ERROR(Draw());
    co_return co_await store_.Pull(std::move(call), options);
  }
  rpc::awaitable<StatusOr<DenseAnswer>> Push(PushDenseCall call,
                                             rpc::CallOptions options) override {
    SIMURGH_CO_RETURN_IF_ERROR(Draw());
    StatusOr<DenseAnswer> answer = co_await store_.Push(std::move(call), options);
    SIMURGH_CO_RETURN_IF_ERROR(Draw());
    co_return answer;
  }

 private:
  Status Draw() {
    if (random_.Uniform() >= rate_) return absl::OkStatus();
    return absl::UnavailableError("drawn");
  }

  Random random_;
  const double rate_;
  MetricRegistry registry_;
  DenseStore store_{registry_};
};

// One store, called from a thread of the test.
class StoreCalls {
 public:
  // The store's thread completes calls on this thread, so it ends first.
  ~StoreCalls() { store_.reset(); }

  StatusOr<DenseAnswer> Start(uint64_t run, std::vector<float> parameters,
                              DenseOptimizerConfig optimizer = {}, std::vector<float> state = {}) {
    return Wait(store_->Start(
        {.run = run, .optimizer = optimizer, .parameters = parameters, .state = state, .owner = {}},
        Deadline()));
  }
  StatusOr<DenseAnswer> Pull(uint64_t run, std::span<float> parameters) {
    return Wait(store_->Pull({.run = run, .values = parameters, .owner = {}}, Deadline()));
  }
  StatusOr<DenseAnswer> Push(uint32_t rank, uint64_t number, uint64_t base, float rate = 1,
                             std::vector<float> gradients = {1.0F}) {
    weights.resize(gradients.size());
    return Wait(store_->Push({.run = kRun,
                              .rank = rank,
                              .number = number,
                              .base_version = base,
                              .learning_rate = rate,
                              .gradients = gradients,
                              .parameters = weights,
                              .owner = {}},
                             Deadline()));
  }
  // Loses all state, like a restarted server.
  void Restart() { store_ = std::make_unique<DenseStore>(registry); }

  std::vector<float> weights;  // After the last push.
  MetricRegistry registry;

 private:
  static rpc::Clock::time_point Deadline() { return rpc::Clock::time_point::max(); }
  StatusOr<DenseAnswer> Wait(rpc::awaitable<StatusOr<DenseAnswer>> call) {
    return rpc::asio::co_spawn(thread_.executor(), std::move(call), rpc::asio::use_future).get();
  }

  std::unique_ptr<DenseStore> store_ = std::make_unique<DenseStore>(registry);
  IoThread thread_{"test"};
};

TEST_CASE("the first weights of a run win, and pushes create versions") {
  StoreCalls store;
  REQUIRE(store.Start(kRun, {10})->version == 0);
  // Rank 0 pushes twice on version 0, then rank 1 on version 0.
  auto answer = store.Push(0, 0, 0);
  REQUIRE(answer.ok());
  CHECK((answer->version == 1 && answer->gap == 0 && !answer->repeated));
  CHECK(store.weights == std::vector<float>{9});
  answer = store.Push(0, 1, 0);
  CHECK((answer->version == 2 && answer->gap == 1));
  CHECK(store.Start(kRun, {10})->version == 2);  // A late rank.
  answer = store.Push(1, 0, 0, 0.5F);
  CHECK((answer->version == 3 && answer->gap == 2));
  CHECK(store.weights == std::vector<float>{7.5F});
  std::vector<float> pulled(1);
  CHECK(store.Pull(kRun, pulled)->version == 3);
  CHECK(pulled == store.weights);
}

TEST_CASE("a push that is not finite is acknowledged without effect, and counted") {
  StoreCalls store;
  REQUIRE(store.Start(kRun, {10, 20}).ok());
  const float bad = GENERATE(NAN, INFINITY, -INFINITY);
  const auto answer = store.Push(0, 0, 0, 1, {1, bad});
  REQUIRE(answer.ok());
  CHECK((answer->version == 1 && !answer->repeated));
  CHECK(store.weights == std::vector<float>{10, 20});
  CHECK(store.Push(0, 0, 0, 1, {1, bad})->repeated);
  REQUIRE(store.Push(0, 1, 1, 1, {1, 2}).ok());
  CHECK(store.weights == std::vector<float>{9, 18});
  CHECK_THAT(store.registry.Serialize(),
             Catch::Contains("\nsimurgh_ps_dense_pushes_not_finite_total 1\n"));
}

TEST_CASE("a repeated push is acknowledged and not applied") {
  StoreCalls store;
  REQUIRE(store.Start(kRun, {10}).ok());
  REQUIRE(store.Push(0, 0, 0).ok());
  REQUIRE(store.Push(1, 0, 0).ok());
  const auto again = store.Push(0, 0, 0);
  REQUIRE(again.ok());
  CHECK((again->repeated && again->gap == 0 && again->version == 2));
  CHECK(store.weights == std::vector<float>{8});
  REQUIRE(store.Push(0, 1, 2).ok());
  CHECK(absl::IsInvalidArgument(store.Push(0, 0, 0).status()));  // Not the last one.
}

TEST_CASE("a server that lost a run's weights answers DATA_LOSS") {
  StoreCalls store;
  std::vector<float> pulled(1);
  REQUIRE(store.Start(kRun, {10}).ok());
  REQUIRE(store.Push(0, 0, 0).ok());
  store.Restart();
  for (const Status& status : {store.Push(0, 1, 1).status(), store.Pull(kRun, pulled).status()}) {
    CHECK(status.code() == absl::StatusCode::kDataLoss);
    CHECK_THAT(std::string(status.message()), Catch::Contains("restart all nn-workers"));
  }
  // A later Start by another rank does not help.
  REQUIRE(store.Start(kRun, {10}).ok());
  CHECK(store.Push(0, 1, 0).status().code() == absl::StatusCode::kDataLoss);
  CHECK(store.Push(1, 0, 1).status().code() == absl::StatusCode::kDataLoss);
  // The store keeps only the last few runs.
  for (uint64_t run = 100; run < 100 + DenseShard::kMaxRuns; ++run) {
    REQUIRE(store.Start(run, {0}).ok());
  }
  CHECK(store.Pull(kRun, pulled).status().code() == absl::StatusCode::kDataLoss);
}

TEST_CASE("an invalid call changes nothing") {
  StoreCalls store;
  REQUIRE(store.Start(kRun, {10}).ok());
  const auto code = [](const StatusOr<DenseAnswer>& answer) { return answer.status().code(); };
  using enum absl::StatusCode;
  CHECK(code(store.Start(kRun, {1, 2})) == kInvalidArgument);
  CHECK(code(store.Start(8, {1}, {.max_gradient_norm = 1})) == kInvalidArgument);
  CHECK(code(store.Start(8, {1}, {}, {1})) == kInvalidArgument);
  CHECK(code(store.Start(8, {1}, {.kind = Kind::kLamb})) == kInvalidArgument);
  CHECK(code(store.Start(8, {1}, {.beta1 = 1})) == kInvalidArgument);
  CHECK(code(store.Push(0, 0, 0, -1)) == kInvalidArgument);
  CHECK(code(store.Push(0, 0, 0, NAN)) == kInvalidArgument);
  CHECK(code(store.Push(0, 0, 0, 1, {1, 2})) == kInvalidArgument);
  CHECK(code(store.Push(kMaxRanks, 0, 0)) == kInvalidArgument);
  std::vector<float> pulled(1);
  CHECK(store.Pull(kRun, pulled)->version == 0);
  CHECK(pulled == std::vector<float>{10});
}

struct Trained {
  std::vector<float> weights;
  std::vector<float> state;
  std::vector<uint64_t> gaps = {};
};

// A rank that pushes gradients that do not depend on the weights: the steps from `begin` to `end`.
StatusOr<Trained> PushAll(DensePort& port, const DenseOptimizerConfig& optimizer,
                          uint32_t staleness, Trained first,
                          const std::vector<std::vector<float>>& gradients, size_t begin,
                          size_t end) {
  DenseExchange exchange(port, {.run = kRun, .optimizer = optimizer, .staleness = staleness});
  SIMURGH_RETURN_IF_ERROR(exchange.Start(first.weights, first.state));
  for (size_t step = begin; step < end; ++step) {
    SIMURGH_RETURN_IF_ERROR(exchange.TakeWeights([&] { return std::span(first.weights); }));
    exchange.Push(step, 0.1F / static_cast<float>(1 + step), gradients[step]);
  }
  SIMURGH_RETURN_IF_ERROR(exchange.Pull(first.weights));
  SIMURGH_ASSIGN_OR_RETURN(first.state, exchange.PullState(first.weights.size()));
  first.gaps = exchange.TakeGaps();
  return first;
}

TEST_CASE(
    "through servers that lose calls every push is applied once, to the bit of the optimizer") {
  const QuietLog quiet;
  const size_t servers = GENERATE(1, 3);
  const uint32_t staleness = GENERATE(1, 4);
  const auto kind = GENERATE(Kind::kSgd, Kind::kAdam, Kind::kAdagrad);
  const double rate = GENERATE(0.0, 0.1);
  CAPTURE(servers, staleness, static_cast<int>(kind), rate);
  DenseOptimizerConfig optimizer{.kind = kind};
  if (kind == Kind::kSgd) optimizer.momentum = 0.9F;
  Random random(3);
  const std::vector<float> first = RandomFloats(random);
  std::vector<std::vector<float>> gradients(40);
  for (auto& one : gradients) one = RandomFloats(random);
  DenseOptimizer expected(optimizer, first, {});
  for (size_t step = 0; step < gradients.size(); ++step) {
    expected.Step(0.1F / static_cast<float>(1 + step), gradients[step]);
  }

  const auto train = [&](size_t count, const Trained& from, size_t begin, size_t end) {
    IoThread thread("test");
    std::vector<std::unique_ptr<DenseServer>> stores;
    for (size_t i = 0; i < count; ++i) stores.push_back(std::make_unique<LossyServer>(i, rate));
    DenseClient client(thread.executor(), std::move(stores), std::chrono::seconds(10));
    const auto trained = PushAll(client, optimizer, staleness, from, gradients, begin, end);
    CAPTURE(trained.status().ToString());
    REQUIRE(trained.ok());
    REQUIRE(trained->gaps.size() == end - begin);
    CHECK(std::ranges::max(trained->gaps) < staleness);
    thread.Stop();
    return *trained;
  };
  const Trained whole = train(servers, {first, {}}, 0, gradients.size());
  CHECK(std::ranges::equal(whole.weights, expected.parameters()));
  CHECK(std::ranges::equal(whole.state, expected.state()));
  // Another number of servers continues with weights and state.
  const Trained half = train(servers, {first, {}}, 0, gradients.size() / 2);
  const Trained continued = train(4 - servers, half, gradients.size() / 2, gradients.size());
  CHECK(continued.weights == whole.weights);
  CHECK(continued.state == whole.state);
}

TEST_CASE("weights are taken only when newer ones came") {
  IoThread thread("test");
  std::vector<std::unique_ptr<DenseServer>> stores;
  MetricRegistry registry;
  stores.push_back(std::make_unique<DenseStore>(registry));
  DenseClient client(thread.executor(), std::move(stores), std::chrono::seconds(10));
  DenseExchange exchange(client, {.run = kRun});
  std::vector<float> weights(kWeights);
  size_t taken = 0;
  const auto take = [&] {
    REQUIRE(exchange.TakeWeights([&] { return ++taken, std::span(weights); }).ok());
    return taken;
  };
  REQUIRE(exchange.Start(weights, {}).ok());
  CHECK(take() == 0);
  const std::vector<float> gradients(kWeights, 1.0F);
  for (uint64_t step = 0; step < 3; ++step) {
    exchange.Push(step, 0.1F, gradients);
    REQUIRE(exchange.WaitForPushes().ok());
    CHECK(take() == step + 1);
    CHECK(take() == step + 1);
  }
  thread.Stop();
}

TEST_CASE("exhausted retries, lost weights and a stop end the exchange") {
  const QuietLog quiet;
  IoThread thread("test");
  std::vector<std::unique_ptr<DenseServer>> stores;
  stores.push_back(std::make_unique<LossyServer>(1, 1.0));
  DenseClient client(thread.executor(), std::move(stores), std::chrono::seconds(10));
  std::vector<float> weights(kWeights);
  {
    DenseExchange exchange(client, {.run = kRun, .retry_deadline = std::chrono::milliseconds(50)});
    const Status status = exchange.Start(weights, {});
    CHECK(absl::IsUnavailable(status));
    CHECK_THAT(std::string(status.message()), Catch::Contains("start of dense weights") &&
                                                  Catch::Contains("training.retry_deadline"));
  }
  thread.Stop();

  IoThread second("test");
  std::vector<std::unique_ptr<DenseServer>> empty;
  MetricRegistry registry;
  empty.push_back(std::make_unique<DenseStore>(registry));
  DenseClient forgetful(second.executor(), std::move(empty), std::chrono::seconds(10));
  {
    DenseExchange exchange(forgetful, {.run = kRun});
    CHECK(exchange.Pull(weights).code() == absl::StatusCode::kDataLoss);
  }
  {
    DenseExchange exchange(forgetful, {.run = kRun});
    exchange.Stop();
    CHECK(absl::IsCancelled(exchange.Start(weights, {})));
  }
  second.Stop();
}

}  // namespace
}  // namespace simurgh
