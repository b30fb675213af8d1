// A loader and a trainer's end of it, over a Unix socket.

#include "services/loader_client/loader_client.h"

#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "data/batch/batch_builder.h"
#include "tests/support/waiting.h"
#include "tests/unit/data/data_files.h"
#include "tests/unit/services/trainer_end.h"

namespace simurgh {
namespace {

constexpr size_t kFeatures = 8;
constexpr size_t kDense = 5;
constexpr float kEmpty = -2.0F;  // In place of a batch without samples.

Batch Numbered(float number, size_t features = kFeatures, float label = 1.0F) {
  BatchBuilder builder(features, kDense);
  for (int b = 0; b < 3; ++b) {
    builder.SetLabel(label);
    builder.SetDense(2, number);
    for (size_t f = 0; f < features; ++f) {
      builder.AddId(f, 100 * f + static_cast<uint64_t>(b));
      if (b == 1) builder.AddId(f, 7, 0.25F);
    }
    builder.EndSample();
  }
  return *builder.Build();
}

class Fixture {
 protected:
  Fixture() {
    auto config = LoadClusterConfig(
        "config/adult-persia.yaml",
        {"loaders.instances=[{}, {}]", "rpc.call_timeout=100ms", "training.retry_deadline=1s",
         "nn_worker.instances=[{address: \"unix://" + folder_.Path("nn.sock") + "\"}]"});
    INFO(config.status().ToString());
    REQUIRE(config.ok());
    config_ = *std::move(config);
  }

  void AddSecondRank() {
    InstanceConfig second;
    second.address = "unix://" + folder_.Path("nn1.sock");
    config_.nn_worker.instances.push_back(second);
  }

  std::unique_ptr<LoaderClient> Open(uint32_t loader) {
    auto client = LoaderClient::Open(config_, {.loader = loader}, stop_.get_token());
    INFO(client.status().ToString());
    REQUIRE(client.ok());
    return *std::move(client);
  }

