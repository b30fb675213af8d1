#include "embedding/forward_buffer.h"

#include <optional>

#include <catch2/catch.hpp>

#include "base/step_id.h"

namespace simurgh {
namespace {

using std::chrono_literals::operator""ms;

const ForwardBuffer::Clock::time_point kStart{};

constexpr size_t kPlenty = 1'000'000;

// 8 bytes per id.
std::shared_ptr<BufferedBatch> BatchOf(size_t ids) {
  auto batch = std::make_shared<BufferedBatch>();
  batch->decoded.ids.resize(ids);
  return batch;
}

uint64_t Add(ForwardBuffer& buffer, size_t ids, const SubmitOptions& options = {}) {
  auto batch = BatchOf(ids);
  const size_t bytes = batch->bytes();
  return buffer.Reserve(options, bytes).Fill(std::move(batch), kStart);
}

bool Has(ForwardBuffer& buffer, uint64_t number) { return buffer.Find(number, kStart).ok(); }

TEST_CASE("A forward buffer finds batches by number until they are removed") {
  ForwardBuffer buffer(10, kPlenty, 1000ms, [] {});
  const auto batch = BatchOf(1);
  const uint64_t number = buffer.Reserve({}, 8).Fill(batch, kStart);
  CHECK(*buffer.Find(number, kStart) == batch);
  CHECK(*buffer.Find(number, kStart) == batch);
  buffer.Remove(number);
  CHECK(absl::IsNotFound(buffer.Find(number, kStart).status()));
  buffer.Remove(number);
  CHECK(buffer.size() == 0);
  CHECK(buffer.bytes() == 0);
}

TEST_CASE("A forward buffer limits batches and bytes") {
  ForwardBuffer buffer(3, 1000, 1000ms, [] {});
  CHECK_FALSE(buffer.HasRoom(1001));
  const uint64_t first = Add(buffer, 100);
  CHECK(buffer.bytes() == 800);
  CHECK(buffer.HasRoom(200));
  CHECK_FALSE(buffer.HasRoom(201));
  Add(buffer, 10);
  Add(buffer, 0);
  CHECK_FALSE(buffer.HasRoom(0));
  CHECK_THAT(buffer.Describe(), Catch::Contains("3 batches of 3") &&
                                    Catch::Contains("880 bytes of 1000") &&
                                    Catch::Contains("embedding_worker.forward_buffer_bytes"));
  buffer.Remove(first);
  CHECK(buffer.HasRoom(920));
  CHECK_FALSE(buffer.HasRoom(921));
  buffer.Expire(kStart + 1000ms);
  CHECK(buffer.bytes() == 0);
  CHECK(buffer.HasRoom(1000));
}

TEST_CASE("A reservation counts its bound until it is filled, and nothing once it is destroyed") {
  int changes = 0;
  ForwardBuffer buffer(2, 1000, 100ms, [&changes] { ++changes; });
  std::optional<ForwardBuffer::Place> place(buffer.Reserve({}, 900));
  CHECK(changes == 1);
  CHECK(buffer.size() == 1);
  CHECK_FALSE(buffer.HasRoom(101));
  CHECK(absl::IsNotFound(buffer.Find(1, kStart).status()));
  CHECK(buffer.Expire(kStart + 1000ms) == 0);  // Reservations do not expire.
  const uint64_t number = place->Fill(BatchOf(100), kStart);
  place.reset();
  CHECK(changes == 2);
  CHECK(buffer.bytes() == 800);
  CHECK(buffer.Find(number, kStart).ok());
  {
    const ForwardBuffer::Place never_filled = buffer.Reserve({}, 200);
    CHECK(buffer.size() == 2);
    CHECK_FALSE(buffer.HasRoom(0));
  }
  CHECK(changes == 4);
  CHECK(buffer.size() == 1);
  CHECK(buffer.bytes() == 800);
  buffer.Remove(number);
  CHECK(changes == 5);
}

TEST_CASE("The first batches of each run, rank and mode are exempt from the limit") {
  ForwardBuffer buffer(1, 1000, 1000ms, [] {});
  CHECK(buffer.IsExemptFromLimit({.step = 5}));
  const uint64_t fifth = Add(buffer, 1000, {.step = 5});  // Beyond the limit.
  CHECK_FALSE(buffer.HasRoom(0));
  CHECK_FALSE(buffer.IsExemptFromLimit({.step = 6}));
  CHECK(buffer.IsExemptFromLimit({.step = 6, .lookahead_steps = 2}));
  CHECK(buffer.IsExemptFromLimit({.step = 5}));  // A resubmit.
  CHECK(buffer.IsExemptFromLimit({.step = 4}));
  CHECK(buffer.IsExemptFromLimit({.rank = 1, .step = 6}));
  CHECK(buffer.IsExemptFromLimit({.mode = LookupMode::kEvaluate, .step = 6}));
  CHECK(buffer.IsExemptFromLimit({.run = 1, .step = 6}));
  Add(buffer, 1, {.step = 6, .lookahead_steps = 3});
  CHECK(buffer.IsExemptFromLimit({.step = 7, .lookahead_steps = 3}));
  CHECK_FALSE(buffer.IsExemptFromLimit({.step = 7, .lookahead_steps = 2}));
  buffer.Remove(fifth);
  CHECK(buffer.IsExemptFromLimit({.step = 7, .lookahead_steps = 2}));
  CHECK_FALSE(buffer.IsExemptFromLimit({.step = 7}));
}

TEST_CASE("Without room, an earlier batch of the rank and mode takes the place of the last one") {
  ForwardBuffer buffer(1, kPlenty, 1000ms, [] {});
  const uint64_t other = Add(buffer, 1, {.rank = 1, .step = 9});  // Within the limit.
  const uint64_t seventh = Add(buffer, 1, {.step = 7, .lookahead_steps = 2});
  const uint64_t sixth = Add(buffer, 1, {.step = 6, .lookahead_steps = 2});
  const uint64_t evaluated = Add(buffer, 1, {.mode = LookupMode::kEvaluate, .step = 8});
  CHECK(buffer.size() == 4);
  const uint64_t fifth = Add(buffer, 1, {.step = 5, .lookahead_steps = 2});
  CHECK(buffer.size() == 4);
  CHECK(buffer.bytes() == 32);
  CHECK_FALSE(Has(buffer, seventh));
  for (const uint64_t number : {other, sixth, evaluated, fifth}) CHECK(Has(buffer, number));
  // Rank 1's batch was within the limit: it stays.
  const uint64_t earlier = Add(buffer, 1, {.rank = 1, .step = 8});
  CHECK(Has(buffer, other));
  // Batches of another run, earlier or later, are evicted first.
  const uint64_t of_run_5 = Add(buffer, 1, {.run = 5, .rank = 1, .step = 10});
  CHECK_FALSE(Has(buffer, earlier));
  Add(buffer, 1, {.run = 3, .rank = 1, .step = 10});
  CHECK_FALSE(Has(buffer, of_run_5));
  CHECK(buffer.size() == 5);
}

TEST_CASE("A batch whose reservation was evicted is dropped") {
  ForwardBuffer buffer(0, kPlenty, 1000ms, [] {});
  ForwardBuffer::Place place = buffer.Reserve({.step = 7}, 80);
  const uint64_t sixth = Add(buffer, 1, {.step = 6});
  CHECK(buffer.bytes() == 8);
  const uint64_t seventh = place.Fill(BatchOf(10), kStart);
  CHECK_FALSE(Has(buffer, seventh));
  CHECK(Has(buffer, sixth));
  CHECK(buffer.bytes() == 8);
}

TEST_CASE("Unused batches expire; Find restarts the time") {
  ForwardBuffer buffer(10, kPlenty, 100ms, [] {});
  const uint64_t asked = Add(buffer, 1);
  const uint64_t forgotten = Add(buffer, 1);
  REQUIRE(buffer.Find(asked, kStart + 60ms).ok());
  CHECK(buffer.Expire(kStart + 99ms) == 0);
  CHECK(buffer.Expire(kStart + 100ms) == 1);
  CHECK(absl::IsNotFound(buffer.Find(forgotten, kStart + 100ms).status()));
  CHECK(buffer.Find(asked, kStart + 100ms).ok());
}

TEST_CASE("A batch in use does not expire; its time starts when the use ends") {
  ForwardBuffer buffer(10, kPlenty, 100ms, [] {});
  const uint64_t number = Add(buffer, 1);
  {
    const auto at_work = buffer.Find(number, kStart);
    CHECK(buffer.Expire(kStart + 500ms) == 0);
  }
  CHECK(buffer.Expire(kStart + 599ms) == 0);
  CHECK(buffer.Expire(kStart + 600ms) == 1);
}

TEST_CASE("A pool keeps memory, except if its last batch hardly used it") {
  BatchPool pool(kPlenty);
  const auto use = [&pool](size_t ids) {
    const auto batch = pool.Lease();
    batch->decoded.ids.resize(ids);
  };
  use(1000);
  CHECK(pool.Lease()->bytes() == 8000);
  use(250);
  CHECK(pool.Lease()->bytes() == 8000);
  use(249);
  CHECK(pool.Lease()->bytes() == 0);
}

TEST_CASE("The first batch of a newer start drops those of older starts of its training") {
  ForwardBuffer buffer(3, kPlenty, 1000ms, [] {});
  const uint64_t old_batch = Add(buffer, 1, {.run = RunNumber(1, 7)});
  ForwardBuffer::Place reserved = buffer.Reserve({.run = RunNumber(1, 7), .step = 1}, 8);
  const uint64_t other = Add(buffer, 1, {.run = RunNumber(1, 8)});
  CHECK_FALSE(buffer.HasRoom(8));
  const uint64_t first = Add(buffer, 1, {.run = RunNumber(2, 7)});
  CHECK(buffer.HasRoom(8));
  CHECK_FALSE(Has(buffer, old_batch));
  CHECK(Has(buffer, other));
  CHECK(Has(buffer, first));
  CHECK_FALSE(Has(buffer, reserved.Fill(BatchOf(1), kStart)));
  CHECK(buffer.size() == 2);
}

}  // namespace
}  // namespace simurgh
