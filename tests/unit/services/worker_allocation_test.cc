// A separate binary, because it counts every allocation in the process.

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_future.hpp>
#include <catch2/catch.hpp>

#include "base/random.h"
#include "data/batch/batch_builder.h"
#include "services/api/batch_rpc.h"
#include "services/embedding_worker/embedding_worker.h"
#include "services/runtime/io_thread.h"
#include "tests/support/allocation_count.h"

namespace simurgh {
namespace {

constexpr size_t kFeatures = 26;
constexpr uint32_t kDim = 16;
constexpr size_t kSamples = 2'000;
constexpr size_t kNumbers = kSamples * kFeatures * kDim;

// Rows of zeros.
class ZeroServer : public RowPort {
 public:
  rpc::awaitable<StatusOr<PullReport>> Pull(PullRowsCall call, rpc::CallOptions) override {
    std::ranges::fill(call.rows, std::byte{0});
    co_return PullReport{};
  }
  rpc::awaitable<StatusOr<PushReport>> Push(PushRowsCall, rpc::CallOptions) override {
    co_return PushReport{};
  }
};

// Feature 0 is pooled by max, the rest is summed.
ClusterConfig Cluster() {
  ClusterConfig config;
  config.embedding_ps = {.instances = {{}, {}}, .partitions = 2};
  for (size_t f = 0; f < kFeatures; ++f) {
    const std::string name = "f" + std::to_string(f);
    config.tables.push_back({.name = name, .dim = kDim});
    config.features.push_back({.name = name, .table_index = static_cast<uint32_t>(f)});
  }
  config.features[0].pooling = Pooling::kMax;
  return config;
}

std::vector<std::unique_ptr<RowPort>> ZeroServers() {
  std::vector<std::unique_ptr<RowPort>> servers;
  for (int i = 0; i < 2; ++i) servers.push_back(std::make_unique<ZeroServer>());
  return servers;
}

std::shared_ptr<const EncodedBatch> RandomBatch(uint64_t seed) {
  BatchBuilder builder(kFeatures, 0);
  Random random(seed);
  for (size_t s = 0; s < kSamples; ++s) {
    for (size_t f = 0; f < kFeatures; ++f) {
      for (uint64_t ids = 1 + random.Below(2); ids > 0; --ids) {
        builder.AddId(f, random.Below(1'000) * random.Below(1'000));
      }
    }
    builder.EndSample();
  }
  return std::make_shared<const EncodedBatch>(*EncodeBatch(*builder.Build()->sparse));
}

class CopyCounter : public rpc::Observer {
 public:
  void OnPayloadCopied(uint64_t bytes) override { copied += bytes; }
  void OnSmallPayloadCopied(uint64_t bytes) override { small_copied += bytes; }

  uint64_t copied = 0, small_copied = 0;
};

// A listening worker and a client, which allocates nothing large itself.
class Chain {
 public:
  Chain(VectorPrecision precision, ClusterConfig config, const std::string& address = "127.0.0.1:0",
        rpc::Observer* observer = nullptr)
      : precision_(precision), config_(std::move(config)) {
    io_.RunAndWait([&] {
      const rpc::Hello hello{.cluster = "test", .role = "any"};
      listener_ =
          std::make_unique<rpc::Server>(io_.executor(), hello, rpc::ServerOptions(), observer);
      RegisterBatchMethods(*listener_, worker_);
      REQUIRE(listener_->Listen(address) == absl::OkStatus());
      client_ = std::make_unique<rpc::Client>(io_.executor(), listener_->address(), hello,
                                              rpc::ClientOptions(), nullptr);
    });
  }
  ~Chain() {
    io_.RunAndWait([&] {
      client_.reset();
      listener_.reset();
    });
    compute_.join();
  }

  // Concurrent forward and backward passes.
  Status Pass(const std::shared_ptr<const EncodedBatch>& batch, size_t times) {
    std::vector<rpc::awaitable<Status>> passes;
    for (size_t i = 0; i < times; ++i) passes.push_back(PassOn(batch));
    return rpc::asio::co_spawn(io_.executor(), rpc::WhenAll(std::move(passes)),
                               rpc::asio::use_future)
        .get();
  }

  // Forward alone.
  Status Evaluate(const std::shared_ptr<const EncodedBatch>& batch) {
    return rpc::asio::co_spawn(io_.executor(), EvaluateOn(batch), rpc::asio::use_future).get();
  }

  // For the last batch.
  size_t argmax_bytes() const { return argmax_bytes_; }

 private:
  rpc::awaitable<Status> PassOn(std::shared_ptr<const EncodedBatch> batch) {
    const auto deadline = rpc::Clock::now() + std::chrono::seconds(60);
    auto submit = api::Encode(SubmitOptions(), std::move(batch));
    const auto submitted =
        co_await rpc::Call(*client_, api::kSubmitBatch, std::move(submit), deadline);
    SIMURGH_CO_RETURN_IF_ERROR(submitted.status());
    const BatchReference reference = api::Decode(submitted->table());
    const auto vectors = std::span(vectors_).first(kSamples * worker_.row_bytes(precision_));
    const PullOptions options{.step_id = {.run = 1, .step = step_++},
                              .row_age_steps = config_.training.row_age_steps};
    auto pull = api::Encode(
        api::PullBatchMessage{.reference = reference, .options = options, .precision = precision_});
    const auto pulled = co_await rpc::Call(
        *client_, api::kPullBatch, std::move(pull),
        {{vectors, nullptr}, rpc::SegmentDestination<std::byte>::kAllocate}, deadline);
    SIMURGH_CO_RETURN_IF_ERROR(pulled.status());
    const PooledArgmax argmax{pulled->segment<"argmax">(), pulled->owner<"argmax">()};
    argmax_bytes_ = argmax.bytes.size();
    const api::PushBatchMessage message{
        .reference = reference, .learning_rates = rates_, .precision = precision_};
    auto push = api::Encode(message, {vectors, nullptr}, argmax);
    const auto pushed = co_await rpc::Call(*client_, api::kPushBatch, std::move(push), deadline);
    co_return pushed.status();
  }

