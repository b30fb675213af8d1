#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include <catch2/catch.hpp>

#include "tests/unit/services/worker_fixture.h"

namespace simurgh {
namespace {

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

TEST_CASE("Each feature has its own pooling; max returns the argmax") {
  ClusterConfig config = SmallCluster();
  config.features[0].pooling = Pooling::kMax;
  config.features[1].pooling = Pooling::kMean;
  WorkerFixture fixture(config);
  const BatchReference reference = fixture.Submit();
  REQUIRE(fixture.Pull(reference).ok());
  REQUIRE(fixture.Push(reference, std::vector<float>(kSamples * kWidth, 1.0F)).ok());

  std::map<RowKey, std::vector<double>> expected;
  for (size_t f = 0; f < 3; ++f) {
    const FeatureView feature = fixture.batch->feature(f);
    const auto [table, first, dim] = kColumns[f];
    for (size_t s = 0; s < kSamples; ++s) {
      const auto ids = feature.sample(s);
      // Weights grow with the id.
      uint64_t largest = 0;
      for (const uint32_t o : ids) largest = std::max(largest, feature.ids[o]);
      bool taken = false;
      for (const uint32_t o : ids) {
        auto& sum = expected.try_emplace({table, feature.ids[o]}, dim).first->second;
        double gradient = 1.0;
        if (f == 1) gradient = 1.0 / static_cast<double>(ids.size());
        if (f == 0) gradient = feature.ids[o] == largest && !std::exchange(taken, true) ? 1.0 : 0.0;
        for (double& element : sum) element += gradient;
      }
      if (f != 0 || ids.empty()) continue;
      CHECK(fixture.out[s * kWidth + first] == RecordingServer::Weight({table, largest}, 0));
    }
  }
  REQUIRE(fixture.pushed.size() == expected.size());
  for (const auto& [key, sum] : expected) {
    for (size_t d = 0; d < sum.size(); ++d) {
      CHECK(fixture.pushed.at(key)[d] == Approx(sum[d]).margin(1e-5));
    }
  }
}

TEST_CASE("Only training pulls of max-pooled features return argmax") {
  WorkerFixture plain;
  REQUIRE(plain.Pull(plain.Submit()).ok());
  CHECK(plain.argmax.bytes.empty());
  ClusterConfig config = SmallCluster();
  config.features[2].pooling = Pooling::kMax;
  WorkerFixture fixture(config);
  REQUIRE(fixture.Pull(fixture.Submit(), LookupMode::kEvaluate).ok());
  CHECK(fixture.argmax.bytes.empty());
  REQUIRE(fixture.Pull(fixture.Submit()).ok());
  CHECK(fixture.argmax.bytes.size() == kSamples * 4);  // A byte an element.
}

TEST_CASE("Argmax that do not fit the batch are rejected, and nothing is pushed") {
  // Feature 1 has three ids in sample 0, and none in the others.
  BatchBuilder builder(3, 0);
  for (const uint64_t id : {1, 2, 3}) builder.AddId(1, id);
  for (size_t s = 0; s < kSamples; ++s) builder.EndSample();
  ClusterConfig config = SmallCluster();
  config.features[1].pooling = Pooling::kMax;
  WorkerFixture fixture(config);
  fixture.batch = builder.Build()->sparse;
  const BatchReference reference = fixture.Submit();
  REQUIRE(fixture.Pull(reference).ok());
  constexpr size_t kBytes = kSamples * 3;
  REQUIRE(fixture.argmax.bytes.size() == kBytes);
  const std::vector<float> gradients(kSamples * kWidth, 1.0F);
  const auto refusal = [&](const std::vector<std::byte>& bytes) {
    fixture.argmax = {bytes, nullptr};
    const Status status = fixture.Push(reference, gradients);
    CHECK(absl::IsInvalidArgument(status));
    return std::string(status.message());
  };
  CHECK_THAT(refusal({}), Catch::Contains("0 bytes of argmax, the batch has 60"));
  CHECK_THAT(refusal(std::vector<std::byte>(61)), Catch::Contains("61 bytes of argmax"));
  std::vector<std::byte> wrong(kBytes);
  wrong[2] = std::byte{3};
  CHECK_THAT(refusal(wrong),
             Catch::Contains("feature 1: sample 0: the largest of element 2 is occurrence 3 of 3"));
  wrong[2] = std::byte{2};
  wrong[3] = std::byte{1};
  CHECK_THAT(refusal(wrong),
             Catch::Contains("feature 1: sample 1: the largest of element 0 is occurrence 1 of 0"));
  CHECK(fixture.pushed.empty());
  // The batch is still there for a valid push.
  std::vector<std::byte> right(kBytes);  // Elements 0, 1, 2: of ids 1, 2, 3.
  right[1] = std::byte{1};
  right[2] = std::byte{2};
  fixture.argmax = {right, nullptr};
  REQUIRE(fixture.Push(reference, gradients).ok());
  CHECK(fixture.pushed == std::map<RowKey, std::vector<float>>{
                              {{1, 1}, {1, 0, 0}}, {{1, 2}, {0, 1, 0}}, {{1, 3}, {0, 0, 1}}});
}

TEST_CASE("A feature with a NaN gradient is dropped and counted; others are applied") {
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

TEST_CASE("Finite gradients whose sum overflows are dropped and counted once per batch") {
  WorkerFixture fixture;
  std::vector<float> gradients(kSamples * kWidth, 1.0F);
  for (size_t s = 0; s < kSamples; ++s) {
    gradients[s * kWidth + 4] = 0.5F * std::numeric_limits<float>::max();  // Feature b.
  }
  const BatchReference reference = fixture.Submit();
  fixture.recorders[1]->status = absl::UnavailableError("gone");
  CHECK(absl::IsAborted(fixture.Push(reference, gradients)));
  fixture.recorders[1]->status = absl::OkStatus();
  fixture.pushed.clear();
  REQUIRE(fixture.Push(reference, gradients).ok());
  CHECK(fixture.metrics.non_finite_gradients[0]->value() == 0);
  CHECK(fixture.metrics.non_finite_gradients[1]->value() == 1);
  REQUIRE_FALSE(fixture.pushed.empty());
  for (const auto& [key, gradient] : fixture.pushed) {
    for (const float g : gradient) CHECK((key.first == 1 ? g == 0.0F : g >= 1.0F));
  }
}

// Each row by itself.
std::vector<std::byte> EncodedRows(const CompactBatch& batch, VectorPrecision precision) {
  std::vector<std::byte> encoded;
  for (const RowKey& key : RowsOf(batch)) {
    const VectorCodec code(precision, {key.first == 0 ? 4U : 3U});
    std::vector<float> numbers(code.columns());
    for (size_t d = 0; d < numbers.size(); ++d) numbers[d] = RecordingServer::Weight(key, d);
    std::vector<std::byte> row(code.row_bytes());
    code.Encode({numbers.data(), 1, numbers.size()}, 1, std::nullopt, row);
    encoded.insert(encoded.end(), row.begin(), row.end());
  }
  return encoded;
}

TEST_CASE("A pull of rows returns each id's row; all gradients are pushed") {
  const auto precision =
      GENERATE(VectorPrecision::kF32, VectorPrecision::kBf16, VectorPrecision::kInt8);
  CAPTURE(static_cast<int>(precision));
  WorkerFixture fixture;
  fixture.batch = ManyIds();
  // Whole numbers, whose sums are exact in any order.
  std::vector<float> gradients(kSamples * kWidth);
  for (size_t i = 0; i < gradients.size(); ++i) gradients[i] = static_cast<float>(i % 17) - 8;
  std::map<RowKey, std::vector<float>> expected_push;
  for (size_t f = 0; f < 3; ++f) {
    const auto [table, first, dim] = kColumns[f];
    const FeatureView feature = fixture.batch->feature(f);
    for (size_t s = 0; s < kSamples; ++s) {
      for (const uint32_t o : feature.sample(s)) {
        auto& sum = expected_push.try_emplace({table, feature.ids[o]}, dim).first->second;
        for (size_t d = 0; d < dim; ++d) sum[d] += gradients[s * kWidth + first + d];
      }
    }
  }
  const BatchReference reference = fixture.Submit();
  std::vector<std::byte> expected = EncodedRows(*fixture.batch, precision);
  CHECK(*fixture.worker->VectorBytes(reference, EmbeddingForm::kRows, precision) ==
        expected.size());
  constexpr size_t kBehind = 64;  // Bytes that must not change.
  std::vector<std::byte> answer(expected.size() + kBehind, std::byte{0xff});
  EmbeddingBuffer target(precision, std::span(answer).first(expected.size()), nullptr);
  target.form = EmbeddingForm::kRows;
  REQUIRE(
      fixture.Run(fixture.worker->Pull(reference, {}, target, rpc::Clock::time_point::max())).ok());
  expected.resize(answer.size(), std::byte{0xff});
  CHECK(answer == expected);
  REQUIRE(fixture.Push(reference, gradients).ok());
  CHECK(fixture.pushed == expected_push);
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
  REQUIRE(fixture.Pull(other, LookupMode::kEvaluate).ok());
  CHECK(absl::IsNotFound(fixture.Pull(other)));
}

TEST_CASE("A batch's ids are counted once over repeated submits, pulls and pushes") {
  WorkerFixture fixture;
  const std::vector<float> gradients(kSamples * kWidth);
  const BatchReference lost = fixture.Submit();  // The trainer did not get the response.
  const BatchReference reference = fixture.Submit();
  REQUIRE(fixture.Pull(lost).ok());
  REQUIRE(fixture.Pull(reference).ok());
  fixture.recorders[1]->status = absl::UnavailableError("gone");
  CHECK(absl::IsAborted(fixture.Push(reference, gradients)));
  CHECK(fixture.metrics.occurrences.value() == 0);
  fixture.recorders[1]->status = absl::OkStatus();
  fixture.pushed.clear();
  REQUIRE(fixture.Push(reference, gradients).ok());
  CHECK(fixture.metrics.occurrences.value() == fixture.batch->occurrences.size());
  CHECK(fixture.metrics.unique_rows.value() == fixture.pushed.size());
}

TEST_CASE("Concurrent pulls of one evaluation batch count its ids once") {
  WorkerFixture fixture;
  const BatchReference reference = fixture.Submit();
  const auto pull = [&](std::vector<float>& out) -> rpc::awaitable<Status> {
    const auto answer = co_await fixture.worker->Pull(
        reference, {.mode = LookupMode::kEvaluate},
        {MatrixView(out.data(), kSamples, kWidth), nullptr}, rpc::Clock::time_point::max());
    co_return answer.status();
  };
  std::vector<float> again(fixture.out.size());
  std::vector<rpc::awaitable<Status>> pulls;
  pulls.push_back(pull(fixture.out));
  pulls.push_back(pull(again));
  CHECK(fixture.Run(rpc::WhenAll(std::move(pulls))).ok());
  CHECK(again == fixture.out);
  CHECK(fixture.metrics.occurrences.value() == fixture.batch->occurrences.size());
}

TEST_CASE("A reference of an earlier incarnation is not found") {
  WorkerFixture fixture;
  BatchReference reference = fixture.Submit();
  reference.worker_incarnation = 6;
  CHECK(absl::IsNotFound(fixture.Pull(reference)));
}

TEST_CASE("A lost server fails the call with ABORTED and keeps the batch") {
  WorkerFixture fixture;
  const BatchReference reference = fixture.Submit();
  fixture.recorders[1]->status = absl::UnavailableError("embedding-ps 1: gone");
  const Status lost = fixture.Pull(reference);
  CHECK(absl::IsAborted(lost));
  CHECK_THAT(std::string(lost.message()), Catch::Contains("embedding-ps 1"));
  fixture.recorders[1]->status = absl::OkStatus();
  CHECK(fixture.Pull(reference).ok());
}

TEST_CASE("A submit waits for space; at the deadline its error names the full limit") {
  WorkerFixture fixture;
  std::vector<BatchReference> kept;
  for (int i = 0; i < 4; ++i) kept.push_back(fixture.Submit());
  const auto late =
      fixture.Run(fixture.worker->Submit(fixture.batch, fixture.NextOptions(), rpc::Clock::now()));
  CHECK(absl::IsResourceExhausted(late.status()));
  CHECK_THAT(std::string(late.status().message()),
             Catch::Contains("4 batches of 4") && Catch::Contains("forward_buffer_batches"));

  // Two wait; each push admits one, in order of arrival.
  const auto submit = [&] {
    return rpc::asio::co_spawn(
        fixture.io.executor(),
        fixture.worker->Submit(fixture.batch, fixture.NextOptions(), rpc::Clock::time_point::max()),
        rpc::asio::use_future);
  };
  const std::vector<float> gradients(kSamples * kWidth);
  auto first = submit();
  auto second = submit();
  REQUIRE(fixture.Push(kept[0], gradients).ok());
  const auto first_reference = first.get();
  REQUIRE(first_reference.ok());
  fixture.pushed.clear();
  REQUIRE(fixture.Push(kept[1], gradients).ok());
  const auto second_reference = second.get();
  REQUIRE(second_reference.ok());
  CHECK(first_reference->number < second_reference->number);
  CHECK(fixture.Pull(*first_reference).ok());
  CHECK(fixture.Pull(*second_reference).ok());
}

TEST_CASE("A batch with a wrong number of features is rejected") {
  WorkerFixture fixture;
  BatchBuilder builder(2, 0);
  builder.EndSample();
  const auto refused = fixture.Run(
      fixture.worker->Submit(builder.Build()->sparse, {}, rpc::Clock::time_point::max()));
  CHECK(absl::IsInvalidArgument(refused.status()));
}

}  // namespace
}  // namespace simurgh
