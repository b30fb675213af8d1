#include "data/batch/encoded_batch.h"

#include <array>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "bench/datagen/generator.h"
#include "data/batch/batch_builder.h"
#include "tests/unit/data/encoded_batch_support.h"
#include "tests/unit/data/random_batch.h"

namespace simurgh {
namespace {

using testing::Bits;
using testing::HeadOf;
using testing::RequireRoundTrip;

// One feature, one id a sample.
CompactBatch OneFeature(const std::vector<uint64_t>& ids) {
  BatchBuilder builder(1, 0);
  for (const uint64_t id : ids) {
    builder.AddId(0, id);
    builder.EndSample();
  }
  return *builder.Build()->sparse;
}

TEST_CASE("Any batch is decoded as it was encoded") {
  for (uint64_t seed = 1; seed <= 2'000; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    RequireRoundTrip(testing::RandomBatch(random));
  }
}

TEST_CASE("Batches at the limits are decoded as they were encoded") {
  CompactBatch empty;
  empty.offsets = {0};
  RequireRoundTrip(empty);
  empty.batch_size = 7;  // Samples without features.
  RequireRoundTrip(empty);
  RequireRoundTrip({.offsets = {0}, .unique_ends = {0, 0}});  // Features without samples.
  RequireRoundTrip({.batch_size = 2, .offsets = {0, 0, 0}, .unique_ends = {0}});
  RequireRoundTrip(OneFeature({42}));
  RequireRoundTrip(OneFeature({~uint64_t{0}, 0, uint64_t{1} << 63, ~uint64_t{0}}));
  std::vector<uint64_t> ids(kMaxBatchSamples, 5);
  const EncodedBatch same = RequireRoundTrip(OneFeature(ids));
  CHECK(same.byte_size() < 9'000);  // A bit an occurrence and little else.
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = Mix64(i);
  const EncodedBatch distinct = RequireRoundTrip(OneFeature(ids));
  CHECK(distinct.byte_size() < 8 * ids.size() + 9'000);
}

TEST_CASE("A batch with the maximum of occurrences is decoded") {
  BatchBuilder builder(2, 0);
  Random random(1);
  for (size_t b = 0; b < 1'000; ++b) {
    for (size_t i = 0; i < kMaxBatchOccurrences / 2'000; ++i) {
      builder.AddId(0, random());
      builder.AddId(1, random.Below(uint64_t{1} << 34) * random.Below(3));
    }
    builder.EndSample();
  }
  const CompactBatch batch = *builder.Build()->sparse;
  REQUIRE(batch.occurrences.size() == kMaxBatchOccurrences);
  RequireRoundTrip(batch);
}

TEST_CASE("The bytes of a batch match the description") {
  // Feature 0 has ids 7, 7, none, 9; feature 1 shares its list: 9 and 7 with weights, then none, 8,
  // none. Feature 2: three wild ids and the first again.
  BatchBuilder builder({0, 0, 1}, 0);
  const std::array<uint64_t, 3> wild = {0xfedcba9876543210, 0x0123456789abcdef, 0x8000000000000001};
  builder.AddId(0, 7);
  builder.AddId(1, 9, 0.5F);
  builder.AddId(1, 7, 2.0F);
  builder.AddId(2, wild[0]);
  builder.EndSample();
  builder.AddId(0, 7);
  builder.AddId(2, wild[1]);
  builder.EndSample();
  builder.AddId(1, 8);
  builder.AddId(2, wild[2]);
  builder.EndSample();
  builder.AddId(0, 9);
  builder.AddId(2, wild[0]);
  builder.EndSample();
  const EncodedBatch encoded = RequireRoundTrip(*builder.Build()->sparse);
  CHECK(encoded.plain_ids == std::vector<uint64_t>{7, 9, 8, wild[0], wild[1], wild[2]});
  Bits bits = HeadOf(4, 3, 2, 10, true);
  bits.Put(0, 1).Put(0, 1).Put(1, 1);  // Lists of the features.
  bits.Put(3, 24).Put(3, 24);          // Ids of the lists.

  bits.Put(0, 1).Put(1, 24).Put(0, 1);                     // Unweighted, at most 1 id.
  bits.Put(0, 1).Put(1, 1).Put(1, 1).Put(0, 1).Put(1, 1);  // Lengths 1, 1, 0, 1.
  bits.Put(1, 1).Put(0, 1).Put(1, 1);                      // Next, the only one, next.

  bits.Put(1, 1).Put(2, 24).Put(0, 1);                     // Weighted, at most 2 ids.
  bits.Put(0, 1).Put(2, 2).Put(0, 2).Put(1, 2).Put(0, 2);  // Lengths 2, 0, 1, 0.
  bits.Put(1, 1).Put(0, 1).Put(1, 1);                      // Earlier id 1,
  bits.Put(1, 1).Put(0, 1).Put(0, 1);                      // earlier id 0,
  bits.Put(1, 1).Put(1, 1);                                // next.
  bits.Put(0x3f000000, 32).Put(0x40000000, 32).Put(0x3f800000, 32);

  bits.Put(0, 1).Put(1, 24).Put(1, 1);                     // 1 id each.
  bits.Put(1, 1).Put(1, 1).Put(1, 1).Put(0, 1).Put(0, 2);  // Thrice next, index 0 of 3.
  CHECK(encoded.codes == bits.bytes());
}

// A feature of `samples` samples with one id each.
Bits& PutFeature(Bits& bits) { return bits.Put(0, 1).Put(1, 24).Put(1, 1); }

std::string Refusal(const EncodedBatch& encoded) {
  CompactBatch batch;
  EncodedBatch copy = encoded;
  const Status decoded = DecodeBatch(copy, batch);
  CHECK((decoded.ok() || absl::IsInvalidArgument(decoded)));
  return std::string(decoded.message());
}

TEST_CASE("An index refers only to ids that have appeared") {
  const auto refused = Catch::Contains("feature 0: an occurrence of an id before its first");
  Bits bits = HeadOf(4, 1, 1, 4);
  PutFeature(bits.Put(3, 24)).Put(0b111, 3).Put(0, 1);
  Bits good = bits;
  Bits bad = bits;
  CHECK(Refusal({.plain_ids = {5, 6, 7}, .codes = good.Put(2, 2).bytes()}).empty());
  CHECK_THAT(Refusal({.plain_ids = {5, 6, 7}, .codes = bad.Put(3, 2).bytes()}), refused);
  Bits none = HeadOf(2, 1, 1, 2);
  PutFeature(none.Put(1, 24)).Put(0b10, 2);  // Not new, before any id.
  CHECK_THAT(Refusal({.plain_ids = {5}, .codes = none.bytes()}), refused);
}

TEST_CASE("A shared list is read only where it has been written") {
  // Two features share a list of 3 ids; the first one has all of them.
  Bits first = HeadOf(3, 2, 1, 6);
  PutFeature(PutFeature(first.Put(3, 24)).Put(0b111, 3));
  const auto refusal = [&first](const std::vector<std::pair<uint64_t, int>>& second) {
    Bits bits = first;
    for (const auto& [value, count] : second) bits.Put(value, count);
    return Refusal({.plain_ids = {5, 6, 7}, .codes = bits.bytes()});
  };
  const auto refused = Catch::Contains("feature 1: an occurrence of an id before its first");
  CHECK(refusal({{0b0001, 4}, {0b0101, 4}, {0b1001, 4}}).empty());        // Earlier 0, 1, 2.
  CHECK_THAT(refusal({{0b0001, 4}, {0b0101, 4}, {0b1101, 4}}), refused);  // 0, 1, and no 3.
  CHECK(refusal({{0b0001, 4}, {0, 1}, {0, 1}}).empty());                  // 0, index 0, index 0.
  CHECK_THAT(refusal({{0, 1}, {0b0001, 4}, {0, 1}}), refused);            // No index 0 yet.
  CHECK_THAT(refusal({{0b0001, 4}, {0b0101, 4}, {0b11, 2}}),
             Catch::Contains("list 0: 4 of 3 ids occur"));
}

TEST_CASE("Lists are numbered by first use, and there are no more than features") {
  const auto refusal = [](uint64_t lists, uint64_t first, uint64_t second) {
    Bits bits = HeadOf(1, 3, lists, 3);
    bits.Put(first, 1).Put(second, 1).Put(0, 1).Put(0, 60).Put(0, 60).Put(0, 60);
    return Refusal({.plain_ids = {5, 6, 7}, .codes = bits.bytes()});
  };
  CHECK_THAT(refusal(4, 0, 0), Catch::Contains("4 lists of 3 features; expected 1 to 3"));
  CHECK_THAT(refusal(0, 0, 0), Catch::Contains("0 lists of 3 features; expected 1 to 3"));
  CHECK_THAT(refusal(2, 1, 0), Catch::Contains("feature 0: list 1 of 2, expected at most 0"));
  CHECK_THAT(refusal(2, 0, 0), Catch::Contains("2 lists, of which 1 have a feature"));
}

TEST_CASE("Bits after the last feature must be zeros, and fewer than a byte") {
  EncodedBatch encoded = *EncodeBatch(OneFeature({5, 6, 5}));
  // 113 bits of head, 24, 26 and 4: 167; 1 bit is left.
  REQUIRE(encoded.codes.size() == 21);
  EncodedBatch longer = encoded;
  longer.codes.push_back(std::byte{0});
  CHECK_THAT(Refusal(longer), Catch::Contains("1 extra bytes"));
  EncodedBatch bad = encoded;
  bad.codes.back() |= std::byte{0x80};
  CHECK_THAT(Refusal(bad), Catch::Contains("the last 1 bits must be zeros"));
}

TEST_CASE("Only what BatchBuilder makes is encoded") {
  CompactBatch batch = OneFeature({5, 6, 5});
  batch.occurrences = {1, 0, 1};
  CHECK(EncodeBatch(batch).status().message() ==
        "batch: feature 0: its ids are not in the order of their first appearance");
  batch.occurrences = {0, 0, 0};
  CHECK(EncodeBatch(batch).status().message() == "batch: list 0: 1 of 2 ids occur; all must");
  batch.occurrences = {0, 1, 2};
  CHECK(EncodeBatch(batch).status().message() ==
        "batch: feature 0: occurrence of id number 2, must be below 2");
}

TEST_CASE("Weights that are all 1 are none") {
  CompactBatch batch = OneFeature({5, 6});
  batch.weights = {1, 1};
  const auto decoded = DecodeBatch(*EncodeBatch(batch));
  REQUIRE(decoded.ok());
  CHECK(decoded->weights.empty());
}

TEST_CASE("A batch that contradicts its head is refused") {
  // 3 samples of an id each: ids 0, 1, 0.
  const auto refusal = [](const Bits& head, uint64_t ids, bool weighted) {
    Bits bits = head;
    bits.Put(ids, 24).Put(weighted ? 1 : 0, 1).Put(1, 24).Put(1, 1).Put(0b0011, 4);
    return Refusal({.plain_ids = {5, 6}, .codes = bits.bytes()});
  };
  CHECK(refusal(HeadOf(3, 1, 1, 3), 2, false).empty());
  CHECK_THAT(refusal(HeadOf(3, 1, 1, 3), 2, true),
             Catch::Contains("feature 0: weights are not announced"));
  CHECK_THAT(refusal(HeadOf(3, 1, 1, 3, true), 2, true),
             Catch::Contains("feature 0: truncated after 21 bytes, in its occurrences or weights"));
  CHECK_THAT(refusal(HeadOf(3, 1, 1, 4), 2, false), Catch::Contains("3 ids, expected 4"));
  CHECK_THAT(refusal(HeadOf(3, 1, 1, 2), 2, false),
             Catch::Contains("feature 0: 3 ids so far, expected at most 2"));
  CHECK_THAT(refusal(HeadOf(3, 1, 1, 1), 2, false),
             Catch::Contains("feature 0: 3 ids so far, expected at most 1"));
  CHECK_THAT(refusal(HeadOf(3, 1, 1, 3), 1, false), Catch::Contains("2 ids, expected 1"));
}

TEST_CASE("A weight that is not finite is refused") {
  Bits nan = HeadOf(1, 1, 1, 1, true);
  nan.Put(1, 24).Put(1, 1).Put(1, 24).Put(1, 1).Put(1, 1).Put(0x7fc00000, 32);
  CHECK_THAT(Refusal({.plain_ids = {5}, .codes = nan.bytes()}),
             Catch::Contains("feature 0: the weight of occurrence 0 is not finite"));
}

template <typename T>
bool IsWithin(const std::vector<T>& elements, size_t size) {
  return elements.size() <= size && elements.capacity() <= size;
}

TEST_CASE("A head gives the memory of its batch") {
  for (uint64_t seed = 1; seed <= 1'000; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    EncodedBatch encoded = *EncodeBatch(testing::RandomBatch(random));
    encoded.plain_ids.shrink_to_fit();
    const auto sizes = DecodedSizes(encoded);
    REQUIRE(sizes.ok());
    CompactBatch batch;
    REQUIRE(DecodeBatch(encoded, batch).ok());
    CHECK(IsWithin(batch.ids, sizes->ids));
    CHECK(IsWithin(batch.occurrences, sizes->occurrences));
    CHECK(IsWithin(batch.offsets, sizes->offsets));
    CHECK(IsWithin(batch.unique_ends, sizes->unique_ends));
    CHECK(IsWithin(batch.lists, sizes->lists));
    CHECK(IsWithin(batch.weights, sizes->weights));
    CHECK(batch.ids.size() == sizes->ids);
    CHECK(batch.occurrences.size() == sizes->occurrences);
    CHECK(batch.offsets.size() == sizes->offsets);
    CHECK((batch.weights.empty() || batch.weights.size() == sizes->weights));
  }
  CHECK_THAT(std::string(DecodedSizes(EncodedBatch()).status().message()),
             Catch::Contains("truncated after 0 bytes, in the head"));
}

// What bytes of a peer may do: be refused, or be a valid batch.
bool RequireSafe(const EncodedBatch& encoded) {
  const StatusOr<CompactBatch> decoded = DecodeBatch(encoded);
  if (!decoded.ok()) {
    REQUIRE(decoded.status().code() == absl::StatusCode::kInvalidArgument);
    REQUIRE(!decoded.status().message().empty());
    return false;
  }
  const Status valid = decoded->Validate();
  INFO(valid);
  REQUIRE(valid.ok());
  return true;
}

TEST_CASE("A batch cut off anywhere is refused") {
  for (uint64_t seed = 1; seed <= 25; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    const auto encoded = EncodeBatch(testing::RandomBatch(random));
    REQUIRE(encoded.ok());
    for (size_t size = 0; size < encoded->codes.size(); ++size) {
      EncodedBatch cut = *encoded;
      cut.codes.resize(size);
      REQUIRE_FALSE(RequireSafe(cut));
    }
    EncodedBatch longer = *encoded;
    longer.codes.push_back(std::byte{0});
    REQUIRE_FALSE(RequireSafe(longer));
    EncodedBatch more = *encoded;
    more.plain_ids.push_back(1);
    REQUIRE_FALSE(RequireSafe(more));
  }
}

TEST_CASE("Damaged batches are refused or valid") {
  size_t refused = 0;
  for (uint64_t seed = 1; seed <= 2'000; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    auto encoded = EncodeBatch(testing::RandomBatch(random));
    REQUIRE(encoded.ok());
    for (uint64_t damage = random.Below(4); damage-- > 0;) {
      std::byte& byte = encoded->codes[random.Below(std::min<size_t>(
          encoded->codes.size(), random.Below(2) == 0 ? 64 : encoded->codes.size()))];
      byte = random.Below(2) == 0 ? byte ^ std::byte(1 << random.Below(8)) : std::byte(random());
    }
    if (!RequireSafe(*encoded)) ++refused;
  }
  CHECK(refused > 500);
  CHECK(refused < 2'000);
}

TEST_CASE("A head requests no memory before its features have arrived") {
  // 150 features of 65,535 samples without ids; the first has weights that are not announced.
  Bits bits = HeadOf(65'535, 150, 150, 0);
  for (int list = 0; list < 150; ++list) bits.Put(0, 24);
  bits.Put(1, 1);
  for (int feature = 0; feature < 150; ++feature) bits.Put(0, 26);
  EncodedBatch encoded{.plain_ids = {}, .codes = bits.bytes()};
  CompactBatch batch;
  const Status decoded = DecodeBatch(encoded, batch);
  CHECK_THAT(std::string(decoded.message()),
             Catch::Contains("feature 0: weights are not announced"));
  CHECK(batch.offsets.capacity() <= 2 * 65'536);
}

TEST_CASE("A batch of another version of the format is refused, older or newer") {
  const EncodedBatch good = *EncodeBatch(OneFeature({5, 6}));
  REQUIRE(good.codes[0] == std::byte{5});
  for (const int version : {0, 4, 6, 255}) {
    EncodedBatch other = good;
    other.codes[0] = std::byte(version);
    const std::string expected = "batch: version " + std::to_string(version) +
                                 ", known is 5; run the same version of all daemons";
    CHECK(DecodedSizes(other).status().message() == expected);
    CHECK_THAT(std::string(DecodeBatch(other).status().message()), Catch::StartsWith(expected));
  }
}

TEST_CASE("Features are counted before anything is read of each") {
  CompactBatch batch = OneFeature({5, 6});
  const EncodedBatch one = *EncodeBatch(batch);
  CHECK(DecodedSizes(one, 1).ok());
  CHECK(DecodeBatch(one, 1).ok());
  // 10,000 features, of which the second has a list that is not the next one.
  Bits bits = HeadOf(1, 10'000, 9'999, 0);
  bits.Put(0, 14);
  std::vector<std::byte> codes = bits.bytes();
  codes.resize(40'000, std::byte{0x7f});
  const EncodedBatch greedy{.plain_ids = {}, .codes = std::move(codes)};
  CHECK_THAT(Refusal(greedy), Catch::StartsWith("batch: feature 1: list "));
  const std::string expected =
      "the batch has 10000 features, the cluster has 1; give all daemons the same configuration";
  CHECK(DecodedSizes(greedy, 1).status().message() == expected);
  CHECK_THAT(std::string(DecodeBatch(greedy, 1).status().message()), Catch::StartsWith(expected));
  EncodedBatch copy = greedy;
  CHECK_THAT(std::string(DecodeBatch(copy, batch, 1).message()), Catch::StartsWith(expected));
}

// The most samples, none with any id but the first ones, of the first feature, with one each.
CompactBatch NearlyEmpty(size_t features, size_t ids) {
  std::vector<uint32_t> lists(features);
  std::iota(lists.begin(), lists.end(), 0U);
  BatchBuilder builder(lists, 0);
  for (size_t b = 0; b < kMaxBatchSamples; ++b) {
    if (b < ids) builder.AddId(0, Mix64(b));
    builder.EndSample();
  }
  return *builder.Build()->sparse;
}

TEST_CASE("A few bytes request at most the cells of a batch of one id each") {
  const size_t most = kMaxBatchOccurrences / kMaxBatchSamples;
  CHECK(RequireRoundTrip(NearlyEmpty(most, 20)).byte_size() < 11'000);

  // 1,024 features without ids, of the same samples: 2^26 cells.
  EncodedBatch greedy{.plain_ids = {}, .codes = HeadOf(65'535, 1'024, 1'024, 0).bytes()};
  greedy.codes.resize(8'000);
  CompactBatch batch;
  const Status decoded = DecodeBatch(greedy, batch);
  CHECK(absl::IsInvalidArgument(decoded));
  CHECK_THAT(std::string(decoded.message()),
             Catch::Contains("1024 features of 65535 samples exceed 8000 bytes"));
  CHECK(batch.offsets.capacity() == 0);

  const Status refused = EncodeBatch(NearlyEmpty(most + 1, 20)).status();
  CHECK(absl::IsInvalidArgument(refused));
  CHECK_THAT(std::string(refused.message()), Catch::Contains("choose a smaller batch size"));
  // More bytes allow more samples.
  RequireRoundTrip(NearlyEmpty(most + 1, 30'000));
}

TEST_CASE("A few bytes request no more occurrences than they have bits") {
  // One id; 65,535 samples of 152 ids each, whether the head states it or not.
  const auto refusal = [](uint64_t occurrences) {
    Bits bits = HeadOf(65'535, 1, 1, occurrences);
    bits.Put(1, 24).Put(0, 1).Put(152, 24).Put(1, 1).Put(1, 64);
    EncodedBatch greedy{.plain_ids = {11}, .codes = bits.bytes()};
    CompactBatch batch;
    const Status decoded = DecodeBatch(greedy, batch);
    CHECK(absl::IsInvalidArgument(decoded));
    CHECK(batch.occurrences.capacity() <= 100);
    return std::string(decoded.message());
  };
  CHECK_THAT(refusal(9'961'320),
             Catch::Contains("9961320 occurrences exceed the limit of 10000000, "
                             "or the 232 bits of its codes"));
  CHECK_THAT(refusal(100), Catch::Contains("feature 0: 9961320 ids so far, expected at most 100"));
}

TEST_CASE("Noise is refused or valid") {
  constexpr std::array<std::byte, 15> kHead{std::byte{0}, std::byte{7}, std::byte{0}, std::byte{3},
                                            std::byte{0}, std::byte{0}, std::byte{0}, std::byte{3},
                                            std::byte{0}, std::byte{0}, std::byte{0}, std::byte{7}};
  for (uint64_t seed = 1; seed <= 20'000; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    EncodedBatch noise;
    noise.codes.resize(random.Below(100));
    for (std::byte& byte : noise.codes) {
      byte = std::byte(random.Below(2) == 0 ? random.Below(4) : random.Below(256));
    }
    // Few samples, features and lists.
    for (size_t i = 0; i < std::min<size_t>(15, noise.codes.size()); ++i)
      noise.codes[i] &= kHead[i];
    if (!noise.codes.empty()) noise.codes[0] = std::byte{5};
    RequireSafe(noise);
  }
}

// Samples of Criteo's layout, its default ids.
CompactBatch CriteoLike(size_t samples, double zipf, double missing, bool one_list) {
  GeneratorConfig config;
  config.zipf_exponent = zipf;
  config.missing = missing;
  const auto generator = Generator::Create(config);
  REQUIRE(generator.ok());
  std::vector<uint32_t> lists(Generator::kFeatures);
  if (!one_list) std::iota(lists.begin(), lists.end(), 0U);
  BatchBuilder builder(lists, 0);
  for (size_t b = 0; b < samples; ++b) {
    const GeneratedSample sample = generator->Sample(b);
    for (size_t f = 0; f < Generator::kFeatures; ++f) {
      if (sample.ids[f].has_value()) builder.AddId(f, *sample.ids[f]);
    }
    builder.EndSample();
  }
  return *builder.Build()->sparse;
}

TEST_CASE("Batches are as small as promised") {
  struct Promise {
    size_t samples;
    double of_bare;   // 8 bytes an occurrence.
    double of_plain;  // 12 bytes an occurrence.
  };
  const auto promise = GENERATE(values<Promise>({{4'096, 0.36, 0.25}, {16'384, 0.31, 0.21}}));
  const bool one_list = GENERATE(false, true);     // All features read one table.
  const double of_sharing = one_list ? 0.004 : 0;  // One more bit for each distinct id.
  for (const double missing : {0.0, 0.03}) {
    const CompactBatch batch = CriteoLike(promise.samples, 1.05, missing, one_list);
    const auto occurrences = static_cast<double>(batch.occurrences.size());
    const auto bytes = static_cast<double>(RequireRoundTrip(batch).byte_size());
    CAPTURE(promise.samples, missing, one_list, bytes / occurrences / 8);
    CHECK(bytes <= (promise.of_bare + of_sharing) * 8 * occurrences);
    CHECK(bytes <= promise.of_plain * 12 * occurrences);
  }
}

// Two features, whose samples have these ids of these tables.
size_t BytesOfTwo(bool one_list, uint64_t first_seed, uint64_t second_seed) {
  constexpr size_t kSamples = 2'000;
  BatchBuilder builder(one_list ? std::vector<uint32_t>{0, 0} : std::vector<uint32_t>{0, 1}, 0);
  Random random(1);
  const auto draw = [&random] {
    const double u = random.Uniform();
    return static_cast<uint64_t>(u * u * u * 1'000);
  };
  for (size_t b = 0; b < kSamples; ++b) {
    builder.AddId(0, Mix64(first_seed << 32 | draw()));
    builder.AddId(1, Mix64(second_seed << 32 | draw()));
    builder.EndSample();
  }
  return RequireRoundTrip(*builder.Build()->sparse).byte_size();
}

TEST_CASE("A list that features share is worth it where they have ids in common, and free else") {
  // Only ids that the first feature lacks are sent for the second.
  CHECK(BytesOfTwo(true, 1, 1) < BytesOfTwo(false, 1, 1) * 4 / 5);
  CHECK(BytesOfTwo(true, 1, 2) < BytesOfTwo(false, 1, 2) * 101 / 100 + 200);
}

}  // namespace
}  // namespace simurgh
