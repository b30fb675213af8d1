#include "simurgh/data/encoded_batch.h"

#include <array>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "simurgh/base/random.h"
#include "simurgh/data/batch_builder.h"
#include "simurgh/data/generator.h"
#include "tests/unit/data/encoded_batch_support.h"
#include "tests/unit/data/random_batch.h"

namespace simurgh {
namespace {

using testing::Hex;
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
  CHECK(distinct.byte_size() < 8 * ids.size() + 40);  // Nothing but the ids.
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = 1'000'000 + i;
  const EncodedBatch ascending = RequireRoundTrip(OneFeature(ids));
  CHECK(ascending.byte_size() < ids.size() / 2);
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
  CHECK(encoded.plain_ids == std::vector<uint64_t>(wild.begin(), wild.end()));
  CHECK(Hex(encoded.codes) ==
        "04 04 03 05 02 00 00 01 "        // Version 4, 4 samples, 3 features that share 2 lists
        "0a "                             // and have 10 ids, some with weights.
        "03 01 03 00 "                    // 3 ids as offsets, 3 plain.
        "07 00 00 00 00 00 00 00 02 18 "  // From 7 on, in 2 bits each: 0, 2, 1.
        "00 01 01 0b "                    // Lengths in a bit each: 1, 1, 0, 1.
        "03 01 01 02 "                    // Symbols 0 and 2 of a bit each: next, index 0, next.
        "01 01 02 12 "                    // Weighted; lengths in 2 bits each: 2, 0, 1, 0.
        "02 11 07 "                       // Symbols 0 and 1: earlier 1, earlier 0, next.
        "00 00 00 3f 00 00 00 40 00 00 80 3f "
        "00 00 01 00 "    // Length 1, but for 0 samples.
        "03 01 01 08 ");  // Next, next, next, index 0.
}

// Refusal of a feature that shares the list of an earlier one, with the ids 5, 6 and 7.
std::string Refusal(const std::vector<int>& code_of_second) {
  BatchBuilder builder({0, 0}, 0);
  for (const uint64_t id : {5, 6, 7}) {
    builder.AddId(0, id);
    builder.AddId(1, id);
    builder.EndSample();
  }
  EncodedBatch encoded = *EncodeBatch(*builder.Build()->sparse);
  // Ends in what the second feature has: one symbol, which is alone, and 2 bits for each of 3 ids.
  REQUIRE_THAT(Hex(encoded.codes), Catch::EndsWith("00 01 24 "));
  encoded.codes.resize(encoded.codes.size() - 3);
  for (const int byte : code_of_second) encoded.codes.push_back(std::byte(byte));
  return std::string(DecodeBatch(encoded).status().message());
}

TEST_CASE("A shared list is read only where it has been written") {
  const auto refused = Catch::Contains("feature 1: an occurrence of an id before its first");
  CHECK(Refusal({0, 1, 0x24}).empty());              // Ids 0, 1 and 2 of those before.
  CHECK_THAT(Refusal({0, 1, 0x34}), refused);        // 0, 1 and 3, which there is not.
  CHECK(Refusal({3, 0x10, 1, 0x18}).empty());        // 0 of those before, index 0, index 0.
  CHECK_THAT(Refusal({3, 0x10, 1, 0x01}), refused);  // Index 0, before this feature has any.
}

TEST_CASE("Lists are shared where there are fewer than features") {
  const EncodedBatch own = *EncodeBatch(OneFeature({5, 5, 5}));
  REQUIRE_THAT(Hex(own.codes), Catch::StartsWith("04 03 01 00 03 "));
  EncodedBatch shared = own;
  shared.codes[3] = std::byte{1};
  for (const int byte : {0, 1}) shared.codes.insert(shared.codes.begin() + 4, std::byte(byte));
  CHECK_THAT(std::string(DecodeBatch(shared).status().message()),
             Catch::StartsWith("batch: 1 lists that 1 features share, must be fewer"));
}

TEST_CASE("A symbol for ids of features before is refused where there are none") {
  EncodedBatch encoded = *EncodeBatch(OneFeature({5, 5}));
  REQUIRE_THAT(Hex(encoded.codes), Catch::EndsWith("03 01 01 02 "));  // Next, index 0.
  encoded.codes[encoded.codes.size() - 3] = std::byte{0x11};          // Next, or an earlier one.
  encoded.codes[encoded.codes.size() - 4] = std::byte{2};
  encoded.codes.erase(encoded.codes.end() - 2);
  CHECK_THAT(std::string(DecodeBatch(encoded).status().message()),
             Catch::Contains("feature 0: an occurrence of an id before its first"));
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

TEST_CASE("A head that contradicts its batch is refused") {
  CompactBatch batch = OneFeature({5, 6, 5});
  batch.weights = {1, 2, 1};
  const EncodedBatch good = *EncodeBatch(batch);
  REQUIRE_THAT(Hex(good.codes), Catch::StartsWith("04 03 01 04 03 02 "));
  const auto refusal = [&good](size_t place, int byte) {
    EncodedBatch bad = good;
    bad.codes[place] = std::byte(byte);
    return std::string(DecodeBatch(bad).status().message());
  };
  CHECK_THAT(refusal(3, 0), Catch::Contains("feature 0: weights are not announced"));
  CHECK_THAT(refusal(4, 4), Catch::Contains("3 ids, expected 4"));
  CHECK_THAT(refusal(4, 2), Catch::Contains("feature 0: 3 ids so far, expected at most 2"));
  CHECK_THAT(refusal(4, 1), Catch::Contains("2 ids exceed the 1 remaining occurrences"));
}

template <typename T>
bool IsWithin(const std::vector<T>& elements, size_t size) {
  return elements.size() <= size && elements.capacity() <= size;
}

TEST_CASE("A head gives the memory of its batch") {
  size_t bare = 0;
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
    const bool is_bare = sizes->ids > batch.ids.size();
    bare += is_bare ? 1 : 0;
    CHECK((is_bare || batch.ids.size() == sizes->ids));
    CHECK(batch.occurrences.size() == sizes->occurrences);
    CHECK(batch.offsets.size() == sizes->offsets);
    CHECK((batch.weights.empty() || batch.weights.size() == sizes->weights));
  }
  CHECK(bare > 10);
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
  // 150 features of 65,535 samples, whose lists are empty; the first has unknown flags.
  EncodedBatch encoded;
  for (const int byte : {4, 0xff, 0xff, 3, 0x96, 1, 0, 0}) encoded.codes.push_back(std::byte(byte));
  encoded.codes.resize(encoded.codes.size() + 150);
  encoded.codes.resize(encoded.codes.size() + 150, std::byte{2});
  CompactBatch batch;
  const Status decoded = DecodeBatch(encoded, batch);
  CHECK_THAT(std::string(decoded.message()), Catch::Contains("feature 0: unknown flags 2"));
  CHECK(batch.offsets.capacity() <= 2 * 65'536);
}

TEST_CASE("A batch of another version of the format is refused, older or newer") {
  const EncodedBatch good = *EncodeBatch(OneFeature({5, 6}));
  REQUIRE(good.codes[0] == std::byte{4});
  for (const int version : {0, 3, 5, 255}) {
    EncodedBatch other = good;
    other.codes[0] = std::byte(version);
    const std::string expected = "batch: version " + std::to_string(version) +
                                 ", known is 4; run the same version of all daemons";
    CHECK(DecodedSizes(other).status().message() == expected);
    CHECK_THAT(std::string(DecodeBatch(other).status().message()), Catch::StartsWith(expected));
  }
}

TEST_CASE("Features are counted before anything is read of each") {
  CompactBatch batch = OneFeature({5, 6});
  const EncodedBatch one = *EncodeBatch(batch);
  CHECK(DecodedSizes(one, 1).ok());
  CHECK(DecodeBatch(one, 1).ok());
  // 9,999 of 10,000 features share the list of the first, and the list is missing.
  EncodedBatch greedy;
  for (const int byte : {4, 1, 0x90, 0x4e, 1, 0x8f, 0x4e}) greedy.codes.push_back(std::byte(byte));
  greedy.codes.resize(20'000, std::byte{0x7f});
  CHECK_THAT(std::string(DecodedSizes(greedy).status().message()),
             Catch::StartsWith("batch: feature 0: list "));
  const std::string expected =
      "the batch has 10000 features, the cluster has 1; give all daemons the same configuration";
  CHECK(DecodedSizes(greedy, 1).status().message() == expected);
  CHECK_THAT(std::string(DecodeBatch(greedy, 1).status().message()), Catch::StartsWith(expected));
  CHECK_THAT(std::string(DecodeBatch(greedy, batch, 1).message()), Catch::StartsWith(expected));
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
  CHECK(RequireRoundTrip(NearlyEmpty(most, 20)).byte_size() < 1'500);

  // 1,024 features without ids, of the same samples: 5 KB, which were 2^26 cells.
  EncodedBatch greedy;
  for (const int byte : {4, 0xff, 0xff, 3, 0x80, 8, 0}) greedy.codes.push_back(std::byte(byte));
  greedy.codes.resize(greedy.codes.size() + 1'024 * 5);
  CompactBatch batch;
  const Status decoded = DecodeBatch(greedy, batch);
  CHECK(absl::IsInvalidArgument(decoded));
  CHECK_THAT(std::string(decoded.message()),
             Catch::Contains("1024 features of 65535 samples exceed 5127 bytes"));
  CHECK(batch.offsets.capacity() == 0);

  const Status refused = EncodeBatch(NearlyEmpty(most + 1, 20)).status();
  CHECK(absl::IsInvalidArgument(refused));
  CHECK_THAT(std::string(refused.message()), Catch::Contains("choose a smaller batch size"));
  // More bytes allow more samples.
  RequireRoundTrip(NearlyEmpty(most + 1, 30'000));
}

TEST_CASE("A few bytes request no more occurrences than they can hold") {
  // One plain id; 65,535 samples of 152 ids each, all of one symbol, whether the head states it or
  // not.
  const auto refusal = [](const std::vector<int>& occurrences) {
    EncodedBatch greedy{.plain_ids = {11}, .codes = {}};
    std::vector<int> bytes{4, 0xff, 0xff, 3, 1, 0};
    bytes.insert(bytes.end(), occurrences.begin(), occurrences.end());
    for (const int byte : {1, 0, 0, 0, 0x98, 1, 0, 0, 0}) bytes.push_back(byte);
    for (const int byte : bytes) greedy.codes.push_back(std::byte(byte));
    CompactBatch batch;
    const Status decoded = DecodeBatch(greedy, batch);
    CHECK(absl::IsInvalidArgument(decoded));
    CHECK(batch.occurrences.capacity() == 0);
    return std::string(decoded.message());
  };
  CHECK_THAT(refusal({0xe8, 0xfe, 0xdf, 4}),  // 9,961,320.
             Catch::Contains("9961320 occurrences exceed the limit of 10000000, or the 1728 that "
                             "27 bytes can hold"));
  CHECK_THAT(refusal({2}), Catch::Contains("feature 0: 9961320 ids so far, expected at most 2"));
}

TEST_CASE("Noise is refused or valid") {
  for (uint64_t seed = 1; seed <= 20'000; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    EncodedBatch noise;
    noise.codes.resize(random.Below(100));
    for (std::byte& byte : noise.codes) {
      byte = std::byte(random.Below(2) == 0 ? random.Below(4) : random.Below(256));
    }
    if (!noise.codes.empty()) noise.codes[0] = std::byte{4};
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
  const auto promise = GENERATE(values<Promise>({{4'096, 0.33, 0.25}, {16'384, 0.275, 0.20}}));
  const bool one_list = GENERATE(false, true);  // All features read one table.
  for (const double missing : {0.0, 0.03}) {
    const CompactBatch batch = CriteoLike(promise.samples, 1.05, missing, one_list);
    const auto occurrences = static_cast<double>(batch.occurrences.size());
    const auto bytes = static_cast<double>(RequireRoundTrip(batch).byte_size());
    CAPTURE(promise.samples, missing, one_list, bytes / occurrences / 8);
    CHECK(bytes <= promise.of_bare * 8 * occurrences);
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
  CHECK(BytesOfTwo(true, 1, 2) < BytesOfTwo(false, 1, 2) + 8);
}

}  // namespace
}  // namespace simurgh
