// Batches over a real connection.

#include <memory>
#include <string>
#include <utility>

#include <catch2/catch.hpp>

#include "data/batch/encoded_batch.h"
#include "tests/unit/services/remote_worker.h"

namespace simurgh {
namespace {

// Sends valid and invalid batches to a worker.
class Submission : public RemoteWorker {
 public:
  Submission() {
    io.RunAndWait([this] {
      raw_ = std::make_unique<rpc::Client>(io.executor(), connection.listener->address(),
                                           HelloOf("nn-worker"), rpc::ClientOptions(), nullptr);
    });
  }
  ~Submission() {
    io.RunAndWait([this] { raw_.reset(); });
  }

  StatusOr<BatchReference> SubmitRemotely(const std::shared_ptr<const CompactBatch>& what) {
    return Wait<StatusOr<BatchReference>>(
        [&](auto done) { client().Submit(what, NextOptions(), std::move(done)); });
  }

  // Whatever bytes.
  Status SubmitBytes(EncodedBatch encoded) {
    auto request =
        api::Encode(NextOptions(), std::make_shared<const EncodedBatch>(std::move(encoded)));
    const auto call = [](rpc::Client& client, auto message) -> rpc::awaitable<Status> {
      const auto deadline = rpc::Clock::now() + std::chrono::seconds(60);
      const auto response =
          co_await rpc::Call(client, api::kSubmitBatch, std::move(message), deadline);
      co_return response.status();
    };
    return Run(call(*raw_, std::move(request)));
  }

  // Rows and pushed gradients of the batch under this reference.
  std::pair<std::vector<float>, std::map<RowKey, std::vector<float>>> Use(
      const BatchReference& reference, size_t samples) {
    std::vector<float> matrix(samples * kWidth);
    REQUIRE(Run(worker->Pull(reference, {}, {MatrixView(matrix.data(), samples, kWidth), nullptr},
                             rpc::Clock::time_point::max()))
                .ok());
    pushed.clear();
    REQUIRE(Run(worker->Push(reference, {}, {0.5F, 0.25F},
                             {MatrixView<const float>(matrix.data(), samples, kWidth), nullptr},
                             rpc::Clock::time_point::max()))
                .ok());
    return {std::move(matrix), pushed};
  }

 private:
  std::unique_ptr<rpc::Client> raw_;
};

// Feature a has weights, a and c share a list; samples have 0 to 3 ids.
std::shared_ptr<const CompactBatch> SharedListBatch(uint64_t seed, size_t samples) {
  BatchBuilder builder({0, 1, 0}, 0);
  Random random(seed);
  for (size_t s = 0; s < samples; ++s) {
    for (size_t f = 0; f < 3; ++f) {
      for (uint64_t ids = random.Below(4); ids > 0; --ids) {
        builder.AddId(f, random.Below(50), f == 0 ? 0.5F : 1.0F);
      }
    }
    builder.EndSample();
  }
  return builder.Build()->sparse;
}

TEST_CASE("A batch with lists and weights arrives unchanged, in reused memory") {
  Submission submission;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    const size_t samples = 1 + seed * 13 % 90;
    const auto batch = SharedListBatch(seed, samples);
    const auto local = submission.Run(
        submission.worker->Submit(batch, submission.NextOptions(), rpc::Clock::time_point::max()));
    const auto remote = submission.SubmitRemotely(batch);
    REQUIRE(local.ok());
    REQUIRE(remote.ok());
    CHECK(submission.Use(*local, samples) == submission.Use(*remote, samples));
  }
}

TEST_CASE("The largest batch arrives") {
  BatchBuilder builder({0, 1, 2}, 0);
  Random random(3);
  size_t left = kMaxBatchOccurrences;
  for (size_t s = 0; s < kMaxBatchSamples; ++s) {
    const size_t ids = s + 1 == kMaxBatchSamples ? left : kMaxBatchOccurrences / kMaxBatchSamples;
    left -= ids;
    for (size_t i = 0; i < ids; ++i) builder.AddId(i % 3, random.Below(uint64_t{1} << 20));
    builder.EndSample();
  }
  const auto batch = builder.Build()->sparse;
  REQUIRE(batch->batch_size == kMaxBatchSamples);
  REQUIRE(batch->occurrences.size() == kMaxBatchOccurrences);
  Submission submission;
  const auto reference = submission.SubmitRemotely(batch);
  CAPTURE(reference.status().ToString());
  REQUIRE(reference.ok());
  CHECK(
      *submission.worker->VectorBytes(*reference, EmbeddingForm::kPooled, VectorPrecision::kF32) ==
      kMaxBatchSamples * kWidth * sizeof(float));
}

TEST_CASE("An invalid batch is rejected with feature and position; the connection survives") {
  Submission submission;
  const EncodedBatch good = *EncodeBatch(*submission.batch);
  EncodedBatch cut = good;
  cut.codes.resize(cut.codes.size() - 3);
  const Status refused = submission.SubmitBytes(cut);
  CHECK(absl::IsInvalidArgument(refused));
  CHECK_THAT(std::string(refused.message()),
             Catch::Contains("feature 2") && Catch::Contains("at byte"));
  EncodedBatch fewer = good;
  fewer.plain_ids.resize(fewer.plain_ids.size() + 1);
  CHECK(absl::IsInvalidArgument(submission.SubmitBytes(fewer)));
  CHECK(absl::IsInvalidArgument(submission.SubmitBytes({})));
  // Lists shared across tables.
  BatchBuilder builder({0, 0, 1}, 0);
  builder.EndSample();
  const Status shared = submission.SubmitRemotely(builder.Build()->sparse).status();
  CHECK(absl::IsInvalidArgument(shared));
  CHECK_THAT(std::string(shared.message()), Catch::Contains("shares list 0"));
  CHECK(submission.SubmitBytes(good).ok());
}

}  // namespace
}  // namespace simurgh
