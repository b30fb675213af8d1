#include "bench/micro/rpc/tensor.h"

#include <vector>

#include <catch2/catch.hpp>

#include "simurgh/base/random.h"

namespace simurgh::bench {
namespace {

TEST_CASE("a tensor that has been produced is consumed, any changed byte of it is noticed") {
  const uint64_t seed = GENERATE(1, 2, 3);
  CAPTURE(seed);
  Random random(seed);
  for (const size_t size : {8, 16, 24, 64, 4'096, 65'544}) {
    CAPTURE(size);
    std::vector<std::byte> tensor(size);
    const uint64_t number = random();
    Produce(tensor, number);
    CHECK(Consume(tensor) == number);
    if (size == 8) continue;  // One word is its number.
    for (int i = 0; i < 20; ++i) {
      const size_t at = 8 + random.Below(size - 8);
      const auto flip = static_cast<std::byte>(1 + random.Below(255));
      tensor[at] ^= flip;
      CHECK(Consume(tensor) != number);
      tensor[at] ^= flip;
    }
    CHECK(Consume(tensor) == number);
  }
}

}  // namespace
}  // namespace simurgh::bench