  TemporaryFolder folder_;
  ClusterConfig config_;
  std::stop_source stop_;
};

TEST_CASE_METHOD(Fixture, "batches and the end of the feed arrive unchanged") {
  DataPosition begin(Division{.batch_size = 3, .piece_batches = 1, .shares = 2});
  begin.Advance({.share = 1, .files = 1, .next = {4, 50}});
  TrainerEnd trainer(config_, 0, begin);
  const auto client = Open(0);
  CHECK(client->taken() == 0);
  CHECK(client->begin() == begin);
  Batch first = Numbered(5.0F);
  first.progress = {.share = 7, .files = 2, .next = {4, 60}};
  REQUIRE(*client->Feed(std::move(first), {}));
  REQUIRE(client->End(3).ok());
  REQUIRE(Open(1)->End(4).ok());
  const auto batch = trainer.buffer().Take();
  REQUIRE((batch.ok() && batch->has_value()));
  const Batch sent = Numbered(5.0F);
  CHECK((*batch)->dense.values == sent.dense.values);
  CHECK((*batch)->dense.labels == sent.dense.labels);
  CHECK((*batch)->progress.share == 0);  // The loader's.
  CHECK((*batch)->progress.files == 2);
  CHECK((*batch)->progress.next == RowNumber{4, 60});
  CHECK((*batch)->sparse->ids == sent.sparse->ids);
  CHECK((*batch)->sparse->occurrences == sent.sparse->occurrences);
  CHECK((*batch)->sparse->offsets == sent.sparse->offsets);
  CHECK((*batch)->sparse->weights == sent.sparse->weights);
  CHECK_FALSE(trainer.buffer().Take()->has_value());
  CHECK(trainer.buffer().skipped_rows() == 7);
}

TEST_CASE_METHOD(Fixture, "waiting batches block no other call, for any window size") {
  config_.rpc.peer_memory_bytes = 1;  // One message.
  config_.rpc.call_timeout = std::chrono::minutes(10);
  TrainerEnd trainer(config_);
  const auto client = Open(0);
  // The trainer has room for the first.
  for (int i = 0; i < 4; ++i) REQUIRE(*client->Feed(Numbered(static_cast<float>(i)), {}));
  REQUIRE(testing::Eventually([&] { return trainer.waits() >= 3; }));
  CHECK(client->Abandon(absl::InvalidArgumentError("a bad file")).ok());
  CHECK(absl::IsInvalidArgument(trainer.buffer().Take().status()));
}

TEST_CASE_METHOD(Fixture, "a loader waits for a busy trainer beyond the call timeout") {
  TrainerEnd trainer(config_);
  constexpr int kBatches = 12;
  const auto client = Open(0);
  std::jthread loader([&client] {
    for (int i = 0; i < kBatches; ++i) {
      if (!client->Feed(Numbered(static_cast<float>(i)), {}).value_or(false)) return;
    }
    static_cast<void>(client->End({}));
  });
  REQUIRE(Open(1)->End({}).ok());
  // Each wait ends before the call's deadline, and the batch is retried.
  CHECK(testing::Eventually([&] { return trainer.waits() >= 12; }));
  for (int i = 0; i < kBatches; ++i) {
    const auto batch = trainer.buffer().Take();
    REQUIRE((batch.ok() && batch->has_value()));
    CHECK((*batch)->dense.values[2] == static_cast<float>(i));
  }
  CHECK_FALSE(trainer.buffer().Take()->has_value());
}

TEST_CASE_METHOD(Fixture, "invalid batches are rejected by name, also on retry") {
  TrainerEnd trainer(config_);
  const auto refusal = [&](Batch batch) {
    const auto client = Open(0);
    CHECK(client->Feed(std::move(batch), {}).ok());  // On its way.
    const Status status = client->End({});
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK(client->Feed(Numbered(0.0F), {}).status() == status);
    return std::string(status.message());
  };
  CHECK_THAT(refusal(Numbered(0.0F, 7)),
             Catch::Contains("the batch has 7 features, the cluster has 8"));
  CHECK_THAT(refusal(Numbered(0.0F, 8, 2.0F)),
             Catch::Contains("label 2 is out of range; use 0 or 1"));
  CHECK_THAT(refusal(Numbered(std::numeric_limits<float>::infinity())),
             Catch::Contains("a dense value is not finite"));
  BatchBuilder large(kFeatures, kDense);
  for (uint32_t i = 0; i <= config_.training.batch_size; ++i) large.EndSample();
  CHECK_THAT(refusal(*large.Build()), Catch::Contains("samples are out of range; use 1 to 128"));
  BatchBuilder wide(kFeatures, kDense + 1);
  wide.EndSample();
  CHECK_THAT(refusal(*wide.Build()), Catch::Contains("samples of 5 dense values and 1 labels"));
  BatchBuilder two_labels(kFeatures, kDense, 2);
  two_labels.EndSample();
  CHECK_THAT(refusal(*two_labels.Build()),
             Catch::Contains("2 labels are out of range; use at most"));
  BatchBuilder shared(std::vector<uint32_t>{0, 0, 1, 2, 3, 4, 5, 6}, kDense);
  shared.EndSample();
  CHECK_THAT(refusal(*shared.Build()),
             Catch::Contains("feature 'education' shares a list with a feature of another table"));
}

TEST_CASE_METHOD(Fixture, "a loader learns that it does not match or is not needed") {
  TrainerEnd trainer(config_);
  CHECK_THAT(std::string(LoaderClient::Open(config_, {.loader = 2}, {}).status().message()),
             Catch::StartsWith("loader 2: the configuration has 2 entries in loaders.instances"));
  ClusterConfig one = config_;
  one.loaders.instances.resize(1);
  CHECK_THAT(std::string(LoaderClient::Open(one, {}, {}).status().message()),
             Catch::Contains("the loader has 1 loaders.instances, the trainer has 2"));
  const auto client = Open(0);
  trainer.buffer().Finish();
  while (client->Feed(Numbered(0.0F), {}).value_or(false)) {
  }
  CHECK(client->Feed(Numbered(0.0F), {}).ok());
  CHECK(client->End({}).ok());
}

TEST_CASE_METHOD(Fixture, "a loader with other settings is rejected, naming the key") {
  const TrainerEnd trainer(config_);
  const auto refusal = [&](const ClusterConfig& own) {
    const auto client = LoaderClient::Open(own, {.input = InputAgreement(own)}, {});
    return std::string(client.status().message());
  };
  CHECK(refusal(config_).empty());
  ClusterConfig other = config_;
  other.settings["training.keep_negatives"] = "0.5";
  other.settings["data.columns.0.mean"] = "40";
  CHECK_THAT(refusal(other),
             Catch::Contains(", 40 (loader); training.keep_negatives = 1 (trainer), 0.5 (loader); "
                             "use the same file"));
  CHECK(LoaderClient::Open(other, {}, {}).ok());  // Its batches are not from the training files.
  other = config_;
  other.settings["features.0.modulo"] = "7";  // A key that all daemons share.
  CHECK_THAT(refusal(other), Catch::Contains("features.0.modulo = 0 (") &&
                                 Catch::Contains("), 7 (loader/0); start all daemons with"));
}

TEST_CASE_METHOD(Fixture, "without a trainer a loader times out; a stop ends its wait") {
  const Status lost = LoaderClient::Open(config_, {}, {}).status();
  CHECK_THAT(std::string(lost.message()),
             Catch::StartsWith("the nn-worker was lost for training.retry_deadline"));
  TrainerEnd trainer(config_);
  const auto client = Open(0);
  StatusOr<bool> fed = true;
  std::jthread stopper([&] {
    testing::Eventually([&] { return !(trainer.waits() == 0); });
    stop_.request_stop();
  });
  while (fed.ok()) fed = client->Feed(Numbered(0.0F), {});
  CHECK(fed.status().code() == absl::StatusCode::kCancelled);
}

// The numbers of all batches that this end gets; behind an error, -1.
std::vector<float> TakeAll(TrainerEnd& trainer) {
  std::vector<float> numbers;
  while (true) {
    const auto batch = trainer.buffer().Take();
    if (batch.ok() && !batch->has_value()) return numbers;
    if (batch.ok() && (*batch)->size() == 0) {
      numbers.push_back(kEmpty);
      continue;
    }
    numbers.push_back(batch.ok() ? (*batch)->dense.values[2] : -1.0F);
    if (!batch.ok()) return numbers;
  }
}

TEST_CASE_METHOD(Fixture, "ranks get batches round-robin, and skipped rows are counted once") {
  AddSecondRank();
  TrainerEnd first(config_, 0), second(config_, 1);
  std::jthread loader([this] {
    const auto client = LoaderClient::Open(config_, {.loader = 0}, {});
    for (int i = 0; i < 9; ++i) {
      if (!client.ok() || !(*client)->Feed(Numbered(static_cast<float>(i)), {}).value_or(false))
        return;
    }
    static_cast<void>((*client)->End(3));
  });
  REQUIRE(Open(1)->End(4).ok());
  std::vector<float> of_second;
  std::jthread other([&] { of_second = TakeAll(second); });
  CHECK(TakeAll(first) == std::vector<float>{0, 2, 4, 6, 8});
  other.join();
  CHECK(of_second == std::vector<float>{1, 3, 5, 7, kEmpty});
  CHECK(first.buffer().skipped_rows() == 7);
  CHECK(second.buffer().skipped_rows() == 0);
}

TEST_CASE_METHOD(Fixture, "a restarted loader skips the batches that each rank has") {
  AddSecondRank();
  TrainerEnd first(config_, 0), second(config_, 1);
  REQUIRE(Open(1)->End({}).ok());
  {
    const auto client = Open(0);
    for (int i = 0; i < 4; ++i) REQUIRE(*client->Feed(Numbered(static_cast<float>(i)), {}));
    // One batch finds room at the first rank, and two at the second.
    testing::Eventually([&] { return !(first.buffer().Open(0)->taken == 0); });
    CHECK((*second.buffer().Take())->dense.values[2] == 1.0F);
    CHECK((*second.buffer().Take())->dense.values[2] == 3.0F);
  }
  const auto client = Open(0);
  CHECK(client->taken() == 3);
  std::vector<uint64_t> left;
  for (uint64_t i = 0; i < 7; ++i) {
    if (!client->HasTaken(i)) left.push_back(i);
  }
  CHECK(left == std::vector<uint64_t>{2, 4, 5, 6});
  std::jthread loader([&] {
    for (const uint64_t i : left) {
      if (!client->Feed(Numbered(static_cast<float>(i)), {}).value_or(false)) return;
    }
    static_cast<void>(client->End({}));
  });
  CHECK(TakeAll(first) == std::vector<float>{0, 2, 4, 6});
  CHECK(TakeAll(second) == std::vector<float>{5, kEmpty});
}

TEST_CASE_METHOD(Fixture, "a rank that has enough does not block batches for others") {
  AddSecondRank();
  TrainerEnd first(config_, 0), second(config_, 1);
  REQUIRE(Open(1)->End({}).ok());
  first.buffer().Finish();
  std::jthread loader([this] {
    const auto client = LoaderClient::Open(config_, {.loader = 0}, {});
    for (int i = 0; i < 40; ++i) {
      if (!client.ok() || !(*client)->Feed(Numbered(static_cast<float>(i)), {}).value_or(false))
        return;
    }
    static_cast<void>((*client)->End({}));
  });
  CHECK(TakeAll(second).size() == 20);
  loader.join();
  second.buffer().Finish();
  const auto client = Open(1);
  while (client->Feed(Numbered(0.0F), {}).value_or(false)) {
  }
  CHECK(client->Feed(Numbered(0.0F), {}).ok());
}

TEST_CASE_METHOD(Fixture, "a loader's error reaches all ranks; a rank's error reaches the loader") {
  AddSecondRank();
  TrainerEnd first(config_, 0), second(config_, 1);
  const auto one = Open(0), other = Open(1);
  SECTION("the loader's") {
    REQUIRE(one->Abandon(absl::InvalidArgumentError("rows.csv:7: 'forty'")).ok());
    for (TrainerEnd* rank : {&first, &second}) {
      CHECK(rank->buffer().Take().status().message() ==
            "loader 0 of 2 (from 0): rows.csv:7: 'forty'");
    }
  }
  SECTION("the rank's") {
    second.buffer().Fail("rank 0 is gone");
    StatusOr<bool> fed = true;
    while (fed.ok()) fed = other->Feed(Numbered(0.0F), {});
    CHECK_THAT(std::string(fed.status().message()),
               Catch::Contains("nn-worker 1: training has ended before its data: rank 0 is gone"));
    CHECK(other->End({}) == fed.status());
  }
}

TEST_CASE_METHOD(Fixture, "a loader that lost a rank reports it to the others") {
  AddSecondRank();
  TrainerEnd first(config_, 0);
  std::optional<TrainerEnd> second(std::in_place, config_, 1);
  const auto client = Open(0);
  REQUIRE(*client->Feed(Numbered(0.0F), {}));
  second.reset();
  StatusOr<bool> fed = true;
  while (fed.ok()) fed = client->Feed(Numbered(0.0F), {});
  const std::string lost = "nn-worker 1 was lost for training.retry_deadline";
  CHECK_THAT(std::string(fed.status().message()), Catch::Contains(lost));
  const Status told = first.buffer().Take().status();
  CHECK_THAT(std::string(told.message()),
             Catch::StartsWith("loader 0 of 2 (from 0): batch ") && Catch::Contains(lost));
}

TEST_CASE_METHOD(Fixture, "a loader with a wrong number of ranks is rejected") {
  const ClusterConfig one_rank = config_;
  TrainerEnd alone(one_rank);
  AddSecondRank();
  TrainerEnd second(config_, 1);
  CHECK_THAT(std::string(LoaderClient::Open(config_, {}, {}).status().message()),
             Catch::StartsWith("nn-worker 0: the loader expects nn-worker 0 of 2, this is "
                               "0 of 1 (from 0); use the same nn_worker.instances"));
}

}  // namespace
}  // namespace simurgh
