#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_future.hpp>
#include <catch2/catch.hpp>

#include "base/random.h"
#include "data/batch/batch_builder.h"
#include "services/embedding_worker/embedding_worker.h"
#include "services/runtime/io_thread.h"

namespace simurgh {

using RowKey = std::pair<uint32_t, uint64_t>;  // Table, id.

// A server whose row values are functions of the key. Records pulls and pushes.
class RecordingServer : public RowPort {
 public:
  explicit RecordingServer(std::map<RowKey, std::vector<float>>& pushed) : pushed_(pushed) {}

  static float Weight(RowKey key, size_t element) {
    return static_cast<float>(static_cast<double>(key.second % 100) + 1000.0 * key.first +
                              0.01 * static_cast<double>(element));
  }

  [[nodiscard]] rpc::awaitable<StatusOr<PullReport>> Pull(PullRowsCall call,
                                                          rpc::CallOptions) override {
    if (!status.ok()) co_return status;
    asked.clear();
    auto* const rows = reinterpret_cast<float*>(call.rows.data());
    ForEachRow(call.groups, call.ids, [&](RowKey key, size_t offset, size_t dim) {
      asked.push_back(key);
      for (size_t d = 0; d < dim; ++d) rows[offset + d] = sign * Weight(key, d);
    });
    co_return PullReport{};
  }

  [[nodiscard]] rpc::awaitable<StatusOr<PushReport>> Push(PushRowsCall call,
                                                          rpc::CallOptions) override {
    if (!status.ok()) co_return status;
    for (size_t g = 0; g < call.groups.size(); ++g) {
      CHECK(call.learning_rates[g] == (call.groups[g].table == 0 ? 0.5F : 0.25F));
    }
    const auto* const gradients = reinterpret_cast<const float*>(call.gradients.data());
    ForEachRow(call.groups, call.ids, [&](RowKey key, size_t offset, size_t dim) {
      const std::span<const float> gradient(gradients + offset, dim);
      const bool is_new =
          pushed_.emplace(key, std::vector(gradient.begin(), gradient.end())).second;
      CHECK(is_new);  // One gradient a row.
    });
    co_return PushReport{};
  }

  Status status;
  float sign = 1;             // Sign of all numbers.
  std::vector<RowKey> asked;  // By the last pull.

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
inline ClusterConfig SmallCluster() {
  ClusterConfig config;
  config.embedding_ps = {.instances = {{}, {}}, .partitions = 2};
  config.embedding_worker.forward_buffer_batches = 4;
  config.tables = {{.name = "shared", .dim = 4}, {.name = "own", .dim = 3}};
  config.features = {{.name = "a", .table_index = 0},
                     {.name = "b", .table_index = 1},
                     {.name = "c", .table_index = 0}};
  return config;
}

inline constexpr size_t kWidth = 11;
inline constexpr size_t kSamples = 20;

// kSamples samples of three features, each with 0 to `most` of the ids 0 to ids - 1.
inline std::shared_ptr<const CompactBatch> RandomBatch(uint64_t seed, uint64_t most, uint64_t ids) {
  BatchBuilder builder(3, 0);
  Random random(seed);
  for (size_t s = 0; s < kSamples; ++s) {
    for (size_t f = 0; f < 3; ++f) {
      for (uint64_t left = random.Below(most + 1); left > 0; --left) {
        builder.AddId(f, random.Below(ids));
      }
    }
    builder.EndSample();
  }
  return builder.Build()->sparse;
}

inline std::shared_ptr<const CompactBatch> SmallBatch() { return RandomBatch(42, 2, 9); }

// Some hundred ids; features a and c have many in common.
inline std::shared_ptr<const CompactBatch> ManyIds() { return RandomBatch(43, 8, 90); }

// The rows of a batch of these features, in the order of its ids.
inline std::vector<RowKey> RowsOf(const CompactBatch& batch) {
  std::vector<RowKey> rows;
  for (size_t list = 0; list < batch.list_count(); ++list) {
    const uint32_t table = list == 1 ? 1 : 0;
    for (const uint64_t id : batch.list(list)) rows.emplace_back(table, id);
  }
  return rows;
}

class WorkerFixture {
 public:
  explicit WorkerFixture(ClusterConfig cluster = SmallCluster())
      : config(std::move(cluster)), batch(SmallBatch()) {
    std::vector<std::unique_ptr<RowPort>> servers;
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
  // Options for the next step of rank 0.
  SubmitOptions NextOptions() { return {.step = steps++}; }
  BatchReference Submit() {
    const auto reference = Run(worker->Submit(batch, NextOptions(), rpc::Clock::time_point::max()));
    REQUIRE(reference.ok());
    return *reference;
  }
  Status Pull(BatchReference reference, LookupMode mode = LookupMode::kTrain) {
    auto answer = Run(worker->Pull(reference, {.mode = mode},
                                   {MatrixView(out.data(), kSamples, kWidth), nullptr},
                                   rpc::Clock::time_point::max()));
    if (answer.ok()) argmax = std::move(answer->argmax);
    return answer.status();
  }
  // With the argmax of the last pull.
  Status Push(BatchReference reference, const std::vector<float>& gradients) {
    GradientBuffer source(MatrixView(gradients.data(), kSamples, kWidth), nullptr);
    source.argmax = argmax;
    return Run(
        worker->Push(reference, {}, rates, std::move(source), rpc::Clock::time_point::max()));
  }

  const ClusterConfig config;
  MetricRegistry registry;
  WorkerMetrics metrics{registry, config};
  std::map<RowKey, std::vector<float>> pushed;
  std::vector<float> rates = {0.5F, 0.25F};
  std::vector<RecordingServer*> recorders;
  std::shared_ptr<const CompactBatch> batch;
  std::vector<float> out = std::vector<float>(kSamples * kWidth);
  PooledArgmax argmax;
  uint64_t steps = 0;  // Submitted.
  rpc::asio::thread_pool compute{1};
  std::unique_ptr<EmbeddingWorker> worker;
  IoThread io{"test"};
};

}  // namespace simurgh