  rpc::awaitable<Status> EvaluateOn(std::shared_ptr<const EncodedBatch> batch) {
    const auto deadline = rpc::Clock::now() + std::chrono::seconds(60);
    auto submit = api::Encode(SubmitOptions(), std::move(batch));
    const auto submitted =
        co_await rpc::Call(*client_, api::kSubmitBatch, std::move(submit), deadline);
    SIMURGH_CO_RETURN_IF_ERROR(submitted.status());
    auto pull = api::Encode(api::PullBatchMessage{.reference = api::Decode(submitted->table()),
                                                  .options = {.mode = LookupMode::kEvaluate},
                                                  .precision = precision_});
    const auto vectors = std::span(vectors_).first(kSamples * worker_.row_bytes(precision_));
    const auto pulled = co_await rpc::Call(
        *client_, api::kPullBatch, std::move(pull),
        {{vectors, nullptr}, rpc::SegmentDestination<std::byte>::kAllocate}, deadline);
    co_return pulled.status();
  }

  const VectorPrecision precision_;
  const ClusterConfig config_;
  uint64_t step_ = 0;
  size_t argmax_bytes_ = 0;
  const std::vector<float> rates_ = std::vector<float>(kFeatures, 0.1F);
  std::vector<std::byte> vectors_ = std::vector<std::byte>(kNumbers * sizeof(float));
  MetricRegistry registry_;
  WorkerMetrics metrics_{registry_, config_};
  rpc::asio::thread_pool compute_{1};
  EmbeddingWorker worker_{config_, /*incarnation=*/1, compute_.get_executor(), ZeroServers(),
                          metrics_};
  std::unique_ptr<rpc::Server> listener_;
  std::unique_ptr<rpc::Client> client_;
  IoThread io_{"test"};
};

TEST_CASE("a worker in steady state allocates nothing in proportion to its batches") {
  const auto precision =
      GENERATE(VectorPrecision::kF32, VectorPrecision::kBf16, VectorPrecision::kInt8);
  const bool plain = GENERATE(true, false);
  CAPTURE(static_cast<int>(precision), plain);
  const auto batch = RandomBatch(1);
  ClusterConfig config = Cluster();
  if (!plain) {
    config.embedding_worker.row_precision = RowPrecision::kF16;
    config.embedding_worker.row_gradient_precision = RowPrecision::kBf16;
    config.embedding_worker.row_cache_bytes = 4 << 20;
    config.training.row_age_steps = 3;
  }
  Chain chain(precision, config);
  // A batch's memory may return to the pool after the next one has started. The warm-up uses more
  // concurrent batches, so that the pool suffices.
  for (int i = 0; i < 5; ++i) REQUIRE(chain.Pass(batch, 4) == absl::OkStatus());
  constexpr int kPasses = 20;
  static_cast<void>(testing::TakeAllocations());
  for (int i = 0; i < kPasses; ++i) REQUIRE(chain.Pass(batch, 1) == absl::OkStatus());
  const testing::Allocations allocated = testing::TakeAllocations();
  const uint64_t bytes = allocated.bytes / kPasses;
  CAPTURE(bytes, allocated.largest);
  // A batch has 3.3 MB of embeddings, 3.3 MB of gradients and 78,000 occurrences.
  CHECK(bytes <= 65'536);
  CHECK(allocated.largest <= 16'384);
}

TEST_CASE("an evaluation computes no argmax") {
  const auto batch = RandomBatch(1);
  const auto bytes_of_first = [&batch](Pooling pooling) {
    ClusterConfig config = Cluster();
    config.features[0].pooling = pooling;
    Chain chain(VectorPrecision::kF32, config);
    static_cast<void>(testing::TakeAllocations());
    REQUIRE(chain.Evaluate(batch) == absl::OkStatus());
    return testing::TakeAllocations().bytes;
  };
  const uint64_t sum = bytes_of_first(Pooling::kSum);
  const uint64_t max = bytes_of_first(Pooling::kMax);
  CAPTURE(sum, max);
  // They would be 4 bytes an element.
  CHECK(max < sum + kSamples * kDim);
}

TEST_CASE("a worker un-pools gradients in place and pools into the response") {
  const bool shared = GENERATE(false, true);
  const auto precision = GENERATE(VectorPrecision::kF32, VectorPrecision::kInt8);
  CAPTURE(shared, static_cast<int>(precision));
  const auto batch = RandomBatch(1);
  const std::string path = "/tmp/simurgh_copies_test_" + std::to_string(::getpid());
  CopyCounter counter;
  uint64_t argmax = 0;
  {
    Chain chain(precision, Cluster(), shared ? "shm://" + path : "127.0.0.1:0", &counter);
    for (int i = 0; i < 3; ++i) REQUIRE(chain.Pass(batch, 1) == absl::OkStatus());
    argmax = chain.argmax_bytes();
  }
  CHECK(argmax > 0);
  CHECK(argmax == kSamples * kDim);  // A byte an element of feature 0.
  // Ids and argmax are copied to the worker's memory, where the client cannot change them.
  const uint64_t ids = batch->plain_ids.size() * sizeof(uint64_t) + batch->codes.size();
  CHECK(counter.copied == (shared ? 3 * (ids + argmax) : 0));
  CHECK(counter.small_copied == 0);
}

}  // namespace
}  // namespace simurgh
