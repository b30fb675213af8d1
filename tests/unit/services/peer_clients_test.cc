// Calls that wait for other calls, with connections that hold one message.

#include "services/api/peer_clients.h"

#include <array>
#include <atomic>
#include <future>
#include <memory>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "services/api/batch_rpc.h"
#include "services/api/reply.h"
#include "services/api/row_rpc.h"
#include "tests/support/waiting.h"
#include "tests/unit/services/one_table.h"
#include "tests/unit/services/remote_worker.h"
#include "tests/unit/services/server_fixture.h"

namespace simurgh {
namespace {

constexpr std::chrono::minutes kPatience{1};

// A connection holds one unanswered message.
rpc::ServerOptions OneMessage() { return {.max_request_bytes_per_connection = 1}; }

// A parameter server that listens, and an embedding worker's client of it.
class Rows : public ServerFixture {
 public:
  Rows() : ServerFixture(OneTable(1, 100), "127.0.0.1:0", OneMessage()) {
    io.RunAndWait([this] {
      client_ = std::make_unique<RowClient>(
          "embedding-ps",
          std::make_unique<PeerClients>(io.executor(), listener->address(),
                                        HelloOf("embedding-worker"), rpc::ClientOptions(), nullptr),
          kMapVersion);
    });
  }
  ~Rows() {
    io.RunAndWait([this] { client_.reset(); });
  }

  std::future<StatusOr<PushReport>> StartPush(const StepId& step_id) {
    return Start([=, this]() -> rpc::awaitable<StatusOr<PushReport>> {
      PushRowsCall call{.step_id = step_id,
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
      PullRowsCall call{.mode = LookupMode::kEvaluate,
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

  std::unique_ptr<RowClient> client_;
};

TEST_CASE("Waiting pushes of all ranks through one worker do not block pulls") {
  const PushOrder order = GENERATE(PushOrder::kByRank, PushOrder::kSum);
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

// Number of submits received.
class SubmissionCount : public rpc::Observer {
 public:
  void OnCallStart(const rpc::MethodId& method) override {
    if (method.number == api::kSubmitBatch.number) ++come_;
  }
  void Await(int count) const {
    testing::Eventually([&] { return !(come_ < count); });
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
class Batches : public RemoteWorker {
 public:
  explicit Batches(SubmissionCount& count)
      : RemoteWorker(RoomForOneBatch(), OneMessage(), &count) {}

  std::future<StatusOr<BatchReference>> StartSubmit(const SubmitOptions& options) {
    const auto result = std::make_shared<std::promise<StatusOr<BatchReference>>>();
    client().Submit(batch, options, [result](auto reference) { result->set_value(reference); });
    return result->get_future();
  }

  // Pulls and pushes a submitted batch.
  void Use(const BatchReference& reference) {
    pushed.clear();
    const MatrixView<float> matrix(out.data(), kSamples, kWidth);
    REQUIRE(Wait<StatusOr<PullAnswer>>([&](auto done) {
              client().Pull(reference, {}, {matrix, nullptr}, std::move(done));
            }).status() == absl::OkStatus());
    REQUIRE(Wait<Status>([&](auto done) {
              client().Push(reference, {}, {MatrixView<const float>(matrix), nullptr},
                            std::move(done));
            }) == absl::OkStatus());
  }
};

TEST_CASE("A waiting submit blocks neither calls that free space nor exempt submits") {
  SubmissionCount submissions;
  Batches batches(submissions);
  const auto first = batches.StartSubmit({.step = 1}).get();
  REQUIRE(first.ok());
  auto waits = batches.StartSubmit({.step = 2});
  submissions.Await(2);
  // As after the death of its worker.
  const auto earlier = batches.StartSubmit({.step = 0}).get();
  REQUIRE(earlier.ok());
  const auto evaluated = batches.StartSubmit({.mode = LookupMode::kEvaluate, .step = 0}).get();
  REQUIRE(evaluated.ok());
  batches.Use(*earlier);
  batches.Use(*evaluated);
  batches.Use(*first);
  CHECK(waits.get().status() == absl::OkStatus());
}

TEST_CASE("A rank whose calls were stopped still ends its run") {
  ClusterConfig config = OneTable(1, 100);
  config.rpc.call_timeout = kPatience;
  const LearningRates rates(config.tables);
  std::atomic<uint64_t> ended = 0;
  IoThread io("test");
  std::unique_ptr<rpc::Server> server;
  std::unique_ptr<BatchClient> client;
  Status listening;
  io.RunAndWait([&] {
    server = std::make_unique<rpc::Server>(io.executor(), HelloOf("embedding-worker"),
                                           rpc::ServerOptions(), nullptr);
    rpc::Register(*server, api::kEndBatches, [&](auto request) -> Reply<api::EndRun> {
      ended = request.table().step_id()->run();
      co_return rpc::Outgoing<api::EndRun::Response>();
    });
    listening = server->Listen("127.0.0.1:0");
    std::vector<std::unique_ptr<PeerClients>> workers;
    workers.push_back(std::make_unique<PeerClients>(
        io.executor(), server->address(), HelloOf("nn-worker"), rpc::ClientOptions(), nullptr));
    client = std::make_unique<BatchClient>(io.executor(), std::move(workers), config, rates);
  });
  REQUIRE(listening == absl::OkStatus());
  client->Stop();
  client->EndRun({.run = 5}, kPatience);
  CHECK(ended == 5);
  io.RunAndWait([&] {
    client.reset();
    server.reset();
  });
}

}  // namespace
}  // namespace simurgh
