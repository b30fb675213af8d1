// Rows and their gradients between embedding worker and servers, each direction in its precision.

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include <catch2/catch.hpp>

#include "services/api/row_rpc.h"
#include "table/encoded_matrix.h"
#include "tensor/half.h"
#include "tests/unit/services/worker_fixture.h"

namespace simurgh {
namespace {

// Rows of numbers that 16 bits do not hold, and what is pushed, by id, as it arrives.
class EncodedServer : public RowPort {
 public:
  explicit EncodedServer(std::map<RowKey, std::vector<float>>& pushed) : pushed_(pushed) {}

  static float Weight(RowKey key, size_t element) {
    return 1.0F + 0.001F * static_cast<float>(key.first + key.second * 7 + element);
  }

  rpc::awaitable<StatusOr<PullReport>> Pull(PullRowsCall call, rpc::CallOptions) override {
    ForEach(call.groups, call.ids, [&](const RowGroup& group, uint64_t id, size_t byte) {
      CHECK(group.precision == rows);
      std::byte* const to = call.rows.data() + byte;
      for (size_t d = 0; d < group.dim; ++d) {
        Store(Weight({group.table, id}, d), group.precision, d, to);
      }
    });
    co_return PullReport{};
  }
  rpc::awaitable<StatusOr<PushReport>> Push(PushRowsCall call, rpc::CallOptions) override {
    ForEach(call.groups, call.ids, [&](const RowGroup& group, uint64_t id, size_t byte) {
      std::vector<float> row(group.dim);
      WidenRow(group.precision, call.gradients.data() + byte, row);
      CHECK(pushed_.emplace(RowKey{group.table, id}, row).second);
      CHECK(group.precision == gradients);
    });
    co_return PushReport{};
  }

  // The precision that calls must have.
  RowPrecision rows = RowPrecision::kF32;
  RowPrecision gradients = RowPrecision::kF32;

 private:
  static void Store(float value, RowPrecision precision, size_t element, std::byte* row) {
    if (precision == RowPrecision::kF32) {
      reinterpret_cast<float*>(row)[element] = value;
    } else {
      reinterpret_cast<uint16_t*>(row)[element] =
          ToHalf(precision == RowPrecision::kBf16 ? Half::kBf16 : Half::kF16, value, kToNearest);
    }
  }
  template <typename Visit>
  static void ForEach(std::span<const RowGroup> groups, std::span<const uint64_t> ids,
                      const Visit& visit) {
    ForEachRun(groups, [&](size_t, size_t g, size_t first, size_t count, size_t byte) {
      const size_t row_bytes = groups[g].dim * SizeOf(groups[g].precision);
      for (size_t i = 0; i < count; ++i) visit(groups[g], ids[first + i], byte + i * row_bytes);
    });
  }

  std::map<RowKey, std::vector<float>>& pushed_;
};

// A worker between two servers of these.
class EncodedFixture {
 public:
  EncodedFixture(RowPrecision rows, RowPrecision gradients)
      : config(Config(rows, gradients)), batch(SmallBatch()) {
    std::vector<std::unique_ptr<RowPort>> servers;
    for (int i = 0; i < 2; ++i) {
      auto server = std::make_unique<EncodedServer>(pushed);
      server->rows = rows;
      server->gradients = gradients;
      servers.push_back(std::move(server));
    }
    worker_ = std::make_unique<EmbeddingWorker>(config, /*epoch=*/7, compute_.get_executor(),
                                                std::move(servers), metrics_);
  }
  ~EncodedFixture() { compute_.join(); }

  void Exchange(const std::vector<float>& gradients) {
    const auto never = rpc::Clock::time_point::max();
    const auto reference = Run(worker_->Submit(batch, {}, never));
    REQUIRE(reference.ok());
    REQUIRE(Run(worker_->Pull(*reference, {}, {MatrixView(out.data(), kSamples, kWidth), nullptr},
                              never))
                .ok());
    REQUIRE(Run(worker_->Push(*reference, {}, {0.5F, 0.25F},
                              {MatrixView(gradients.data(), kSamples, kWidth), nullptr}, never))
                .ok());
  }

  const ClusterConfig config;
  std::shared_ptr<const CompactBatch> batch;
  std::vector<float> out = std::vector<float>(kSamples * kWidth);
  std::map<RowKey, std::vector<float>> pushed;

 private:
  static ClusterConfig Config(RowPrecision rows, RowPrecision gradients) {
    ClusterConfig config = SmallCluster();
    config.embedding_worker.row_precision = rows;
    config.embedding_worker.row_gradient_precision = gradients;
    return config;
  }
  template <typename Result>
  Result Run(rpc::awaitable<Result> task) {
    return rpc::asio::co_spawn(io_.executor(), std::move(task), rpc::asio::use_future).get();
  }

  MetricRegistry registry_;
  WorkerMetrics metrics_{registry_, config};
  rpc::asio::thread_pool compute_{1};
  std::unique_ptr<EmbeddingWorker> worker_;
  IoThread io_{"test"};
};

float ErrorOf(RowPrecision precision) {
  if (precision == RowPrecision::kF32) return 0;
  return precision == RowPrecision::kBf16 ? 0x1p-8F : 0x1p-11F;
}

TEST_CASE("Rows and row gradients are sent each in its precision, f32 exactly") {
  const auto rows = GENERATE(RowPrecision::kF32, RowPrecision::kBf16, RowPrecision::kF16);
  const auto row_gradients = GENERATE(RowPrecision::kF32, RowPrecision::kBf16, RowPrecision::kF16);
  CAPTURE(static_cast<int>(rows), static_cast<int>(row_gradients));
  std::vector<float> gradients(kSamples * kWidth);
  Random random(1);
  for (float& g : gradients) g = static_cast<float>(random.Normal());

  EncodedFixture exact(RowPrecision::kF32, RowPrecision::kF32);
  exact.Exchange(gradients);
  EncodedFixture encoded(rows, row_gradients);
  encoded.Exchange(gradients);

  constexpr size_t kFirst[] = {0, 4, 7};
  bool differs = false;
  for (size_t f = 0; f < 3; ++f) {
    const FeatureView feature = encoded.batch->feature(f);
    const uint32_t table = f == 1 ? 1 : 0;
    for (size_t s = 0; s < kSamples; ++s) {
      for (size_t d = 0; d < encoded.config.tables[table].dim; ++d) {
        float sum = 0;  // In the order of the occurrences.
        for (const uint32_t o : feature.sample(s)) {
          sum += EncodedServer::Weight({table, feature.ids[o]}, d);
        }
        const float pooled = encoded.out[s * kWidth + kFirst[f] + d];
        CHECK(std::abs(pooled - sum) <= ErrorOf(rows) * std::abs(sum));
        differs = differs || pooled != sum;
      }
    }
  }
  CHECK(differs == (rows != RowPrecision::kF32));

  REQUIRE(encoded.pushed.size() == exact.pushed.size());
  differs = false;
  for (const auto& [key, row] : exact.pushed) {
    const std::vector<float>& arrived = encoded.pushed.at(key);
    for (size_t d = 0; d < row.size(); ++d) {
      CHECK(std::abs(arrived[d] - row[d]) <= ErrorOf(row_gradients) * std::abs(row[d]));
      differs = differs || arrived[d] != row[d];
    }
  }
  CHECK(differs == (row_gradients != RowPrecision::kF32));
}

}  // namespace
}  // namespace simurgh
