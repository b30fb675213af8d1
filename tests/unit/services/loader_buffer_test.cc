#include "services/nn_worker/loader_buffer.h"

#include <atomic>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "data/batch/batch_builder.h"

namespace simurgh {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;
using std::chrono_literals::operator""h;
using Answer = LoaderBuffer::Answer;

// One sample, identified by its dense value.
Batch Numbered(float number) {
  BatchBuilder builder(1, 1);
  builder.SetDense(0, number);
  builder.EndSample();
  return *builder.Build();
}

float NumberOf(const Batch& batch) { return batch.dense.values.at(0); }

// Size of every batch in this file.
constexpr size_t kBytes = 100;
constexpr size_t kPlenty = 1'000'000;

// Admits a batch if there is room.
StatusOr<Answer> Feed(LoaderBuffer& buffer, uint32_t loader, uint64_t number, float value,
                      uint64_t skipped = 0) {
  SIMURGH_ASSIGN_OR_RETURN(auto reserved, buffer.Reserve(loader, number, kBytes));
  if (reserved.answer != Answer::kRoom) return reserved.answer;
  SIMURGH_RETURN_IF_ERROR(reserved.place->Fill(Numbered(value), skipped));
  return Answer::kTaken;
}

Answer Offer(LoaderBuffer& buffer, uint32_t loader, uint64_t number, float value) {
  const auto answer = Feed(buffer, loader, number, value);
  INFO(answer.status().ToString());
  REQUIRE(answer.ok());
  return *answer;
}

std::vector<float> TakeAll(LoaderBuffer& buffer) {
  std::vector<float> numbers;
  while (true) {
    const auto batch = buffer.Take();
    INFO(batch.status().ToString());
    REQUIRE(batch.ok());
    if (!batch->has_value()) return numbers;
    numbers.push_back(NumberOf(**batch));
  }
}

TEST_CASE(
    "A rank without a batch in a loader's last step gets an empty one, before others' batches") {
  LoaderBuffer buffer(2, 4, kPlenty, 10s);
  for (uint32_t loader : {0, 1}) REQUIRE(buffer.Open(loader).ok());
  Offer(buffer, 0, 0, 1.0F);
  for (int i = 0; i < 3; ++i) Offer(buffer, 1, i, static_cast<float>(10 + i));
  for (int i = 0; i < 2; ++i) CHECK(buffer.End(0, 1, {}, /*short_step=*/true).ok());
  CHECK(buffer.End(1, 3).ok());
  std::vector<float> taken;
  for (auto batch = *buffer.Take(); batch; batch = *buffer.Take()) {
    taken.push_back(batch->size() == 0 ? -1 : NumberOf(*batch));
    if (batch->size() == 0) CHECK(batch->progress.share == 0);
  }
  CHECK(taken == std::vector<float>{1, 10, -1, 11, 12});
}

TEST_CASE("The loader whose turn it was before a checkpoint is the first") {
  DataPosition begin(Division{.batch_size = 1, .piece_batches = 1, .shares = 3});
  begin.Advance({.share = 0, .files = 1, .next = {0, 1}});
  LoaderBuffer buffer(3, 4, kPlenty, 10s, begin);
  for (uint32_t loader : {0, 1, 2}) {
    REQUIRE(buffer.Open(loader).ok());
    Offer(buffer, loader, 0, static_cast<float>(loader));
    REQUIRE(buffer.End(loader, 1).ok());
  }
  CHECK(TakeAll(buffer) == std::vector<float>{1, 2, 0});
}

TEST_CASE("batches are read round-robin from the loaders that have not ended") {
  LoaderBuffer buffer(3, 4, kPlenty, 10s);
  for (uint32_t loader = 0; loader < 3; ++loader) REQUIRE(buffer.Open(loader)->taken == 0);
  for (uint64_t number = 0; number < 3; ++number) {
    CHECK(Offer(buffer, 2, number, 20.0F + static_cast<float>(number)) == Answer::kTaken);
  }
  CHECK(Offer(buffer, 0, 0, 0.0F) == Answer::kTaken);
  CHECK(Offer(buffer, 0, 1, 1.0F) == Answer::kTaken);
  CHECK(buffer.End(1, 0, 5).ok());
  CHECK(buffer.End(0, 2).ok());
  CHECK(buffer.End(2, 3, 7).ok());
  CHECK(buffer.End(2, 3, 7).ok());
  CHECK(TakeAll(buffer) == std::vector<float>{0, 20, 1, 21, 22});
  CHECK(buffer.skipped_rows() == 12);
}

TEST_CASE("a repeated batch is taken once; an early one waits") {
  LoaderBuffer buffer(1, 2, kPlenty, 10s);
  int changes = 0;
  buffer.SetOnChange([&changes] { ++changes; });
  REQUIRE(buffer.Open(0).ok());
  CHECK(Offer(buffer, 0, 1, 1.0F) == Answer::kWait);
  CHECK(Offer(buffer, 0, 0, 0.0F) == Answer::kTaken);
  CHECK(changes == 1);
  CHECK(Offer(buffer, 0, 0, 99.0F) == Answer::kTaken);
  CHECK(Offer(buffer, 0, 1, 1.0F) == Answer::kTaken);
  CHECK(Offer(buffer, 0, 2, 2.0F) == Answer::kWait);  // Full.
  CHECK(NumberOf(**buffer.Take()) == 0.0F);
  CHECK(changes == 3);
  CHECK(buffer.Open(0)->taken == 2);  // A restarted loader continues.
  CHECK(Offer(buffer, 0, 2, 2.0F) == Answer::kTaken);
  CHECK(buffer.End(0, 4).code() == absl::StatusCode::kFailedPrecondition);
  CHECK(buffer.End(0, 3).ok());
  CHECK(TakeAll(buffer) == std::vector<float>{1, 2});
}

TEST_CASE("held and waiting batches are within the limit in bytes") {
  LoaderBuffer buffer(2, 10, 2 * kBytes, 10s);
  for (const uint32_t loader : {0, 1}) REQUIRE(buffer.Open(loader).ok());
  auto held = buffer.Reserve(1, 0, kBytes);
  REQUIRE(held->answer == Answer::kRoom);
  CHECK(buffer.bytes() == kBytes);
  CHECK(Offer(buffer, 0, 0, 0.0F) == Answer::kTaken);
  CHECK(buffer.bytes() == 2 * kBytes);
  CHECK(Offer(buffer, 0, 1, 1.0F) == Answer::kWait);
  REQUIRE(held->place->Fill(Numbered(10.0F)).ok());
  CHECK(buffer.bytes() == 2 * kBytes);
  CHECK(Offer(buffer, 1, 1, 11.0F) == Answer::kWait);
  CHECK(NumberOf(**buffer.Take()) == 0.0F);
  CHECK(buffer.bytes() == kBytes);
  CHECK(Offer(buffer, 1, 1, 11.0F) == Answer::kTaken);
  buffer.Fail("the end");
  CHECK(buffer.bytes() == 0);
}

TEST_CASE("an unfilled reservation is freed and wakes the next waiter") {
  LoaderBuffer buffer(1, 10, kBytes, 10s);
  int changes = 0;
  buffer.SetOnChange([&changes] { ++changes; });
  REQUIRE(buffer.Open(0).ok());
  {
    const auto held = buffer.Reserve(0, 0, kPlenty);
    REQUIRE(held->answer == Answer::kRoom);
    CHECK(buffer.bytes() == kPlenty);
    // A retry meanwhile waits: decoding may still fail.
    CHECK(Offer(buffer, 0, 0, 0.0F) == Answer::kWait);
    CHECK(changes == 0);
  }
  CHECK(changes == 1);
  CHECK(buffer.bytes() == 0);
  CHECK(Offer(buffer, 0, 0, 5.0F) == Answer::kTaken);
  CHECK(NumberOf(**buffer.Take()) == 5.0F);
}

TEST_CASE("a batch larger than the limit is admitted in its turn only") {
  LoaderBuffer buffer(3, 2, 1, 10s);  // A byte.
  int changes = 0;
  buffer.SetOnChange([&changes] { ++changes; });
  for (const uint32_t loader : {0, 1, 2}) REQUIRE(buffer.Open(loader).ok());
  CHECK(Offer(buffer, 1, 0, 10.0F) == Answer::kWait);
  CHECK(Offer(buffer, 2, 0, 20.0F) == Answer::kWait);
  CHECK(Offer(buffer, 0, 0, 0.0F) == Answer::kTaken);
  CHECK(Offer(buffer, 0, 1, 1.0F) == Answer::kWait);
  CHECK(Offer(buffer, 1, 0, 10.0F) == Answer::kWait);
  CHECK(NumberOf(**buffer.Take()) == 0.0F);
  CHECK(Offer(buffer, 2, 0, 20.0F) == Answer::kWait);
  const int before = changes;
  CHECK(buffer.End(1, 0).ok());  // The next loader's turn; waiters wake.
  CHECK(changes == before + 1);
  CHECK(Offer(buffer, 0, 1, 1.0F) == Answer::kWait);
  CHECK(Offer(buffer, 2, 0, 20.0F) == Answer::kTaken);
  CHECK(NumberOf(**buffer.Take()) == 20.0F);
  CHECK(Offer(buffer, 0, 1, 1.0F) == Answer::kTaken);
}

TEST_CASE("a batch decoded after the end of the run is dropped") {
  LoaderBuffer buffer(1, 2, kPlenty, 10s);
  REQUIRE(buffer.Open(0).ok());
  auto held = buffer.Reserve(0, 0, kBytes);
  REQUIRE(held->answer == Answer::kRoom);
  const bool fails = GENERATE(false, true);
  if (fails) {
    buffer.Fail("rank 1 is gone");
  } else {
    buffer.Finish();
  }
  REQUIRE(held->place->Fill(Numbered(0.0F)).ok());
  CHECK(buffer.bytes() == 0);
  if (fails) {
    CHECK(buffer.Reserve(0, 0, kBytes).status().code() == absl::StatusCode::kAborted);
  } else {
    CHECK(Offer(buffer, 0, 0, 0.0F) == Answer::kEnough);
  }
}

TEST_CASE("unexpected loaders are rejected by name") {
  LoaderBuffer buffer(2, 2, kPlenty, 10s);
  CHECK(buffer.Open(2).status().code() == absl::StatusCode::kInvalidArgument);
  const Status unknown = buffer.Reserve(1, 17, kBytes).status();
  CHECK(unknown.code() == absl::StatusCode::kFailedPrecondition);
  CHECK_THAT(std::string(unknown.message()),
             Catch::Contains("loader 1 is not connected to this trainer"));
  REQUIRE(buffer.Open(1).ok());
  REQUIRE(buffer.End(1, 0).ok());
  CHECK_THAT(std::string(buffer.Reserve(1, 0, kBytes).status().message()),
             Catch::Contains("has ended after 0 batches"));
}

TEST_CASE("loaders that have not connected are named, unless one has given up") {
  LoaderBuffer buffer(3, 2, kPlenty, 30ms);
  REQUIRE(buffer.Open(1).ok());
  CHECK(buffer.AwaitOpen(1ms) == "loader 0 of 3 (from 0), loader 2 of 3 (from 0)");
  REQUIRE(buffer.Open(0).ok());
  SECTION("the last one connects") {
    std::thread last([&] { (void)buffer.Open(2); });
    CHECK(buffer.AwaitOpen(60s).empty());
    last.join();
  }
  SECTION("the last one cannot read its share") {
    std::thread last([&] { (void)buffer.Abandon(2, "no file"); });
    CHECK(buffer.AwaitOpen(60s).empty());
    last.join();
  }
}

TEST_CASE("a silent loader times out the reader, by name") {
  LoaderBuffer buffer(2, 2, kPlenty, 30ms);
  REQUIRE(buffer.Open(0).ok());
  REQUIRE(Offer(buffer, 0, 0, 0.0F) == Answer::kTaken);
  REQUIRE(buffer.Take().ok());
  const Status never = buffer.Take().status();
  CHECK(never.code() == absl::StatusCode::kDeadlineExceeded);
  CHECK_THAT(std::string(never.message()),
             Catch::StartsWith("loader 1 of 2 (from 0) has fed nothing for 30 ms "
                               "(loaders.timeout) since the trainer began to wait for it"));
  REQUIRE(buffer.Open(1).ok());
  REQUIRE(Offer(buffer, 1, 0, 0.0F) == Answer::kTaken);
  REQUIRE(buffer.Take().ok());
  REQUIRE(buffer.End(1, 1).ok());
  CHECK_THAT(std::string(buffer.Take().status().message()),
             Catch::StartsWith("loader 0 of 2 (from 0) has fed nothing for 30 ms "
                               "(loaders.timeout) after its batch 1"));
}

TEST_CASE("loaders learn that the trainer has enough, or that it failed") {
  LoaderBuffer buffer(1, 1, kPlenty, 10s);
  REQUIRE(buffer.Open(0).ok());
  REQUIRE(Offer(buffer, 0, 0, 0.0F) == Answer::kTaken);
  const auto reader = NewLoaderReader(buffer);
  reader->Stop();  // Does not set the result of the run.
  CHECK(reader->Next().status().code() == absl::StatusCode::kCancelled);
  CHECK(Offer(buffer, 0, 1, 1.0F) == Answer::kWait);
  buffer.Finish();
  CHECK(Offer(buffer, 0, 1, 1.0F) == Answer::kEnough);
  CHECK(buffer.End(0, 99).ok());
  buffer.Fail("rank 1 is gone");
  buffer.Fail("and another reason");
  const Status failed = buffer.Reserve(0, 1, kBytes).status();
  CHECK(failed.code() == absl::StatusCode::kAborted);
  CHECK(failed.message() == "training has ended before its data: rank 1 is gone");
  CHECK(buffer.Open(0).status() == failed);
  CHECK(buffer.End(0, 1) == failed);
}

TEST_CASE("the end of a run waits until all feeding loaders have learned of it") {
  const bool fails = GENERATE(false, true);
  LoaderBuffer buffer(4, 1, kPlenty, 10s);
  for (const uint32_t loader : {0, 1, 2}) REQUIRE(buffer.Open(loader).ok());
  REQUIRE(buffer.End(1, 0).ok());
  if (fails) {
    buffer.Fail("rank 1 is gone");
  } else {
    buffer.Finish();
  }
  buffer.AwaitNotifiedAll(std::chrono::steady_clock::now());  // Returns at the deadline.
  std::atomic<bool> one_told = false;
  std::jthread loaders([&] {
    static_cast<void>(buffer.Reserve(0, 0, kBytes));
    one_told = true;
    static_cast<void>(buffer.Reserve(2, 0, kBytes));
  });
  buffer.AwaitNotifiedAll(std::chrono::steady_clock::now() + 1h);
  CHECK(one_told);
}

TEST_CASE(
    "a loader's error fails the trainer, with or without batches, and then the other loaders") {
  const bool has_batches = GENERATE(false, true);
  LoaderBuffer buffer(2, 1, kPlenty, 60s);
  for (const uint32_t loader : {0, 1}) REQUIRE(buffer.Open(loader).ok());
  if (has_batches) REQUIRE(Offer(buffer, 0, 0, 0.0F) == Answer::kTaken);
  const auto reader = NewLoaderReader(buffer);
  CHECK(buffer.Abandon(2, "?").code() == absl::StatusCode::kInvalidArgument);
  std::jthread loader([&buffer] {
    static_cast<void>(buffer.Abandon(1, "rows.csv:7: column 'age': 'forty' is no number"));
    static_cast<void>(buffer.Abandon(1, "another reason"));
  });
  if (has_batches) loader.join();
  const auto next = reader->Next();
  CHECK(next.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(std::string(next.status().message()) ==
        "loader 1 of 2 (from 0): rows.csv:7: column 'age': 'forty' is no number");
  CHECK(buffer.Reserve(0, 1, kBytes).status().code() == absl::StatusCode::kAborted);
}

TEST_CASE("the bad rows of all loaders are counted") {
  LoaderBuffer buffer(2, 4, kPlenty, 10s);
  for (const uint32_t loader : {0, 1}) REQUIRE(buffer.Open(loader).ok());
  const auto offer = [&buffer](uint32_t loader, uint64_t number, uint64_t skipped) {
    REQUIRE(*Feed(buffer, loader, number, 0.0F, skipped) == Answer::kTaken);
  };
  offer(0, 0, 3);
  offer(0, 1, 6);
  offer(0, 0, 9);  // Repeated: not counted.
  offer(1, 0, 2);
  CHECK(buffer.skipped_rows() == 8);
  REQUIRE(buffer.End(1, 1, 3).ok());
  CHECK(buffer.skipped_rows() == 9);
}

TEST_CASE("ended_empty: all loaders have ended without a batch") {
  LoaderBuffer buffer(2, 4, kPlenty, 10s);
  for (const uint32_t loader : {0, 1}) REQUIRE(buffer.Open(loader).ok());
  const bool has_one = GENERATE(false, true);
  if (has_one) REQUIRE(Offer(buffer, 1, 0, 0.0F) == Answer::kTaken);
  REQUIRE(buffer.End(0, 0).ok());
  CHECK_FALSE(buffer.ended_empty());
  REQUIRE(buffer.End(1, has_one ? 1 : 0).ok());
  CHECK(buffer.ended_empty() == !has_one);
}

TEST_CASE("a loader's error after the trainer has enough is ignored") {
  LoaderBuffer buffer(1, 1, kPlenty, 60s);
  REQUIRE(buffer.Open(0).ok());
  buffer.Finish();
  CHECK(buffer.Abandon(0, "too late").ok());
}

TEST_CASE("a stream's restarted loader continues at its offsets, and the earlier one is refused") {
  DataPosition begin({.batch_size = 1, .piece_batches = 1, .shares = 2});
  begin.Merge({{"t/0", 3}, {"t/1", 5}});
  LoaderBuffer buffer(2, 4, kPlenty, 60s, begin);
  const auto first = buffer.Open(0);
  REQUIRE(first.ok());
  CHECK(first->position == begin);
  const auto feed = [&](uint64_t number, uint64_t session, uint64_t next) -> Status {
    SIMURGH_ASSIGN_OR_RETURN(auto reserved, buffer.Reserve(0, number, kBytes, session));
    REQUIRE(reserved.answer == Answer::kRoom);
    Batch batch = Numbered(0.0F);
    batch.progress.offsets = {{"t/0", next}};
    return reserved.place->Fill(std::move(batch));
  };
  REQUIRE(feed(0, first->session, 13).ok());
  auto held = buffer.Reserve(0, 1, kBytes, first->session);
  REQUIRE(held.ok());
  const auto second = buffer.Open(0);
  REQUIRE(second.ok());
  CHECK(second->taken == 1);
  CHECK(second->position.offsets() == StreamOffsets{{"t/0", 13}, {"t/1", 5}});
  // It was on its way when the second one began.
  CHECK(absl::IsFailedPrecondition(held->place->Fill(Numbered(0.0F))));
  CHECK(absl::IsFailedPrecondition(feed(1, first->session, 23)));
  CHECK(feed(1, second->session, 25).ok());
  CHECK(buffer.Open(0)->position.offsets().at("t/0") == 25);
}

TEST_CASE("an early end does not wait for a batch") {
  LoaderBuffer buffer(1, 1, kPlenty, 60s);
  REQUIRE(buffer.Open(0).ok());
  std::jthread ending([&] { buffer.EndEarly(); });
  auto taken = buffer.Take();
  REQUIRE((taken.ok() && taken->has_value()));
  CHECK((*taken)->idle);
  CHECK(Offer(buffer, 0, 0, 1.0F) == Answer::kTaken);
  CHECK(NumberOf(**buffer.Take()) == 1.0F);
}

TEST_CASE("a stop wakes a waiting reader") {
  LoaderBuffer buffer(1, 1, kPlenty, 60s);
  const auto reader = NewLoaderReader(buffer);
  std::jthread stopper([&reader] { reader->Stop(); });
  CHECK(reader->Next().status().code() == absl::StatusCode::kCancelled);
}

TEST_CASE("concurrent loaders: every batch once, round-robin") {
  constexpr size_t kLoaders = 3;
  constexpr uint64_t kBatches = 200;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    INFO("seed " << seed);
    // Room for fewer than one batch per loader: the loader in turn is admitted.
    LoaderBuffer buffer(kLoaders, 2, 2 * kBytes, 60s);
    std::atomic<uint64_t> changes = 0;
    buffer.SetOnChange([&changes] {
      ++changes;
      changes.notify_all();
    });
    std::vector<std::jthread> threads;
    for (uint32_t loader = 0; loader < kLoaders; ++loader) {
      threads.emplace_back([&buffer, &changes, loader, seed] {
        Random random(seed * 100 + loader);
        uint64_t number = buffer.Open(loader)->taken;
        while (number < kBatches) {
          const uint64_t before = changes;
          // Sometimes repeats an earlier batch.
          const uint64_t offered = number - random.Below(std::min<uint64_t>(number, 3) + 1);
          const auto answer =
              Feed(buffer, loader, offered, static_cast<float>(offered * kLoaders + loader));
          if (!answer.ok()) return;
          if (*answer == Answer::kWait) changes.wait(before);
          if (*answer == Answer::kTaken && offered == number) ++number;
        }
        static_cast<void>(buffer.End(loader, kBatches));
      });
    }
    std::vector<float> expected(kLoaders * kBatches);
    for (size_t i = 0; i < expected.size(); ++i) expected[i] = static_cast<float>(i);
    CHECK(TakeAll(buffer) == expected);
  }
}

}  // namespace
}  // namespace simurgh
