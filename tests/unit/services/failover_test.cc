// Batches whose worker dies before the pull, or between pull and push.

#include <array>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "tests/support/temporary_folder.h"
#include "tests/support/waiting.h"
#include "tests/unit/services/worker_connection.h"
#include "tests/unit/services/worker_fixture.h"
#include "train/batch_pipeline.h"

namespace simurgh {
namespace {

ClusterConfig MaxCluster(VectorPrecision precision) {
  ClusterConfig config = SmallCluster();
  config.features[0].pooling = Pooling::kMax;
  config.features[1].pooling = Pooling::kMax;
  config.tables[0].optimizer.learning_rate = 0.5F;
  config.tables[1].optimizer.learning_rate = 0.25F;
  config.training.embedding_precision = precision;
  config.training.gradient_precision = precision;
  return config;
}

// Two workers of the same servers, both listening, and a trainer's client of them.
class TwoWorkers : public WorkerFixture {
 public:
  explicit TwoWorkers(ClusterConfig cluster) : WorkerFixture(std::move(cluster)) {
    std::vector<std::unique_ptr<RowPort>> servers;
    for (int i = 0; i < 2; ++i) {
      auto server = std::make_unique<RecordingServer>(pushed);
      recorders.push_back(server.get());
      servers.push_back(std::move(server));
    }
    second_ = std::make_unique<EmbeddingWorker>(config, /*epoch=*/8, compute.get_executor(),
                                                std::move(servers), metrics);
    std::array<Status, 2> listening;
    io.RunAndWait([&] {
      std::vector<std::unique_ptr<PeerClients>> workers;
      for (const size_t w : {0, 1}) {
        listening[w] = Listen(w);
        workers.push_back(std::make_unique<PeerClients>(
            io.executor(), AddressOf(w), HelloOf("nn-worker"),
            rpc::ClientOptions{.backoff_min = kBackoff, .backoff_max = kBackoff}, nullptr));
      }
      client_ = std::make_unique<BatchClient>(io.executor(), std::move(workers), config, rates_);
    });
    for (const Status& status : listening) REQUIRE(status == absl::OkStatus());
  }
  ~TwoWorkers() {
    io.RunAndWait([&] {
      client_.reset();
      for (auto& listener : listeners_) listener.reset();
    });
  }

  BatchClient& client() { return *client_; }
  // The worker of the first batch.
  void Kill() {
    io.RunAndWait([&] { listeners_[0].reset(); });
  }
  // On the thread of `io`: there it is again, with its batches.
  Status Revive() { return Listen(0); }

 private:
  // A client is there soon after its worker.
  static constexpr std::chrono::milliseconds kBackoff{1};

  std::string AddressOf(size_t w) const {
    return absl::StrCat("unix://", folder_.Path(absl::StrCat("worker-", w)));
  }
  Status Listen(size_t w) {
    listeners_[w] = std::make_unique<rpc::Server>(io.executor(), HelloOf("embedding-worker"),
                                                  rpc::ServerOptions(), nullptr);
    RegisterBatchMethods(*listeners_[w], w == 0 ? *worker : *second_);
    return listeners_[w]->Listen(AddressOf(w));
  }

  const TemporaryFolder folder_;
  const LearningRates rates_{config.tables};
  std::unique_ptr<EmbeddingWorker> second_;
  std::array<std::unique_ptr<rpc::Server>, 2> listeners_;
  std::unique_ptr<BatchClient> client_;
};

// Expected gradients by row. Gradients of sample s are s + 1.
std::map<RowKey, std::vector<float>> ExpectedGradients(const CompactBatch& batch) {
  constexpr uint32_t kTables[] = {0, 1, 0};
  constexpr size_t kDims[] = {4, 3, 4};
  std::map<RowKey, std::vector<float>> expected;
  for (size_t f = 0; f < 3; ++f) {
    const FeatureView feature = batch.feature(f);
    for (size_t s = 0; s < kSamples; ++s) {
      uint64_t largest = 0;
      for (const uint32_t o : feature.sample(s)) largest = std::max(largest, feature.ids[o]);
      bool taken = false;
      for (const uint32_t o : feature.sample(s)) {
        const uint64_t id = feature.ids[o];
        auto& row = expected.try_emplace({kTables[f], id}, kDims[f]).first->second;
        if (f < 2 && (id != largest || std::exchange(taken, true))) continue;
        for (float& element : row) element += static_cast<float>(s + 1);
      }
    }
  }
  return expected;
}

TEST_CASE("A worker that takes a batch over uses the argmax of the trainer's pull") {
  const auto precision = GENERATE(VectorPrecision::kF32, VectorPrecision::kBf16);
  CAPTURE(static_cast<int>(precision));
  TwoWorkers workers(MaxCluster(precision));
  const EmbeddingWire wire = WireOf(workers.config);
  const auto blocks = NewBlockPool(kWidth, wire);
  BatchPipeline pipeline(workers.client(), {.run = 1, .blocks = blocks.get()});
  REQUIRE(pipeline.Feed({.sparse = workers.batch, .dense = {.batch_size = kSamples}}));
  pipeline.EndInput(absl::OkStatus());
  const auto pulled = pipeline.Next();
  REQUIRE(pulled.ok());

  // Now the smallest ids have the largest numbers.
  for (RecordingServer* const server : workers.recorders) server->sign = -1;
  workers.Kill();
  std::vector<float> numbers(kSamples * kWidth);
  const MatrixView<float> gradients(numbers.data(), kSamples, kWidth);
  for (size_t s = 0; s < kSamples; ++s) {
    std::ranges::fill(gradients.row(s), static_cast<float>(s + 1));
  }
  VectorCodec(wire.gradients, wire.dims)
      .Encode(gradients, /*factor=*/1, /*key=*/std::nullopt,
              (*pulled)->block->encoded_gradients.bytes);
  pipeline.Finish();
  REQUIRE(pipeline.WaitForPushes() == absl::OkStatus());
  CHECK(workers.pushed == ExpectedGradients(*workers.batch));
}

constexpr uint64_t kBatches = 3;

std::shared_ptr<const CompactBatch> BatchOf(uint64_t step) {
  BatchBuilder builder(3, 0);
  Random random(step + 50);
  for (size_t s = 0; s < kSamples; ++s) {
    for (size_t f = 0; f < 3; ++f) builder.AddId(f, random.Below(40));
    builder.EndSample();
  }
  return builder.Build()->sparse;
}

// The rows of a batch whose numbers have another sign, and what the servers get of gradients that
// are all 1.
struct Expected {
  explicit Expected(const CompactBatch& batch, float sign) {
    constexpr uint32_t kTables[] = {0, 1, 0};
    constexpr size_t kDims[] = {4, 3, 4};  // By feature; features 0 and 1 have a table each.
    for (const RowKey& row : RowsOf(batch)) {
      for (size_t d = 0; d < kDims[row.first]; ++d) {
        rows.push_back(sign * RecordingServer::Weight(row, d));
      }
    }
    for (size_t s = 0; s < kSamples; ++s) {
      for (size_t f = 0; f < 3; ++f) {
        const FeatureView feature = batch.feature(f);
        const RowKey row{kTables[f], feature.ids[feature.sample(s)[0]]};
        for (float& g : gradients.try_emplace(row, kDims[f]).first->second) ++g;
      }
    }
  }

