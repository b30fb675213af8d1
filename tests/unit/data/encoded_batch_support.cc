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

Bits& Bits::Put(uint64_t value, int count) {
  for (int bit = 0; bit < count; ++bit) bits_.push_back((value >> bit & 1) != 0);
  return *this;
}

std::vector<std::byte> Bits::bytes() const {
  std::vector<std::byte> bytes((bits_.size() + 7) / 8);
  for (size_t i = 0; i < bits_.size(); ++i) {
    if (bits_[i]) bytes[i / 8] |= std::byte(1 << i % 8);
  }
  return bytes;
}

Bits HeadOf(uint64_t samples, uint64_t features, uint64_t lists, uint64_t occurrences,
            bool weighted) {
  Bits head;
  head.Put(5, 8).Put(samples, 16).Put(features, 32).Put(lists, 32).Put(occurrences, 24);
  return head.Put(weighted ? 1 : 0, 1);
}

}  // namespace simurgh::testing
