// Submits that wait for space: their memory, order and cancellation.

#include <algorithm>
#include <functional>
#include <future>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/cancellation_signal.hpp>
#include <catch2/catch.hpp>

#include "data/batch/encoded_batch.h"
#include "tests/unit/services/worker_fixture.h"

namespace simurgh {
namespace {

using Submitted = StatusOr<BatchReference>;

ClusterConfig ClusterWithRoomFor(uint32_t batches, uint64_t bytes = uint64_t{1} << 30) {
  ClusterConfig config = SmallCluster();
  config.embedding_worker.forward_buffer_batches = batches;
  config.embedding_worker.forward_buffer_bytes = bytes;
  return config;
}

class RoomFixture : public WorkerFixture {
 public:
  using WorkerFixture::WorkerFixture;

  // Starts a submit of rank 0's next step.
  std::future<Submitted> Begin(const EncodedBatch& encoded) {
    return Begin(encoded, NextOptions());
  }
  std::future<Submitted> Begin(const EncodedBatch& encoded, const SubmitOptions& options) {
    auto arrived = std::make_shared<BufferedBatch>();
    arrived->encoded = encoded;
    submitted.push_back(arrived);
    auto result = rpc::asio::co_spawn(
        io.executor(),
        worker->SubmitEncoded(std::move(arrived), options, rpc::Clock::time_point::max()),
        rpc::asio::bind_cancellation_slot(cancel.emplace_back().slot(), rpc::asio::use_future));
    Settle();
    return result;
  }

  // Runs until no coroutine is ready.
  void Settle() {
    for (int round = 0; round < 4; ++round) {
      io.RunAndWait([] {});
      rpc::asio::post(compute, std::packaged_task<void()>([] {})).get();
    }
    io.RunAndWait([] {});
  }

  // Runs an event and cancels the last submit before either is handled.
  void CancelLast(const std::function<void()>& before) {
    io.RunAndWait([&] {
      before();
      cancel.back().emit(rpc::asio::cancellation_type::terminal);
    });
    Settle();
  }

  size_t decoded() const {
    return static_cast<size_t>(std::ranges::count_if(
        submitted, [](const auto& batch) { return !batch->decoded.offsets.empty(); }));
  }
  double buffered_batches() const { return metrics.buffered_batches.value(); }
  double buffered_bytes() const { return metrics.buffered_bytes.value(); }

