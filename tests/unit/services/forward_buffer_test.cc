#include "services/embedding_worker/forward_buffer.h"

#include <catch2/catch.hpp>

namespace simurgh {
namespace {

using std::chrono_literals::operator""ms;

const ForwardBuffer::Clock::time_point kStart{};

std::shared_ptr<const BufferedBatch> AnyBatch() { return std::make_shared<BufferedBatch>(); }

TEST_CASE("A forward buffer gives batches back by number until they are removed") {
  ForwardBuffer buffer(10, 1000ms);
  const auto batch = AnyBatch();
  const StatusOr<uint64_t> number = buffer.Add(batch, kStart);
  REQUIRE(number.ok());
  CHECK(*buffer.Find(*number, kStart) == batch);
  CHECK(*buffer.Find(*number, kStart) == batch);
  buffer.Remove(*number);
  CHECK(absl::IsNotFound(buffer.Find(*number, kStart).status()));
  buffer.Remove(*number);
  CHECK(buffer.size() == 0);
}

TEST_CASE("A full forward buffer refuses and says what to do") {
  ForwardBuffer buffer(2, 1000ms);
  const StatusOr<uint64_t> first = buffer.Add(AnyBatch(), kStart);
  REQUIRE(buffer.Add(AnyBatch(), kStart).ok());
  const Status refused = buffer.Add(AnyBatch(), kStart).status();
  CHECK(absl::IsResourceExhausted(refused));
  CHECK_THAT(std::string(refused.message()), Catch::Contains("forward_buffer_batches"));
  buffer.Remove(*first);
  CHECK(buffer.Add(AnyBatch(), kStart).ok());
}

TEST_CASE("What nobody asks about expires; a question starts the time anew") {
  ForwardBuffer buffer(10, 100ms);
  const StatusOr<uint64_t> asked = buffer.Add(AnyBatch(), kStart);
  const StatusOr<uint64_t> forgotten = buffer.Add(AnyBatch(), kStart);
  REQUIRE(buffer.Find(*asked, kStart + 60ms).ok());
  CHECK(buffer.Expire(kStart + 99ms) == 0);
  CHECK(buffer.Expire(kStart + 100ms) == 1);
  CHECK(absl::IsNotFound(buffer.Find(*forgotten, kStart + 100ms).status()));
  CHECK(buffer.Find(*asked, kStart + 100ms).ok());
}

}  // namespace
}  // namespace simurgh
