// What waits at a peer for another call, and connections that hold one message.

#include <array>
#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/use_future.hpp>
#include <catch2/catch.hpp>

#include "services/api/batch_client.h"
#include "services/api/row_client.h"
#include "services/embedding_ps/row_methods.h"
#include "services/embedding_worker/batch_methods.h"
#include "tests/unit/services/one_table.h"
#include "tests/unit/services/worker_fixture.h"

namespace simurgh {
namespace {

constexpr std::chrono::minutes kPatience{1};

rpc::Hello HelloOf(std::string role) { return {.cluster = "test", .role = std::move(role)}; }

// A connection holds one unanswered message, and no byte more.
rpc::ServerOptions OneMessage() { return {.max_request_bytes_per_connection = 1}; }

std::unique_ptr<PeerClients> ClientsOf(const rpc::Server& server, IoThread& io) {
  return std::make_unique<PeerClients>(io.executor(), server.address(), HelloOf("client"),
                                       rpc::ClientOptions(), nullptr);
}

// A parameter server that listens, and an embedding worker's client of it.
class Rows {
  template <typename Call>
  auto Start(Call call) {
    return rpc::asio::co_spawn(io_.executor(), std::move(call), rpc::asio::use_future);
  }

 public:
  Rows() {
    io_.RunAndWait([this] {
      listener_ = std::make_unique<rpc::Server>(io_.executor(), HelloOf("embedding-ps"),
                                                OneMessage(), nullptr);
      RegisterRowMethods(*listener_, *rows_, buffers_, /*map_version=*/0);
      REQUIRE(listener_->Listen("127.0.0.1:0") == absl::OkStatus());
      client_ = std::make_unique<RowClient>("embedding-ps", ClientsOf(*listener_, io_),
                                            /*map_version=*/0);
    });
  }
  ~Rows() {
    io_.RunAndWait([this] {
      client_.reset();
      listener_.reset();
    });
  }

  std::future<StatusOr<PushReport>> StartPush(const TrainerPosition& position) {
    return Start([=, this]() -> rpc::awaitable<StatusOr<PushReport>> {
      PushRowsCall call{.position = position,
                        .groups = kGroups,
                        .learning_rates = kOne,
                        .ids = kIds,
                        .gradients = std::as_bytes(std::span(kOne))};
      co_return co_await client_->Push(std::move(call), {rpc::Clock::now() + kPatience});
    });
  }

  Status Pull() {
    std::array<float, 1> row{};
    auto pulled = Start([&, this]() -> rpc::awaitable<StatusOr<PullReport>> {
      PullRowsCall call{.purpose = PullPurpose::kEvaluate,
                        .groups = kGroups,
                        .ids = kIds,
                        .rows = std::as_writable_bytes(std::span(row))};
      co_return co_await client_->Pull(std::move(call), {rpc::Clock::now() + kPatience});
    });
    return pulled.get().status();
  }

 private:
  static constexpr std::array<float, 1> kOne{1.0F};
  static constexpr std::array<uint64_t, 1> kIds{7};
  inline static const std::vector<RowGroup> kGroups{{0, 1, {1}}};

  const ClusterConfig config_ = OneTable(1, 100);
  MetricRegistry registry_;
  ServerMetrics metrics_{registry_, config_, 0};
  BufferPool buffers_{size_t{1} << 20};
  std::unique_ptr<ParameterServer> rows_ = ParameterServer::Create(config_, 0, metrics_).value();
  std::unique_ptr<rpc::Server> listener_;
  std::unique_ptr<RowClient> client_;
  IoThread io_{"rows"};
};

TEST_CASE("Pushes of all ranks come through one worker, and pulls beside those that wait") {
  const RankOrder order = GENERATE(RankOrder::kInTurn, RankOrder::kSummed);
  constexpr uint32_t kRanks = 3;
  Rows rows;
  for (uint64_t step = 0; step < 2; ++step) {
    std::vector<std::future<StatusOr<PushReport>>> pushes;
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      REQUIRE(rows.Pull() == absl::OkStatus());
      pushes.push_back(
          rows.StartPush({.run = 1, .rank = rank, .step = step, .ranks = kRanks, .order = order}));
    }
    for (auto& push : pushes) CHECK(push.get().status() == absl::OkStatus());
  }
}

// How many submissions have come.
class SubmissionCount : public rpc::Observer {
 public:
  void OnCallStart(const rpc::MethodId& method) override {
    if (method.number == api::kSubmitBatch.number) ++come_;
  }
  void Await(int count) const {
    while (come_ < count) std::this_thread::yield();
  }

