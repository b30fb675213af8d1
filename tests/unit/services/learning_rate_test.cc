// The learning rate of row updates, with a schedule and after a change.

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <boost/asio/thread_pool.hpp>
#include <catch2/catch.hpp>

#include "data/batch/batch_builder.h"
#include "services/embedding_ps/parameter_server.h"
#include "tests/unit/services/one_table.h"
#include "tests/unit/services/worker_connection.h"

namespace simurgh {
namespace {

constexpr uint32_t kDim = 4;

// The rate begins at 1 and ends at a half, after four steps.
ClusterConfig WithSchedule() {
  ClusterConfig config = OneTable(kDim, 100);
  config.features = {{.name = "id", .table_index = 0}};
  config.tables[0].optimizer.learning_rate = 1.0F;
  config.tables[0].optimizer.schedule = {
      .kind = LearningRateSchedule::Kind::kLinear, .decay_steps = 4, .end_factor = 0.5F};
  return config;
}

// A server with its rows, an embedding worker that listens, and a trainer's client of it.
class Chain {
 public:
  Chain() {
    std::vector<std::unique_ptr<RowPort>> servers;
    servers.push_back(ParameterServer::Create(config_, server_metrics_).value());
    io_.RunAndWait([&] {
      worker_ = std::make_unique<EmbeddingWorker>(config_, /*epoch=*/1, compute_.get_executor(),
                                                  std::move(servers), worker_metrics_);
    });
    connection_.emplace(*worker_, config_, io_);
  }
  ~Chain() {
    connection_.reset();
    compute_.join();
    io_.RunAndWait([&] { worker_.reset(); });
  }

  // Creates the row if absent.
  std::vector<float> Pull(uint64_t step) {
    BatchBuilder builder(1, 0);
    builder.AddId(0, 11);
    builder.EndSample();
    const auto batch = builder.Build()->sparse;
    const auto submitted = Wait<StatusOr<BatchReference>>([&](auto done) {
      connection_->client->Submit(batch, {.run = kRun, .step = step}, std::move(done));
    });
    REQUIRE(submitted.status() == absl::OkStatus());
    batch_ = *submitted;
    std::vector<float> row(kDim);
    const auto pulled = Wait<StatusOr<PullAnswer>>([&](auto done) {
      connection_->client->Pull(batch_, {.step_id = {.run = kRun, .step = step}},
                                {MatrixView(row.data(), 1, kDim), nullptr}, std::move(done));
    });
    REQUIRE(pulled.status() == absl::OkStatus());
    return row;
  }

  // Pushes a gradient of 1 for every weight of the last pulled batch.
  void Push(uint64_t step) {
    const std::vector<float> gradient(kDim, 1.0F);
    REQUIRE(Wait<Status>([&](auto done) {
              connection_->client->Push(batch_, {.run = kRun, .step = step},
                                        {MatrixView(gradient.data(), 1, kDim), nullptr},
                                        std::move(done));
            }) == absl::OkStatus());
  }

  // As after a reload of the trainer's configuration.
  void Change(const SparseOptimizerConfig& optimizer) {
    std::vector<TableConfig> tables = config_.tables;
    tables[0].optimizer = optimizer;
    REQUIRE(connection_->learning_rates.Change(tables) == absl::OkStatus());
  }

 private:
  static constexpr uint64_t kRun = 1;

  const ClusterConfig config_ = WithSchedule();
  MetricRegistry registry_;
  ServerMetrics server_metrics_{registry_, config_};
  WorkerMetrics worker_metrics_{registry_, config_};
  rpc::asio::thread_pool compute_{1};
  std::unique_ptr<EmbeddingWorker> worker_;
  std::optional<WorkerConnection> connection_;
  BatchReference batch_;
  IoThread io_{"test"};
};

TEST_CASE("a push uses the learning rate of its step, and a new rate after a change") {
  Chain chain;
  std::vector<float> expected = chain.Pull(0);
  const auto push_and_pull = [&](uint64_t step, float rate) {
    CAPTURE(step, rate);
    chain.Push(step);
    for (float& weight : expected) weight -= rate;
    CHECK(chain.Pull(step + 1) == expected);
  };
  push_and_pull(0, 1.0F);
  push_and_pull(1, 0.875F);
  // A push after the change uses the new rate, even for an earlier pull.
  chain.Change({.kind = SparseOptimizerConfig::Kind::kSgd, .learning_rate = 0.25F});
  push_and_pull(2, 0.25F);
  push_and_pull(3, 0.25F);
}

}  // namespace
}  // namespace simurgh
