#include "simurgh/data/argmax_codec.h"

#include <numeric>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "simurgh/base/random.h"

namespace simurgh {
namespace {

// A feature whose samples have `counts` occurrences of any ids.
struct Lists {
  explicit Lists(const std::vector<uint32_t>& counts) : offsets(counts.size() + 1) {
    std::partial_sum(counts.begin(), counts.end(), offsets.begin() + 1);
  }
  FeatureView feature() const { return {.offsets = offsets}; }

  std::vector<uint32_t> offsets;
};

std::vector<std::byte> Encoded(const FeatureView& feature, size_t dim,
                               const std::vector<uint32_t>& argmax) {
  const size_t bytes = ArgmaxBytes(feature, dim);
  std::vector<std::byte> out(bytes + kArgmaxSlackBytes);
  EncodeArgmax(feature, dim, argmax, out);
  out.resize(bytes);
  return out;
}

TEST_CASE("argmax take the fewest bits for their sample") {
  // No bits, none, one, two, three a position.
  const Lists lists({0, 1, 2, 3, 5});
  const std::vector<uint32_t> argmax = {77, 77, 0, 0, 1, 0, 2, 1, 4, 3};
  REQUIRE(ArgmaxBytes(lists.feature(), 2) == 2);
  CHECK(Encoded(lists.feature(), 2, argmax) ==
        std::vector<std::byte>{std::byte{0b00'01'10'0'1}, std::byte{0b0000'0111}});
  CHECK(Encoded(Lists({1, 1, 0, 1}).feature(), 16, std::vector<uint32_t>(64)).empty());
}

TEST_CASE("argmax are decoded as encoded, for any lengths of lists") {
  const uint64_t seed = GENERATE(range(1, 20));
  CAPTURE(seed);
  Random random(seed);
  const size_t dim = 1 + random.Below(40);
  std::vector<uint32_t> counts(random.Below(200));
  for (uint32_t& count : counts) {
    count = static_cast<uint32_t>(random.Below(uint64_t{1} << random.Below(18)));
  }
  const Lists lists(counts);
  std::vector<uint32_t> argmax;
  size_t bits = 0;
  for (const uint32_t count : counts) {
    for (size_t d = 0; d < dim; ++d) {
      argmax.push_back(count == 0 ? 0 : static_cast<uint32_t>(random.Below(count)));
      for (uint64_t most = 1; most < count; most *= 2) ++bits;
    }
  }
  const std::vector<std::byte> bytes = Encoded(lists.feature(), dim, argmax);
  CHECK(bytes.size() == (bits + 7) / 8);
  CHECK(bytes.size() <= MaxArgmaxBytes(counts.size(), dim));
  std::vector<uint32_t> decoded(argmax.size(), 99);
  REQUIRE(DecodeArgmax(lists.feature(), dim, bytes, decoded) == absl::OkStatus());
  CHECK(decoded == argmax);
}

TEST_CASE("a position beyond its sample's occurrences is refused by name") {
  const Lists lists({2, 6});
  std::vector<uint32_t> decoded(6);
  // Sample 1 from bit 3 on: 5, 6, 0.
  const std::vector<std::byte> bytes = {std::byte{0b10'101'000}, std::byte{0b000'1}};
  const Status status = DecodeArgmax(lists.feature(), 3, bytes, decoded);
  CHECK(absl::IsInvalidArgument(status));
  CHECK(std::string(status.message()) == "sample 1: the largest of element 1 is occurrence 6 of 6");
}

}  // namespace
}  // namespace simurgh
