#include "tests/unit/data/encoded_batch_support.h"

#include <catch2/catch.hpp>

namespace simurgh::testing {
namespace {

void RequireSame(const CompactBatch& one, const CompactBatch& other) {
  REQUIRE(one.batch_size == other.batch_size);
  REQUIRE(one.ids == other.ids);
  REQUIRE(one.occurrences == other.occurrences);
  REQUIRE(one.offsets == other.offsets);
  REQUIRE(one.unique_ends == other.unique_ends);
  REQUIRE(one.lists == other.lists);
  REQUIRE(one.weights == other.weights);
}

}  // namespace

EncodedBatch RequireRoundTrip(const CompactBatch& batch) {
  const StatusOr<EncodedBatch> encoded = EncodeBatch(batch);
  INFO(encoded.status());
  REQUIRE(encoded.ok());
  const StatusOr<CompactBatch> decoded = DecodeBatch(*encoded);
  INFO(decoded.status());
  REQUIRE(decoded.ok());
  REQUIRE(decoded->Validate().ok());
  RequireSame(*decoded, batch);
  return *encoded;
}

std::string Hex(const std::vector<std::byte>& bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    for (const int digit : {std::to_integer<int>(byte) >> 4, std::to_integer<int>(byte) & 15}) {
      text += "0123456789abcdef"[digit];
    }
    text += ' ';
  }
  return text;
}

}  // namespace simurgh::testing
