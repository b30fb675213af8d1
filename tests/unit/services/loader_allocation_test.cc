// A separate binary, because it counts every allocation in the process.

#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "config/cluster_config.h"
#include "data/batch/batch_builder.h"
#include "rpc/client.h"
#include "services/api/loader_rpc.h"
#include "tests/support/allocation_count.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/waiting.h"
#include "tests/unit/services/trainer_end.h"

namespace simurgh {
namespace {

constexpr size_t kFeatures = 8;
constexpr size_t kDense = 5;
constexpr size_t kSamples = 64;
constexpr size_t kIdsOfSample = 4'000;
constexpr size_t kDecodedBytes = kSamples * kIdsOfSample * sizeof(uint32_t);

// Two bits an id as it travels, 32 when it is decoded.
std::shared_ptr<const api::FedBatch> DenseBits() {
  BatchBuilder builder(kFeatures, kDense);
  Random random(1);
  for (size_t b = 0; b < kSamples; ++b) {
    for (size_t i = 0; i < kIdsOfSample; ++i) builder.AddId(0, random.Below(2));
    builder.EndSample();
  }
  Batch batch = *builder.Build();
  return std::make_shared<const api::FedBatch>(
      api::FedBatch{*EncodeBatch(*batch.sparse), std::move(batch.dense)});
}

// Sends given batches in any order.
class Sender {
 public:
  explicit Sender(const ClusterConfig& config) {
    rpc::Hello hello{.cluster = config.name, .role = "loader"};
    hello.incarnation = 1;
    hello.configuration = ClusterAgreement(config);
    io_.RunAndWait([&] {
      client_ = std::make_unique<rpc::Client>(io_.executor(), config.nn_worker.instances[0].address,
                                              hello, rpc::ClientOptions(), nullptr);
    });
  }
  ~Sender() {
    for (auto& answer : answers_) answer.wait();
    io_.RunAndWait([this] { client_.reset(); });
  }

  void Send(uint64_t number, const std::shared_ptr<const api::FedBatch>& batch) {
    answers_.push_back(
        rpc::asio::co_spawn(io_.executor(), Feed(number, batch), rpc::asio::use_future));
  }

 private:
  rpc::awaitable<Status> Feed(uint64_t number, std::shared_ptr<const api::FedBatch> batch) {
    const auto answer = co_await rpc::Call(*client_, api::kFeedBatch,
                                           api::EncodeFeed(0, number, {}, std::move(batch)),
                                           rpc::Clock::now() + std::chrono::minutes(5));
    co_return answer.status();
  }

  std::vector<std::future<Status>> answers_;
  std::unique_ptr<rpc::Client> client_;
  IoThread io_{"sender"};
};

TEST_CASE("Waiting batches use their encoded size; only admitted batches are decoded") {
  constexpr uint64_t kWaiting = 16;
  const TemporaryFolder folder;
  const auto config =
      LoadClusterConfig("config/adult-persia.yaml",
                        {"loaders.instances=[{}]", "nn_worker.instances=[{address: \"unix://" +
                                                       folder.Path("nn.sock") + "\"}]"});
  REQUIRE(config.ok());
  TrainerEnd trainer(*config);  // Room for one batch.
  REQUIRE(trainer.buffer().Open(0).ok());
  const auto batch = DenseBits();
  const uint64_t wire_bytes = batch->sparse.byte_size();
  REQUIRE(kDecodedBytes > 15 * wire_bytes);
  Sender sender(*config);
  constexpr uint64_t kSmallThings = 1 << 19;

  static_cast<void>(testing::TakeAllocations());
  for (uint64_t number = 1; number <= kWaiting; ++number) sender.Send(number, batch);
  testing::Eventually([&] { return !(trainer.waits() < kWaiting); });
  const testing::Allocations waiting = testing::TakeAllocations();
  CAPTURE(waiting.bytes, waiting.largest);
  CHECK(waiting.bytes < kWaiting * wire_bytes + kSmallThings);
  CHECK(trainer.buffer().bytes() == 0);

  sender.Send(0, batch);
  for (uint64_t taken = 0; taken < kWaiting; ++taken) {
    REQUIRE(trainer.buffer().Take()->has_value());
    CHECK(trainer.buffer().bytes() < 2 * kDecodedBytes);
  }
  const testing::Allocations decoded = testing::TakeAllocations();
  CAPTURE(decoded.bytes);
  CHECK(decoded.bytes > kWaiting * kDecodedBytes);  // The check can detect them.
  trainer.buffer().Fail("the test is over");
}

}  // namespace
}  // namespace simurgh
