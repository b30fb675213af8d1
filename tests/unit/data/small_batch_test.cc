// Batches of few samples: no larger than their ids and a few bytes.

#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "simurgh/base/random.h"
#include "simurgh/data/batch_builder.h"
#include "simurgh/data/encoded_batch.h"
#include "tests/unit/data/encoded_batch_support.h"
#include "tests/unit/data/random_batch.h"

namespace simurgh {
namespace {

using testing::Hex;
using testing::RequireRoundTrip;

constexpr size_t kFewBytes = 16;

size_t BytesOfIds(const CompactBatch& batch) { return 8 * batch.occurrences.size(); }

// Requires fewer than 128 samples and features: each count is then one byte, and the flags follow.
bool IsBare(const EncodedBatch& encoded) {
  return (std::to_integer<int>(encoded.codes.at(3)) & 2) != 0;
}

// One id per sample and feature, out of `distinct`.
CompactBatch SingleValued(size_t features, size_t samples, uint64_t distinct, Random& random) {
  BatchBuilder builder(features, 0);
  for (size_t b = 0; b < samples; ++b) {
    for (size_t f = 0; f < features; ++f) builder.AddId(f, Mix64(random.Below(distinct)));
    builder.EndSample();
  }
  return *builder.Build()->sparse;
}

TEST_CASE("A batch of one id a cell is its ids and a hundredth or a few bytes at most") {
  size_t bare = 0;
  size_t coded = 0;
  for (size_t samples = 1; samples <= 200; ++samples) {
    for (const uint64_t distinct : {uint64_t{1}, uint64_t{300}, ~uint64_t{0}}) {
      Random random(samples);
      const size_t features = random.Below(2) == 0 ? 26 : 1 + random.Below(127);
      CAPTURE(samples, features, distinct);
      const CompactBatch batch = SingleValued(features, samples, distinct, random);
      const EncodedBatch encoded = RequireRoundTrip(batch);
      CHECK(encoded.byte_size() <=
            std::max(BytesOfIds(batch) * 101 / 100, BytesOfIds(batch) + kFewBytes));
      if (samples < 128) ++(IsBare(encoded) ? bare : coded);
    }
  }
  CHECK(bare > 100);  // Both forms have been seen.
  CHECK(coded > 100);
}

TEST_CASE("A large batch of one id a cell is its ids and a hundredth at most") {
  for (const size_t samples : {1'024, 4'096}) {
    for (const uint64_t distinct : {uint64_t{1}, uint64_t{300}, ~uint64_t{0}}) {
      Random random(samples);
      const CompactBatch batch = SingleValued(26, samples, distinct, random);
      CAPTURE(samples, distinct);
      CHECK(RequireRoundTrip(batch).byte_size() <= BytesOfIds(batch) * 101 / 100);
    }
  }
}

TEST_CASE("A batch of one sample and more features than a feature may have samples is its ids") {
  Random random(1);
  const CompactBatch batch = SingleValued(300'000, 1, ~uint64_t{0}, random);
  const EncodedBatch encoded = RequireRoundTrip(batch);
  CHECK(encoded.plain_ids.size() == batch.occurrences.size());
  CHECK(encoded.codes.size() <= kFewBytes);
}

// What lengths take at most: for each 64 of them a byte, and the bits of the longest for all.
size_t MaxBytesOfLengths(const CompactBatch& batch) {
  uint32_t longest = 0;
  bool one_each = true;
  for (size_t i = 1; i < batch.offsets.size(); ++i) {
    const uint32_t length = batch.offsets[i] - batch.offsets[i - 1];
    longest = std::max(longest, length);
    one_each = one_each && length == 1;
  }
  const size_t cells = batch.offsets.size() - 1;
  const size_t bits = std::bit_width(longest);
  return one_each ? 0 : (cells + 63) / 64 + (cells * bits + 7) / 8 + (cells + 63) / 64;
}

TEST_CASE("Any small batch is its ids, weights and lengths, and a hundredth or a few bytes") {
  for (uint64_t seed = 1; seed <= 2'000; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const CompactBatch batch = testing::RandomBatch(random);
    const size_t features = batch.feature_count();
    size_t weights = 0;
    for (size_t f = 0; f < features; ++f) {
      const auto of_feature = batch.feature(f).weights;
      const bool weighted = std::any_of(of_feature.begin(), of_feature.end(),
                                        [](float weight) { return weight != 1.0F; });
      if (weighted) weights += of_feature.size_bytes();
    }
    const size_t shared = batch.lists.empty() ? 0 : features + 2;
    const size_t weighted = weights == 0 ? 0 : 2 + features / 8;
    const size_t most = std::max(BytesOfIds(batch) * 101 / 100, BytesOfIds(batch) + kFewBytes) +
                        weights + weighted + shared + MaxBytesOfLengths(batch);
    CHECK(RequireRoundTrip(batch).byte_size() <= most);
  }
}

TEST_CASE("The bytes of a bare batch match the description") {
  // Feature 0 has ids a, none; feature 1 shares its list: b and a with weights, d; feature 2: c, e.
  constexpr uint64_t a = 0xfedcba9876543210;
  constexpr uint64_t b = 0x0123456789abcdef;
  constexpr uint64_t c = 0x8000000000000001;
  constexpr uint64_t d = 0x5555555555555555;
  constexpr uint64_t e = 3;
  BatchBuilder builder({0, 0, 1}, 0);
  builder.AddId(0, a);
  builder.AddId(1, b, 0.5F);
  builder.AddId(1, a, 2.0F);
  builder.AddId(2, c);
  builder.EndSample();
  builder.AddId(1, d);
  builder.AddId(2, e);
  builder.EndSample();
  const EncodedBatch encoded = RequireRoundTrip(*builder.Build()->sparse);
  CHECK(encoded.plain_ids == std::vector<uint64_t>{a, b, a, d, c, e});
  CHECK(Hex(encoded.codes) ==
        "04 02 03 07 02 00 00 01 "  // Version 4, 2 samples, 3 features, bare, weighted, 2 lists.
        "01 02 61 05 "              // Lengths in 2 bits each: 1, 0, 2, 1, 1, 1.
        "01 02 "                    // Weighted: 0, 1, 0.
        "00 00 00 3f 00 00 00 40 00 00 80 3f ");
}

// A bare batch of 1 sample, 2 features and the ids 5 and 6.
EncodedBatch TwoIds() {
  BatchBuilder builder(2, 0);
  builder.AddId(0, ~uint64_t{5});
  builder.AddId(1, ~uint64_t{6});
  builder.EndSample();
  EncodedBatch encoded = *EncodeBatch(*builder.Build()->sparse);
  REQUIRE(IsBare(encoded));
  return encoded;
}

std::string Refusal(const EncodedBatch& encoded) {
  return std::string(DecodeBatch(encoded).status().message());
}

TEST_CASE("A bare batch that does not add up is refused") {
  const EncodedBatch good = TwoIds();
  REQUIRE(DecodeBatch(good).ok());
  REQUIRE(Hex(good.codes) == "04 01 02 02 00 01 00 ");

  EncodedBatch more = good;
  more.plain_ids.push_back(7);
  CHECK_THAT(Refusal(more), Catch::Contains("3 plain ids, but lengths of 2"));
  EncodedBatch fewer = good;
  fewer.plain_ids.pop_back();
  CHECK_THAT(Refusal(fewer), Catch::Contains("1 plain ids, but lengths of 2"));
  EncodedBatch longer = good;
  longer.codes.push_back(std::byte{0});
  CHECK_THAT(Refusal(longer), Catch::Contains("1 extra bytes"));
  for (size_t size = 0; size < good.codes.size(); ++size) {
    EncodedBatch cut = good;
    cut.codes.resize(size);
    CHECK_THAT(Refusal(cut), Catch::Contains("truncated"));
  }
  EncodedBatch flags = good;
  flags.codes[3] = std::byte{8};
  CHECK_THAT(Refusal(flags), Catch::Contains("unknown flags 8"));
  EncodedBatch nan = good;
  nan.codes[3] = std::byte{6};
  for (const int byte : {1, 2, 0, 0, 0xc0, 0x7f}) nan.codes.push_back(std::byte(byte));
  CHECK_THAT(Refusal(nan), Catch::Contains("feature 1: a weight that is not finite"));
  EncodedBatch two = good;
  two.codes[3] = std::byte{6};
  for (const int byte : {2, 8, 0, 0, 0, 0x3f}) two.codes.push_back(std::byte(byte));
  CHECK_THAT(Refusal(two), Catch::Contains("feature 1: has weights: 2, must be 0 or 1"));
}

TEST_CASE("A few bytes of a bare batch request few cells") {
  // 127 features of 16,383 samples, none of which have an id.
  EncodedBatch encoded;
  for (const int byte : {4, 0xff, 0x7f, 127, 2, 0, 0, 0}) encoded.codes.push_back(std::byte(byte));
  CHECK_THAT(Refusal(encoded), Catch::Contains("127 features of 16383 samples exceed"));
  encoded.codes[3] = std::byte{4};  // 4 features: 65,532 cells.
  CHECK(DecodeBatch(encoded).ok());
}

}  // namespace
}  // namespace simurgh
