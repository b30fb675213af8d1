#include "embedding/argmax_wire.h"

#include <vector>

#include <catch2/catch.hpp>

namespace simurgh {
namespace {

// Two samples of a sum feature, then of two max-pooled features of dims 2 and 1.
const BatchLayout kLayout{.features = {{.table = 0, .pooling = {.kind = Pooling::kSum}},
                                       {.table = 0, .pooling = {.kind = Pooling::kMax}},
                                       {.table = 1, .pooling = {.kind = Pooling::kMax}}},
                          .table_dims = {2, 1}};

CompactBatch BatchOf(uint32_t longest) {
  return {.batch_size = 2, .offsets = {0, 9, 18, 19, 19, 21, 21 + longest}};
}

std::vector<std::byte> BytesOf(const std::vector<int>& numbers) {
  std::vector<std::byte> bytes;
  for (const int number : numbers) bytes.push_back(std::byte(number));
  return bytes;
}

TEST_CASE(
    "Argmax take the bytes of the longest max-pooled list, and none for samples without ids") {
  struct Case {
    uint32_t longest;
    uint32_t last;
    std::vector<std::byte> bytes;
  };
  const auto [longest, last, bytes] = GENERATE(
      Case{256, 255, BytesOf({0, 0, 0, 0, 1, 255})},
      Case{257, 256, BytesOf({0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1})},
      Case{65'537, 65'536, BytesOf({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1})});
  CAPTURE(longest);
  const CompactBatch batch = BatchOf(longest);
  REQUIRE(ArgmaxBytes(kLayout, batch) == bytes.size());
  std::vector<std::byte> encoded(bytes.size());
  EncodeArgmax(kLayout, batch, std::vector<uint32_t>{0, 0, 77, 77, 1, last}, encoded);
  CHECK(encoded == bytes);
  std::vector<uint32_t> decoded(6, 99);
  REQUIRE(DecodeArgmax(kLayout, batch, bytes, decoded).ok());
  CHECK(decoded == std::vector<uint32_t>{0, 0, 0, 0, 1, last});
}

TEST_CASE("Argmax of lists of one id take no bytes") {
  const CompactBatch batch{.batch_size = 2, .offsets = {0, 9, 18, 19, 19, 20, 21}};
  CHECK(ArgmaxBytes(kLayout, batch) == 0);
  std::vector<uint32_t> decoded(6, 99);
  REQUIRE(DecodeArgmax(kLayout, batch, {}, decoded).ok());
  CHECK(decoded == std::vector<uint32_t>(6));
}

}  // namespace
}  // namespace simurgh
