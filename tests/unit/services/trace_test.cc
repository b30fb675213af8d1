// A batch's trace, from the nn-worker's client through an embedding worker to the servers.

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include <boost/asio/thread_pool.hpp>
#include <catch2/catch.hpp>

#include "data/batch/batch_builder.h"
#include "tests/unit/services/worker_connection.h"

namespace simurgh {
namespace {

// Records the traces of its calls; returns zeros or an error.
class TracedServer : public RowPort {
 public:
  rpc::awaitable<StatusOr<PullReport>> Pull(PullRowsCall call, rpc::CallOptions options) override {
    traces.push_back(options.trace);
    std::ranges::fill(call.rows, std::byte{0});
    if (!status.ok()) co_return status;
    co_return PullReport{};
  }
  rpc::awaitable<StatusOr<PushReport>> Push(PushRowsCall call, rpc::CallOptions options) override {
    traces.push_back(options.trace);
    if (!status.ok()) co_return status;
    co_return PushReport{};
  }

  Status status;
  std::vector<rpc::Trace> traces;
};

ClusterConfig TracedCluster() {
  ClusterConfig config;
  config.embedding_ps = {.instances = {{}, {}}, .partitions = 1};
  config.embedding_worker.forward_buffer_batches = 4;
  config.tables = {{.name = "t", .dim = 4}};
  config.features = {{.name = "a", .table_index = 0}};
  return config;
}

// An embedding worker with two servers, and a trainer's client of it. All of it but the client's
// `done` runs on `io`.
class Chain {
 public:
  Chain() {
    std::vector<std::unique_ptr<RowPort>> rows;
    for (int i = 0; i < 2; ++i) {
      auto server = std::make_unique<TracedServer>();
      servers.push_back(server.get());
      rows.push_back(std::move(server));
    }
    io.RunAndWait([&] {
      worker_ = std::make_unique<EmbeddingWorker>(config_, /*epoch=*/7, compute_.get_executor(),
                                                  std::move(rows), metrics_);
    });
    connection_.emplace(*worker_, config_, io);
  }

  ~Chain() {
    connection_.reset();
    compute_.join();
    io.RunAndWait([&] { worker_.reset(); });
  }

  StatusOr<BatchReference> Submit() {
    BatchBuilder builder(1, 0);
    builder.AddId(0, 11);
    builder.EndSample();
    const auto batch = builder.Build()->sparse;
    return Wait<StatusOr<BatchReference>>(
        [&](auto done) { connection_->client->Submit(batch, {}, std::move(done)); });
  }
  Status Pull(const BatchReference& reference) {
    return Wait<StatusOr<PullAnswer>>([&](auto done) {
             connection_->client->Pull(reference, {}, {MatrixView(values_.data(), 1, 4), nullptr},
                                       std::move(done));
           })
        .status();
  }
  Status Push(const BatchReference& reference) {
    return Wait<Status>([&](auto done) {
      connection_->client->Push(reference, {}, {MatrixView(values_.data(), 1, 4), nullptr},
                                std::move(done));
    });
  }

  std::vector<TracedServer*> servers;
  IoThread io{"test"};

 private:
  const ClusterConfig config_ = TracedCluster();
  MetricRegistry registry_;
  WorkerMetrics metrics_{registry_, config_};
  std::vector<float> values_ = std::vector<float>(4);
  rpc::asio::thread_pool compute_{1};
  std::unique_ptr<EmbeddingWorker> worker_;
  std::optional<WorkerConnection> connection_;
};

TEST_CASE("a batch's trace reaches every server, with a span per server") {
  Chain chain;
  const StatusOr<BatchReference> reference = chain.Submit();
  REQUIRE(reference.status() == absl::OkStatus());
  CHECK(reference->trace != 0);
  REQUIRE(chain.Pull(*reference) == absl::OkStatus());
  REQUIRE(chain.Push(*reference) == absl::OkStatus());
  std::set<uint64_t> spans;
  for (const TracedServer* server : chain.servers) {
    REQUIRE(server->traces.size() == 2);
    for (const rpc::Trace& trace : server->traces) {
      CHECK(trace.trace_id == reference->trace);
      spans.insert(trace.span_id);
    }
  }
  CHECK(spans.size() == 4);

  const StatusOr<BatchReference> other = chain.Submit();
  REQUIRE(other.ok());
  CHECK(other->trace != reference->trace);
}

TEST_CASE("an error names the trace of its batch") {
  Chain chain;
  const StatusOr<BatchReference> reference = chain.Submit();
  REQUIRE(reference.ok());
  chain.servers[1]->status = absl::UnavailableError("gone");
  const Status error = chain.Pull(*reference);
  CHECK(absl::IsAborted(error));
  CHECK_THAT(std::string(error.message()),
             Catch::Contains(absl::StrCat("embedding-worker 0, trace ",
                                          absl::Hex(reference->trace, absl::kZeroPad16))));
}

}  // namespace
}  // namespace simurgh
