#include "services/embedding_worker/embedding_worker.h"

#include <limits>
#include <map>
#include <utility>

#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_future.hpp>
#include <catch2/catch.hpp>

#include "services/runtime/io_thread.h"
#include "simurgh/base/random.h"
#include "simurgh/data/batch_builder.h"

namespace simurgh {
namespace {

using RowKey = std::pair<uint32_t, uint64_t>;  // Table, id.

// A server that answers every row with values made from its key, and remembers what is pushed.
class RecordingServer : public RowServer {
 public:
  explicit RecordingServer(std::map<RowKey, std::vector<float>>& pushed) : pushed_(pushed) {}

  static float Weight(RowKey key, size_t element) {
    return static_cast<float>(static_cast<double>(key.second % 100) + 1000.0 * key.first +
                              0.01 * static_cast<double>(element));
  }

  rpc::awaitable<StatusOr<PullReport>> Pull(PullRowsCall call, rpc::CallOptions) override {
    if (!status.ok()) co_return status;
    ForEachRow(call.groups, call.ids, [&](RowKey key, size_t offset, size_t dim) {
      for (size_t d = 0; d < dim; ++d) call.rows[offset + d] = Weight(key, d);
    });
    co_return PullReport{};
  }

  rpc::awaitable<StatusOr<PushReport>> Push(PushRowsCall call, rpc::CallOptions) override {
    if (!status.ok()) co_return status;
    for (size_t g = 0; g < call.groups.size(); ++g) {
      CHECK(call.learning_rates[g] == (call.groups[g].table == 0 ? 0.5F : 0.25F));
    }
    ForEachRow(call.groups, call.ids, [&](RowKey key, size_t offset, size_t dim) {
      const auto gradient = call.gradients.subspan(offset, dim);
      const bool is_new =
          pushed_.emplace(key, std::vector(gradient.begin(), gradient.end())).second;
      CHECK(is_new);  // One gradient a row.
    });
    co_return PushReport{};
  }

  Status status;

 private:
  template <typename Visitor>
  static void ForEachRow(std::span<const RowGroup> groups, std::span<const uint64_t> ids,
                         const Visitor& visit) {
    size_t id = 0;
    size_t offset = 0;
    for (const RowGroup& group : groups) {
      for (const uint32_t count : group.counts) {
        for (uint32_t i = 0; i < count; ++i, offset += group.dim) {
          visit(RowKey{group.table, ids[id++]}, offset, group.dim);
        }
      }
    }
  }

  std::map<RowKey, std::vector<float>>& pushed_;
};

// Two tables; features 0 and 2 share the first.
ClusterConfig SmallCluster() {
  ClusterConfig config;
  config.embedding_ps = {.instances = {{}, {}}, .partitions = 2};
  config.embedding_worker.forward_buffer_batches = 4;
  config.tables = {{.name = "shared", .dim = 4}, {.name = "own", .dim = 3}};
  config.features = {{.name = "a", .table_index = 0},
                     {.name = "b", .table_index = 1},
                     {.name = "c", .table_index = 0}};
  return config;
}

constexpr size_t kWidth = 11;
constexpr size_t kSamples = 20;

class WorkerFixture {
 public:
  WorkerFixture() {
    BatchBuilder builder(3, 0);
    Random random(42);
    for (size_t s = 0; s < kSamples; ++s) {
      for (size_t f = 0; f < 3; ++f) {
        for (uint64_t ids = random.Below(3); ids > 0; --ids) builder.AddId(f, random.Below(9));
      }
      builder.EndSample();
    }
    batch = builder.Build()->sparse;
    std::vector<std::unique_ptr<RowServer>> servers;
    for (int i = 0; i < 2; ++i) {
      auto server = std::make_unique<RecordingServer>(pushed);
      recorders.push_back(server.get());
      servers.push_back(std::move(server));
    }
    worker = std::make_unique<EmbeddingWorker>(config, /*epoch=*/7, compute.get_executor(),
                                               std::move(servers), metrics);
  }

  ~WorkerFixture() { compute.join(); }  // Before `io`, to which it answers.

  template <typename Result>
  Result Run(rpc::awaitable<Result> task) {
    return rpc::asio::co_spawn(io.executor(), std::move(task), rpc::asio::use_future).get();
  }
  BatchReference Submit() {
    const auto reference = Run(worker->Submit(batch));
    REQUIRE(reference.ok());
    return *reference;
  }
  Status Pull(BatchReference reference, PullPurpose purpose = PullPurpose::kTrain) {
    return Run(worker->Pull(reference, purpose, {}, 0, {out.data(), kSamples, kWidth}, nullptr,
                            rpc::Clock::time_point::max()));
  }
  Status Push(BatchReference reference, const std::vector<float>& gradients) {
    return Run(worker->Push(reference, {}, rates, {gradients.data(), kSamples, kWidth}, nullptr,
                            rpc::Clock::time_point::max()));
  }