 private:
  std::atomic<int> come_ = 0;
};

ClusterConfig RoomForOneBatch() {
  ClusterConfig config = SmallCluster();
  config.embedding_worker.forward_buffer_batches = 1;
  config.tables[0].optimizer.learning_rate = 0.5F;
  config.tables[1].optimizer.learning_rate = 0.25F;
  return config;
}

// An embedding worker that listens, and a trainer's client of it.
class Batches : public WorkerFixture {
 public:
  Batches() : WorkerFixture(RoomForOneBatch()) {
    io.RunAndWait([this] {
      listener_ = std::make_unique<rpc::Server>(io.executor(), HelloOf("embedding-worker"),
                                                OneMessage(), &submissions);
      RegisterBatchMethods(*listener_, *worker);
      REQUIRE(listener_->Listen("127.0.0.1:0") == absl::OkStatus());
      std::vector<std::unique_ptr<PeerClients>> workers;
      workers.push_back(ClientsOf(*listener_, io));
      client_ =
          std::make_unique<BatchClient>(io.executor(), compute.get_executor(), std::move(workers),
                                        kPatience, learning_rates_, wire_);
    });
  }
  ~Batches() {
    io.RunAndWait([this] {
      client_.reset();
      listener_.reset();
    });
  }

  std::future<StatusOr<BatchReference>> StartSubmit(const SubmitTerms& terms) {
    const auto result = std::make_shared<std::promise<StatusOr<BatchReference>>>();
    client_->Submit(batch, terms, [result](auto reference) { result->set_value(reference); });
    return result->get_future();
  }

  // The whole way of a batch that has been submitted.
  void Use(const BatchReference& reference) {
    pushed.clear();
    const MatrixView<float> matrix(out.data(), kSamples, kWidth);
    std::promise<Status> pulled;
    client_->Pull(reference, {}, {matrix, nullptr},
                  [&](const auto& answer) { pulled.set_value(answer.status()); });
    REQUIRE(pulled.get_future().get() == absl::OkStatus());
    std::promise<Status> done;
    client_->Push(reference, {}, {MatrixView<const float>(matrix), nullptr},
                  [&](const Status& status) { done.set_value(status); });
    REQUIRE(done.get_future().get() == absl::OkStatus());
  }

  SubmissionCount submissions;

 private:
  const LearningRates learning_rates_{config.tables};
  VectorWire wire_{config};
  std::unique_ptr<rpc::Server> listener_;
  std::unique_ptr<BatchClient> client_;
};

TEST_CASE("A batch that waits for room lets all pass that makes some, and that is needed") {
  Batches batches;
  const auto first = batches.StartSubmit({.step = 1}).get();
  REQUIRE(first.ok());
  auto waits = batches.StartSubmit({.step = 2});
  batches.submissions.Await(2);
  // As when the worker that had it has died.
  const auto earlier = batches.StartSubmit({.step = 0}).get();
  REQUIRE(earlier.ok());
  const auto evaluated = batches.StartSubmit({.purpose = PullPurpose::kEvaluate, .step = 0}).get();
  REQUIRE(evaluated.ok());
  batches.Use(*earlier);
  batches.Use(*evaluated);
  batches.Use(*first);
  CHECK(waits.get().status() == absl::OkStatus());
}

}  // namespace
}  // namespace simurgh