  EncodedBatch good = *EncodeBatch(*batch);
  std::vector<std::shared_ptr<BufferedBatch>> submitted;
  std::list<rpc::asio::cancellation_signal> cancel;  // By submission.
  const std::vector<float> gradients = std::vector<float>(kSamples * kWidth);
};

bool IsReady(std::future<Submitted>& result) {
  return result.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

// The reservation of one such batch.
uint64_t BytesOfOne() {
  BufferedBatch arrived;
  const auto batch = SmallBatch();
  arrived.encoded = *EncodeBatch(*batch);
  return *arrived.MaxBytes(batch->feature_count());
}

TEST_CASE("Decoded batches are within both limits for any number of submits") {
  constexpr size_t kRoom = 3;
  const bool by_bytes = GENERATE(false, true);
  CAPTURE(by_bytes);
  const uint64_t bytes = by_bytes ? kRoom * BytesOfOne() : uint64_t{1} << 30;
  RoomFixture fixture(ClusterWithRoomFor(by_bytes ? 100 : kRoom, bytes));
  std::vector<std::future<Submitted>> results;
  for (int i = 0; i < 12; ++i) results.push_back(fixture.Begin(fixture.good));
  for (size_t gone = 0; gone < results.size(); ++gone) {
    CAPTURE(gone);
    const size_t expected = std::min(gone + kRoom, results.size());
    CHECK(fixture.decoded() == expected);
    CHECK(fixture.buffered_batches() == static_cast<double>(expected - gone));
    CHECK(fixture.buffered_bytes() <= static_cast<double>(bytes));
    // The first ones, in order.
    for (size_t i = gone; i < results.size(); ++i) CHECK(IsReady(results[i]) == (i < expected));
    REQUIRE(IsReady(results[gone]));
    const Submitted first = results[gone].get();
    REQUIRE(first.ok());
    CHECK(first->number == gone + 1);
    fixture.pushed.clear();
    REQUIRE(fixture.Push(*first, fixture.gradients).ok());
    fixture.Settle();
  }
  CHECK(fixture.buffered_batches() == 0);
  CHECK(fixture.buffered_bytes() == 0);
}

TEST_CASE("A batch counts all its memory, which its reservation bounds") {
  RoomFixture fixture(ClusterWithRoomFor(1));
  BufferedBatch arrived;
  arrived.encoded = fixture.good;
  const auto most = arrived.MaxBytes(fixture.batch->feature_count());
  REQUIRE(most.ok());
  CHECK(arrived.bytes() < *most);
  REQUIRE(fixture.Begin(fixture.good).get().ok());
  const size_t bytes = fixture.submitted.front()->bytes();
  CHECK(fixture.buffered_bytes() == static_cast<double>(bytes));
  CHECK(bytes <= *most);
  CHECK(bytes >= *most - 8 * fixture.batch->ids.size());  // Features may share rows.
}

TEST_CASE("A batch that fails to decode frees its space for the next one") {
  RoomFixture fixture(ClusterWithRoomFor(1));
  const BatchReference held = *fixture.Begin(fixture.good).get();
  EncodedBatch cut = fixture.good;
  cut.codes.pop_back();
  auto bad = fixture.Begin(cut);
  auto worse = fixture.Begin({});  // Its header is invalid.
  auto next = fixture.Begin(fixture.good);
  CHECK_FALSE(IsReady(bad));
  CHECK(absl::IsInvalidArgument(worse.get().status()));
  CHECK_FALSE(IsReady(next));
  REQUIRE(fixture.Push(held, fixture.gradients).ok());
  CHECK(absl::IsInvalidArgument(bad.get().status()));
  REQUIRE(next.get().ok());
  CHECK(fixture.buffered_batches() == 1);
}

TEST_CASE("A batch with a wrong number of features is rejected by its header, without a wait") {
  RoomFixture fixture(ClusterWithRoomFor(1));
  REQUIRE(fixture.Begin(fixture.good).get().ok());  // The buffer is full.
  const size_t features = fixture.batch->feature_count();
  BatchBuilder builder(features + 1, 0);
  builder.EndSample();
  auto refused = fixture.Begin(*EncodeBatch(*builder.Build()->sparse));
  REQUIRE(IsReady(refused));
  const Status status = refused.get().status();
  CHECK(absl::IsInvalidArgument(status));
  CHECK_THAT(std::string(status.message()),
             Catch::Contains("the batch has " + std::to_string(features + 1) +
                             " features, the cluster has " + std::to_string(features)));
}

TEST_CASE("A cancelled waiting submit does not block later ones") {
  RoomFixture fixture(ClusterWithRoomFor(1));
  const BatchReference held = *fixture.Begin(fixture.good).get();
  auto given_up = fixture.Begin(fixture.good);
  fixture.CancelLast([] {});
  CHECK_FALSE(given_up.get().ok());
  CHECK(fixture.decoded() == 1);
  auto next = fixture.Begin(fixture.good);
  CHECK_FALSE(IsReady(next));
  REQUIRE(fixture.Push(held, fixture.gradients).ok());
  REQUIRE(next.get().ok());
}

TEST_CASE("A submit cancelled after a wake-up that found no space does not block later ones") {
  ClusterConfig config = ClusterWithRoomFor(2);
  config.nn_worker.instances = {{}, {}};
  config.embedding_worker.batch_expiry = std::chrono::milliseconds(0);
  RoomFixture fixture(config);
  REQUIRE(fixture.Begin(fixture.good).get().ok());
  REQUIRE(fixture.Begin(fixture.good).get().ok());
  auto given_up = fixture.Begin(fixture.good);
  CHECK_FALSE(IsReady(given_up));
  // Only the first one expires, since the worker sees the others in use. Another rank's batch
  // takes the space.
  fixture.submitted.front().reset();
  std::future<Submitted> other;
  fixture.CancelLast([&] {
    fixture.worker->ExpireBatches();
    other = rpc::asio::co_spawn(
        fixture.io.executor(),
        fixture.worker->Submit(fixture.batch, {.rank = 1}, rpc::Clock::time_point::max()),
        rpc::asio::use_future);
  });
  CHECK_THROWS(given_up.get());
  CHECK(other.get().ok());
  CHECK(fixture.metrics.plan_seconds.snapshot().total() == 3);
  fixture.io.RunAndWait([&] { fixture.worker->ExpireBatches(); });
  CHECK(fixture.buffered_batches() == 1);
  CHECK(fixture.Begin(fixture.good).get().ok());
}

// A false header: more bytes than the limit.
EncodedBatch ClaimsMuch() {
  BatchBuilder builder(3, 0);
  for (uint64_t id = 0; id < 10'000; ++id) {
    builder.AddId(0, id);
    builder.EndSample();
  }
  EncodedBatch batch = *EncodeBatch(*builder.Build()->sparse);
  batch.codes.pop_back();
  return batch;
}

TEST_CASE("Exempt batches skip the queue and the limits") {
  ClusterConfig config = ClusterWithRoomFor(100, 3 * BytesOfOne());
  config.nn_worker.instances = {{}, {}};
  RoomFixture fixture(config);
  std::vector<BatchReference> held;
  for (int step = 0; step < 3; ++step) held.push_back(*fixture.Begin(fixture.good).get());
  auto claims_much = fixture.Begin(ClaimsMuch());
  auto other = fixture.Begin(fixture.good, {.rank = 1, .step = 7});
  auto after_other = fixture.Begin(fixture.good, {.rank = 1, .step = 8});
  auto evaluated = fixture.Begin(fixture.good, {.mode = LookupMode::kEvaluate});
  auto after_evaluated = fixture.Begin(fixture.good, {.mode = LookupMode::kEvaluate, .step = 1});
  REQUIRE(IsReady(other));
  REQUIRE(IsReady(evaluated));
  CHECK(fixture.buffered_batches() == 5);
  CHECK(fixture.buffered_bytes() <= static_cast<double>(5 * BytesOfOne()));
  for (auto* later : {&claims_much, &after_other, &after_evaluated}) CHECK_FALSE(IsReady(*later));

  REQUIRE(fixture.Push(*other.get(), fixture.gradients).ok());
  fixture.Settle();
  CHECK(after_other.get().ok());
  REQUIRE(fixture.Pull(*evaluated.get(), LookupMode::kEvaluate).ok());
  fixture.Settle();
  CHECK(after_evaluated.get().ok());
  CHECK_FALSE(IsReady(claims_much));
  for (const BatchReference& reference : held) {
    fixture.pushed.clear();
    REQUIRE(fixture.Push(reference, fixture.gradients).ok());
  }
  CHECK(absl::IsInvalidArgument(claims_much.get().status()));
  CHECK(fixture.buffered_batches() == 2);
}

TEST_CASE("lookahead_steps batches are exempt together") {
  RoomFixture fixture(ClusterWithRoomFor(1));
  for (uint64_t step = 4; step < 7; ++step) {
    CHECK(fixture.Begin(fixture.good, {.step = step, .lookahead_steps = 3}).get().ok());
  }
  auto fourth = fixture.Begin(fixture.good, {.step = 7, .lookahead_steps = 3});
  CHECK_FALSE(IsReady(fourth));
}

TEST_CASE("A batch of an unknown rank is rejected") {
  RoomFixture fixture(ClusterWithRoomFor(1));
  auto refused = fixture.Begin(fixture.good, {.rank = 1});
  REQUIRE(IsReady(refused));
  const Status status = refused.get().status();
  CHECK(absl::IsInvalidArgument(status));
  CHECK_THAT(std::string(status.message()),
             Catch::Contains("rank 1 is out of range, the cluster has 1 ranks"));
}

TEST_CASE("Batches submitted within the process also wait unplanned") {
  RoomFixture fixture(ClusterWithRoomFor(1));
  const BatchReference held = fixture.Submit();
  const double bytes = fixture.buffered_bytes();
  CHECK(bytes > 0);
  auto next = rpc::asio::co_spawn(
      fixture.io.executor(),
      fixture.worker->Submit(fixture.batch, fixture.NextOptions(), rpc::Clock::time_point::max()),
      rpc::asio::use_future);
  fixture.Settle();
  CHECK_FALSE(IsReady(next));
  CHECK(fixture.metrics.plan_seconds.snapshot().total() == 1);
  REQUIRE(fixture.Push(held, fixture.gradients).ok());
  REQUIRE(next.get().ok());
  CHECK(fixture.buffered_bytes() == bytes);
}

}  // namespace
}  // namespace simurgh