  const ClusterConfig config = SmallCluster();
  MetricRegistry registry;
  WorkerMetrics metrics{registry, config};
  std::map<RowKey, std::vector<float>> pushed;
  std::vector<float> rates = {0.5F, 0.25F};
  std::vector<RecordingServer*> recorders;
  std::shared_ptr<const CompactBatch> batch;
  std::vector<float> out = std::vector<float>(kSamples * kWidth);
  rpc::asio::thread_pool compute{1};
  std::unique_ptr<EmbeddingWorker> worker;
  IoThread io{"test"};
};

struct Column {
  uint32_t table;
  size_t first;
  size_t dim;
};
constexpr Column kColumns[] = {{0, 0, 4}, {1, 4, 3}, {0, 7, 4}};

TEST_CASE("A pull pools every feature's rows from all servers into one matrix") {
  WorkerFixture fixture;
  REQUIRE(fixture.Pull(fixture.Submit()).ok());
  for (size_t f = 0; f < 3; ++f) {
    const FeatureView feature = fixture.batch->feature(f);
    const auto [table, first, dim] = kColumns[f];
    for (size_t s = 0; s < kSamples; ++s) {
      for (size_t d = 0; d < dim; ++d) {
        double expected = 0;
        for (const uint32_t o : feature.sample(s)) {
          expected += RecordingServer::Weight({table, feature.ids[o]}, d);
        }
        CHECK(fixture.out[s * kWidth + first + d] == Approx(expected));
      }
    }
  }
}

TEST_CASE("A push sums gradients per distinct row, over the features of a table") {
  WorkerFixture fixture;
  std::vector<float> gradients(kSamples * kWidth);
  Random random(1);
  for (float& g : gradients) g = static_cast<float>(random.Normal());
  REQUIRE(fixture.Push(fixture.Submit(), gradients).ok());

  std::map<RowKey, std::vector<double>> expected;
  for (size_t f = 0; f < 3; ++f) {
    const FeatureView feature = fixture.batch->feature(f);
    const auto [table, first, dim] = kColumns[f];
    for (size_t s = 0; s < kSamples; ++s) {
      for (const uint32_t o : feature.sample(s)) {
        auto& sum = expected.try_emplace({table, feature.ids[o]}, dim).first->second;
        for (size_t d = 0; d < dim; ++d) sum[d] += gradients[s * kWidth + first + d];
      }
    }
  }
  REQUIRE(fixture.pushed.size() == expected.size());
  for (const auto& [key, sum] : expected) {
    for (size_t d = 0; d < sum.size(); ++d) {
      CHECK(fixture.pushed.at(key)[d] == Approx(sum[d]).margin(1e-5));
    }
  }
}

TEST_CASE("A feature with a NaN gradient is left out and counted; the others go on") {
  WorkerFixture fixture;
  std::vector<float> gradients(kSamples * kWidth, 1.0F);
  gradients[3 * kWidth + 5] = std::numeric_limits<float>::quiet_NaN();  // Feature b.
  REQUIRE(fixture.Push(fixture.Submit(), gradients).ok());
  CHECK(fixture.metrics.non_finite_gradients[0]->value() == 0);
  CHECK(fixture.metrics.non_finite_gradients[1]->value() == 1);
  for (const auto& [key, gradient] : fixture.pushed) {
    for (const float g : gradient) CHECK((key.first == 1 ? g == 0.0F : g >= 1.0F));
  }
}

TEST_CASE("A push consumes its batch, an evaluation pull too, a training pull does not") {
  WorkerFixture fixture;
  const std::vector<float> gradients(kSamples * kWidth);
  const BatchReference reference = fixture.Submit();
  REQUIRE(fixture.Pull(reference).ok());
  REQUIRE(fixture.Pull(reference).ok());
  REQUIRE(fixture.Push(reference, gradients).ok());
  CHECK(absl::IsNotFound(fixture.Push(reference, gradients)));
  const BatchReference other = fixture.Submit();
  REQUIRE(fixture.Pull(other, PullPurpose::kEvaluate).ok());
  CHECK(absl::IsNotFound(fixture.Pull(other)));
}

TEST_CASE("A reference of an earlier life is not found") {
  WorkerFixture fixture;
  BatchReference reference = fixture.Submit();
  reference.worker_epoch = 6;
  CHECK(absl::IsNotFound(fixture.Pull(reference)));
}

TEST_CASE("A lost server leaves the batch where it is and says ABORTED") {
  WorkerFixture fixture;
  const BatchReference reference = fixture.Submit();
  fixture.recorders[1]->status = absl::UnavailableError("embedding-ps 1: gone");
  const Status lost = fixture.Pull(reference);
  CHECK(absl::IsAborted(lost));
  CHECK_THAT(std::string(lost.message()), Catch::Contains("embedding-ps 1"));
  fixture.recorders[1]->status = absl::OkStatus();
  CHECK(fixture.Pull(reference).ok());
}

TEST_CASE("A batch of other features is refused") {
  WorkerFixture fixture;
  BatchBuilder builder(2, 0);
  builder.EndSample();
  const auto refused = fixture.Run(fixture.worker->Submit(builder.Build()->sparse));
  CHECK(absl::IsInvalidArgument(refused.status()));
}

}  // namespace
}  // namespace simurgh