  std::vector<float> rows;  // For the batch's ids.
  std::map<RowKey, std::vector<float>> gradients;
};

TEST_CASE("Another worker can take over batches in the form of rows") {
  ClusterConfig config = SmallCluster();
  config.tables[0].optimizer.learning_rate = 0.5F;
  config.tables[1].optimizer.learning_rate = 0.25F;
  config.training.embeddings = TrainingConfig::Embeddings::kRows;
  TwoWorkers workers(config);
  const auto blocks = NewBlockPool(kWidth, WireOf(config));
  BatchPipeline pipeline(workers.client(),
                         {.run = 1, .blocks = blocks.get(), .queue_batches = kBatches});
  for (uint64_t step = 0; step < kBatches; ++step) {
    REQUIRE(pipeline.Feed({.sparse = BatchOf(step), .dense = {.batch_size = kSamples}}));
  }
  pipeline.EndInput(absl::OkStatus());
  auto pulled = pipeline.Next();
  REQUIRE(pulled.ok());
  // The first and the third batch will be lost.
  REQUIRE(testing::Eventually(
      [&] { return workers.metrics.plan_seconds.snapshot().total() >= kBatches; }));
  for (RecordingServer* const server : workers.recorders) server->sign = -1;
  workers.Kill();

  for (uint64_t step = 0; step < kBatches; ++step) {
    CAPTURE(step);
    BatchBlock& block = *(*pulled)->block;
    const Expected expected(*BatchOf(step), step == 0 ? 1.0F : -1.0F);
    CHECK(std::ranges::equal(block.encoded_embeddings.bytes,
                             std::as_bytes(std::span(expected.rows))));
    std::ranges::fill(block.gradients.flat(), 1.0F);
    workers.pushed.clear();
    pipeline.Finish();
    REQUIRE(pipeline.WaitForPushes() == absl::OkStatus());
    CHECK(workers.pushed == expected.gradients);
    pulled = pipeline.Next();
    REQUIRE(pulled.ok());
  }
  CHECK(*pulled == nullptr);
}

TEST_CASE("Calls to an unreachable worker fail at once") {
  TwoWorkers workers(SmallCluster());
  BatchClient& client = workers.client();
  const auto lost = Wait<StatusOr<BatchReference>>(
      [&](auto done) { client.Submit(workers.batch, {}, std::move(done)); });
  REQUIRE(lost.ok());
  REQUIRE(lost->worker == 0);
  workers.Kill();
  const MatrixView<float> matrix(workers.out.data(), kSamples, kWidth);
  std::promise<Status> waited;
  std::promise<Status> revived;
  std::promise<Status> pulled;
  std::promise<Status> pushed;
  // The worker is back before the other calls begin; they would reach it if they waited at all.
  client.Pull(*lost, {}, {matrix, nullptr}, [&](const auto& first) {
    waited.set_value(first.status());
    revived.set_value(workers.Revive());
    client.Pull(*lost, {}, {matrix, nullptr},
                [&](const auto& answer) { pulled.set_value(answer.status()); });
    client.Push(*lost, {}, {MatrixView<const float>(matrix), nullptr},
                [&](const Status& status) { pushed.set_value(status); });
  });
  CHECK(absl::IsUnavailable(waited.get_future().get()));
  CHECK(revived.get_future().get() == absl::OkStatus());
  CHECK(absl::IsUnavailable(pulled.get_future().get()));
  CHECK(absl::IsUnavailable(pushed.get_future().get()));
}

}  // namespace
}  // namespace simurgh
