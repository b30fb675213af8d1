#include "services/embedding_worker/forward_buffer.h"

#include <catch2/catch.hpp>

namespace simurgh {
namespace {

using std::chrono_literals::operator""ms;

const ForwardBuffer::Clock::time_point kStart{};

constexpr size_t kPlenty = 1'000'000;

// Of 8 bytes an id.
std::shared_ptr<BufferedBatch> BatchOf(size_t ids) {
  auto batch = std::make_shared<BufferedBatch>();
  batch->decoded.ids.resize(ids);
  return batch;
}

TEST_CASE("A forward buffer gives batches back by number until they are removed") {
  ForwardBuffer buffer(10, kPlenty, 1000ms);
  const auto batch = BatchOf(1);
  const uint64_t number = buffer.Add(batch, kStart);
  CHECK(*buffer.Find(number, kStart) == batch);
  CHECK(*buffer.Find(number, kStart) == batch);
  buffer.Remove(number);
  CHECK(absl::IsNotFound(buffer.Find(number, kStart).status()));
  buffer.Remove(number);
  CHECK(buffer.size() == 0);
  CHECK(buffer.bytes() == 0);
}

TEST_CASE("A forward buffer is full by batches, or by bytes, where one batch may always come") {
  ForwardBuffer buffer(3, 1000, 1000ms);
  CHECK(buffer.HasRoom(kPlenty));
  const uint64_t first = buffer.Add(BatchOf(100), kStart);
  CHECK(buffer.bytes() == 800);
  CHECK(buffer.HasRoom(200));
  CHECK_FALSE(buffer.HasRoom(201));
  buffer.Add(BatchOf(10), kStart);
  buffer.Add(BatchOf(0), kStart);
  CHECK_FALSE(buffer.HasRoom(0));
  CHECK_THAT(buffer.Describe(), Catch::Contains("3 batches of 3") &&
                                    Catch::Contains("880 bytes of 1000") &&
                                    Catch::Contains("embedding_worker.forward_buffer_bytes"));
  buffer.Remove(first);
  CHECK(buffer.HasRoom(920));
  CHECK_FALSE(buffer.HasRoom(921));
  buffer.Expire(kStart + 1000ms);
  CHECK(buffer.bytes() == 0);
  CHECK(buffer.HasRoom(kPlenty));
}

TEST_CASE("What nobody asks about expires; a question starts the time anew") {
  ForwardBuffer buffer(10, kPlenty, 100ms);
  const uint64_t asked = buffer.Add(BatchOf(1), kStart);
  const uint64_t forgotten = buffer.Add(BatchOf(1), kStart);
  REQUIRE(buffer.Find(asked, kStart + 60ms).ok());
  CHECK(buffer.Expire(kStart + 99ms) == 0);
  CHECK(buffer.Expire(kStart + 100ms) == 1);
  CHECK(absl::IsNotFound(buffer.Find(forgotten, kStart + 100ms).status()));
  CHECK(buffer.Find(asked, kStart + 100ms).ok());
}

}  // namespace
}  // namespace simurgh
