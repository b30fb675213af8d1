#include "data/encoded/prefix_code.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <vector>

#include <catch2/catch.hpp>

#include "data/encoded/bits.h"
#include "data/encoded/packed_numbers.h"
#include "simurgh/base/random.h"

namespace simurgh {
namespace {

// Bits of the best code without a limit: the sum of a Huffman tree's inner nodes.
uint64_t FewestBits(const std::vector<uint32_t>& counts) {
  std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>> nodes;
  for (const uint32_t count : counts) {
    if (count > 0) nodes.push(count);
  }
  uint64_t bits = 0;
  while (nodes.size() > 1) {
    uint64_t sum = nodes.top();
    nodes.pop();
    sum += nodes.top();
    nodes.pop();
    bits += sum;
    nodes.push(sum);
  }
  return bits;
}

uint64_t BitsOf(const std::vector<uint32_t>& counts, const std::vector<uint8_t>& lengths) {
  uint64_t bits = 0;
  for (size_t s = 0; s < counts.size(); ++s) bits += uint64_t{counts[s]} * lengths[s];
  return bits;
}

TEST_CASE("Codes are complete, unambiguous and as short as can be") {
  for (uint64_t seed = 1; seed <= 2'000; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    std::vector<uint32_t> counts(2 + random.Below(100));
    const uint64_t spread = 1 + random.Below(30);
    for (uint32_t& count : counts) {
      count = static_cast<uint32_t>(random.Below(uint64_t{2} << random.Below(spread)));
    }
    counts[0] = counts[1] = 1;
    std::vector<uint8_t> lengths(counts.size());
    ChooseCodeLengths(counts, lengths);
    std::vector<uint16_t> codes(counts.size());
    REQUIRE(AssignCodes(lengths, codes));
    for (size_t a = 0; a < counts.size(); ++a) {
      REQUIRE((lengths[a] > 0) == (counts[a] > 0));
      for (size_t b = 0; b < a; ++b) {
        if (lengths[a] == 0 || lengths[b] == 0) continue;
        const uint32_t common = (1U << std::min(lengths[a], lengths[b])) - 1;
        REQUIRE((codes[a] & common) != (codes[b] & common));
      }
    }
    const uint64_t fewest = FewestBits(counts);
    REQUIRE(BitsOf(counts, lengths) >= fewest);
    // A tree deeper than 11 takes the 14th Fibonacci number of occurrences at least.
    if (std::accumulate(counts.begin(), counts.end(), uint64_t{0}) < 377) {
      REQUIRE(BitsOf(counts, lengths) == fewest);
    } else {
      REQUIRE(static_cast<double>(BitsOf(counts, lengths)) <= 1.08 * static_cast<double>(fewest));
    }
  }
}

TEST_CASE("A symbol that is alone, and none, take no bits") {
  std::vector<uint8_t> lengths(3, 9);
  ChooseCodeLengths(std::vector<uint32_t>{0, 5, 0}, lengths);
  CHECK(lengths == std::vector<uint8_t>{0, 0, 0});
  ChooseCodeLengths(std::vector<uint32_t>{0, 0, 0}, lengths);
  CHECK(lengths == std::vector<uint8_t>{0, 0, 0});
}

TEST_CASE("Lengths that make no complete code are refused") {
  std::vector<uint16_t> codes(4);
  CHECK(AssignCodes(std::vector<uint8_t>{1, 2, 2, 0}, codes));
  CHECK(codes == std::vector<uint16_t>{0b0, 0b01, 0b11, 0});
  CHECK_FALSE(AssignCodes(std::vector<uint8_t>{1, 2, 0, 0}, codes));
  CHECK_FALSE(AssignCodes(std::vector<uint8_t>{1, 2, 2, 2}, codes));
  CHECK_FALSE(AssignCodes(std::vector<uint8_t>{1, 2, 12, 12}, codes));
  CHECK_FALSE(AssignCodes(std::vector<uint8_t>{0, 0, 0, 0}, codes));
}

TEST_CASE("Packed numbers of every width are decoded") {
  for (uint64_t seed = 1; seed <= 1'000; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    const uint64_t width = random.Below(65);
    std::vector<uint64_t> numbers(random.Below(200));
    for (uint64_t& number : numbers) number = width == 0 ? 0 : random() >> (64 - width);
    ByteWriter out;
    AppendPacked(numbers, out);
    REQUIRE(out.bytes().size() == PackedBytes(numbers));
    REQUIRE(out.bytes().size() <= (numbers.size() + 63) / 64 + (numbers.size() * width + 7) / 8);
    ByteReader in(out.bytes());
    std::vector<uint64_t> back(numbers.size());
    REQUIRE(ReadPacked(in, back));
    REQUIRE(back == numbers);
    REQUIRE(in.Rest().empty());
    if (numbers.empty()) continue;
    ByteReader cut(out.bytes().first(out.bytes().size() - 1));
    REQUIRE_FALSE(ReadPacked(cut, back));
  }
}

}  // namespace
}  // namespace simurgh
