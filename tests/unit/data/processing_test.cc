// Each step of feature processing by hand-made examples and by properties, and all of them through
// the reader.

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "data/processing/feature_ids.h"
#include "data/processing/numbers.h"
#include "data/reading/row_sampling.h"

namespace simurgh {
namespace {

using Ids = std::vector<uint64_t>;
using Texts = std::vector<std::string>;

FeatureConfig Named(const std::string& name) {
  FeatureConfig config;
  config.name = name;
  return config;
}

// What the feature makes of cells, each a list of texts; of several columns, named a, b and so on.
StatusOr<Ids> Process(FeatureConfig config, const std::vector<Texts>& cells) {
  std::vector<size_t> columns;
  RowCells row;
  for (const Texts& cell : cells) {
    if (cells.size() > 1) config.columns.emplace_back(1, static_cast<char>('a' + columns.size()));
    columns.push_back(columns.size());
    for (const std::string& text : cell) row.Add({.text = text});
    row.EndCell();
  }
  SIMURGH_ASSIGN_OR_RETURN(FeatureIds feature, FeatureIds::Create(config, columns));
  SIMURGH_ASSIGN_OR_RETURN(const Ids* ids, feature.Of(row));
  return *ids;
}

// The weights, where every value has one.
StatusOr<std::vector<float>> Weigh(const FeatureConfig& config, const Texts& cell,
                                   const Texts& missing_values = {}) {
  RowCells row;
  for (const std::string& text : cell) row.Add({.text = text});
  row.EndCell();
  SIMURGH_ASSIGN_OR_RETURN(FeatureIds feature, FeatureIds::Create(config, {0}, missing_values));
  SIMURGH_ASSIGN_OR_RETURN(const Ids* ids, feature.Of(row));
  if (ids->size() != feature.weights().size()) return absl::InternalError("other lengths");
  return feature.weights();
}

TEST_CASE("Weights follow their values") {
  FeatureConfig config = Named("tags");
  config.pooling = Pooling::kWeightedSum;
  config.weight_separator = ':';
  const Texts cell{"a:0.5", "b", "c:d:-2", "e:3"};
  CHECK(*Process(config, {cell}) == *Process(Named("tags"), {{"a", "b", "c:d", "e"}}));
  CHECK(*Weigh(config, cell) == std::vector<float>{0.5F, 1, -2, 3});
  config.processing.max_length = 2;
  config.processing.keep = ProcessingConfig::Keep::kLast;
  CHECK(*Weigh(config, cell) == std::vector<float>{-2, 3});
  config.processing.pad = true;
  CHECK(*Weigh(config, {"a:7"}) == std::vector<float>{7, 1});
  config.processing.pad = false;
  config.hash_stack = {.rounds = 3, .buckets = 100};
  CHECK(*Weigh(config, {"a:7", "b:2"}) == std::vector<float>{7, 7, 7, 2, 2, 2});
  CHECK(Weigh(config, {})->empty());
  config.processing.missing = ProcessingConfig::Missing::kId;
  CHECK(*Weigh(config, {}) == std::vector<float>{1, 1, 1});

  config.hash_stack = {};
  config.processing = {};
  config.processing.vocabulary = {"a", "b"};
  config.processing.oov_ids = 0;
  CHECK(*Weigh(config, {"z:9", "b:2"}) == std::vector<float>{2});
  for (const char* bad : {"a:", "a:x", "a:inf", "a:nan"}) {
    CHECK(Weigh(config, {bad}).status().message() ==
          std::string("feature 'tags': '") + bad +
              "' has a weight that is not a finite number; correct it, or leave it out");
  }
}

TEST_CASE("Hashes do not change between versions") {
  CHECK(HashText("Oslo", 0) == 0xf4d72f358f6a0af3);
  CHECK(HashText("Oslo", 7) == 0x572142df9b909c4d);
  CHECK(HashText("", 0) == 0x2d06800538d394c2);  // XXH3's own test vector.
  CHECK(HashInteger(0, 0) == 0);
  CHECK(HashInteger(1, 0) == 0x5692161d100b05e5);
  CHECK(HashInteger(1, 1) == 0xd9bf17d113f38956);
  CHECK(CrossIds(Ids{1, 2}, 0) == 0x07ee86c281446bef);
  CHECK(CrossIds(Ids{2, 1}, 0) == 0xfb54cb6322be3888);
  CHECK(CrossIds(Ids{1, 2}, 3) == 0x075c55096ffb5bbf);
}

TEST_CASE("Seeds and orders make other hashes, integers never collide") {
  std::set<uint64_t> seen;
  for (uint64_t value = 0; value < 1'000; ++value) {
    for (uint64_t seed = 0; seed < 5; ++seed) {
      CHECK(seen.insert(HashText(std::to_string(value), seed)).second);
      CHECK(seen.insert(HashInteger(value, seed)).second);
      CHECK(seen.insert(CrossIds(Ids{value, seed + 1'000}, seed)).second);
      CHECK(seen.insert(CrossIds(Ids{seed + 1'000, value}, seed)).second);
    }
  }
}

TEST_CASE("A value becomes an id by the configured rule") {
  FeatureConfig config = Named("f");
  CHECK(*Process(config, {{"-5"}}) == Ids{HashText("-5", 0)});
  config.processing.seed = 9;
  CHECK(*Process(config, {{"a", "b"}}) == Ids{HashText("a", 9), HashText("b", 9)});
  config.processing.hash = ProcessingConfig::Hash::kInteger;
  CHECK(*Process(config, {{"-5"}}) == Ids{HashInteger(~uint64_t{4}, 9)});
  config.processing.hash = ProcessingConfig::Hash::kNone;
  CHECK(*Process(config, {{"17", "-9223372036854775808", "18446744073709551615"}}) ==
        Ids{17, uint64_t{1} << 63, ~uint64_t{0}});
  CHECK_FALSE(Process(config, {{"18446744073709551616"}}).ok());
  CHECK_FALSE(Process(config, {{"-9223372036854775809"}}).ok());
  CHECK(Process(config, {{"1.5"}}).status().message() ==
        "feature 'f': '1.5' is not an integer of 64 bits; correct it, or hash it as text");
}

TEST_CASE("Buckets are counted by the boundaries at or below") {
  const std::vector<double> boundaries = {-1.0, 0.0, 2.5};
  CHECK(BucketOf(boundaries, -2.0) == 0);
  CHECK(BucketOf(boundaries, -1.0) == 1);
  CHECK(BucketOf(boundaries, 2.49) == 2);
  CHECK(BucketOf(boundaries, 1e300) == 3);
  FeatureConfig config = Named("price");
  config.processing.boundaries = boundaries;
  CHECK(*Process(config, {{"2.5", "-3"}}) == Ids{3, 0});
  CHECK(Process(config, {{"cheap"}}).status().message() ==
        "feature 'price': 'cheap' is not a finite number; correct it, or add it to "
        "data.missing_values");
}

TEST_CASE("Quantiles part the values evenly, and equal ones not at all") {
  CHECK(QuantileBoundaries({4, 1, 3, 2}, 2) == std::vector<double>{3});
  CHECK(QuantileBoundaries({1, 1, 1, 1, 5}, 4) == std::vector<double>{});
  CHECK(QuantileBoundaries({1, 1, 5, 5}, 4) == std::vector<double>{5});
  CHECK(QuantileBoundaries({}, 4).empty());
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    std::vector<double> values(500 + random.Below(500));
    for (double& value : values) value = random.Normal();
    const auto buckets = static_cast<uint32_t>(2 + random.Below(20));
    const std::vector<double> boundaries = QuantileBoundaries(values, buckets);
    REQUIRE(boundaries.size() == buckets - 1);
    std::vector<double> sizes(buckets);
    for (const double value : values) ++sizes[BucketOf(boundaries, value)];
    for (const double size : sizes) {
      REQUIRE(std::abs(size - static_cast<double>(values.size()) / buckets) <= 1.0);
    }
  }
}

TEST_CASE("A vocabulary numbers its words; other texts share the ids after them") {
  FeatureConfig config = Named("colour");
  config.processing.vocabulary = {"red", "green"};
  config.processing.oov_ids = 3;
  config.processing.seed = 5;
  CHECK(*Process(config, {{"red", "green"}}) == Ids{0, 1});
  std::set<uint64_t> others;
  for (int i = 0; i < 100; ++i) {
    const std::string text = "blue" + std::to_string(i);
    const Ids ids = *Process(config, {{text}});
    CHECK(ids == Ids{2 + HashText(text, 5) % 3});
    others.insert(ids[0]);
  }
  CHECK(others == std::set<uint64_t>{2, 3, 4});
  config.processing.oov_ids = 0;
  CHECK(*Process(config, {{"green", "blue", "red"}}) == Ids{1, 0});
  CHECK(Process(config, {{"blue"}})->empty());
}

TEST_CASE("Missing values follow their rule") {
  FeatureConfig config = Named("city");
  CHECK(Process(config, {{}})->empty());
  config.processing.missing = ProcessingConfig::Missing::kId;
  config.processing.modulo = 10;
  CHECK(*Process(config, {{}}) == Ids{kMissingId});
  config.processing.missing = ProcessingConfig::Missing::kFail;
  CHECK(Process(config, {{}}).status().message() ==
        "feature 'city': its value is missing; correct the row, or choose another rule for "
        "`missing`");
  CHECK(Process(config, {{"x"}}).ok());
  CHECK(Process(config, {{"x"}, {}, {"y"}}).status().message() ==
        "feature 'city': its value of column 'b' is missing (of 'x', 'y'); correct the row, or "
        "choose another rule for `missing`");
  CHECK_THAT(std::string(Process(config, {{}, {}}).status().message()),
             Catch::Contains("its value of column 'a' is missing (of missing cells)"));
}

TEST_CASE("A value outside the vocabulary is not missing") {
  FeatureConfig config = Named("city");
  config.processing.missing = ProcessingConfig::Missing::kFail;
  config.processing.vocabulary = {"Oslo"};
  config.processing.oov_ids = 0;
  CHECK(*Process(config, {{"Rome", "Oslo"}}) == Ids{0});
  CHECK(Process(config, {{"Bonn", "Rome"}}).status().message() ==
        "feature 'city': 'Rome' is not in its vocabulary; add it, give `oov_ids`, correct the row, "
        "or choose another rule for `missing`");
  CHECK_THAT(std::string(Process(config, {{}}).status().message()),
             Catch::StartsWith("feature 'city': its value is missing"));
}

TEST_CASE("Lists are cut at either end and filled up") {
  ProcessingConfig config;
  const auto fit = [&config](Ids ids) {
    FitLength(config, uint64_t{99}, ids);
    return ids;
  };
  CHECK(fit({1, 2, 3, 4}) == Ids{1, 2, 3, 4});
  config.max_length = 3;
  CHECK(fit({1, 2, 3, 4}) == Ids{1, 2, 3});
  CHECK(fit({1}) == Ids{1});
  config.keep = ProcessingConfig::Keep::kLast;
  CHECK(fit({1, 2, 3, 4}) == Ids{2, 3, 4});
  config.pad = true;
  CHECK(fit({1}) == Ids{1, 99, 99});
  CHECK(fit({}) == Ids{99, 99, 99});
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    Ids ids(random.Below(10));
    for (uint64_t& id : ids) id = random.Below(50);
    config.max_length = static_cast<uint32_t>(1 + random.Below(8));
    REQUIRE(fit(ids).size() == config.max_length);
    REQUIRE(fit(fit(ids)) == fit(ids));
  }
}

TEST_CASE("Modulo and hash stack fold ids, padding keeps its own") {
  FeatureConfig config = Named("f");
  config.processing.hash = ProcessingConfig::Hash::kNone;
  config.processing.modulo = 10;
  config.processing.max_length = 3;
  config.processing.pad = true;
  CHECK(*Process(config, {{"7", "123"}}) == Ids{7, 3, kPaddingId});
  config.processing = {.hash = ProcessingConfig::Hash::kNone};
  config.hash_stack = {.rounds = 2, .buckets = 10};
  CHECK(*Process(config, {{"12", "23"}}) == Ids{2, 18, 5, 10});  // PERSIA's own test vector.
}

TEST_CASE("No value has the id of padding or of missing values") {
  FeatureConfig config = Named("f");
  config.processing.hash = ProcessingConfig::Hash::kNone;
  CHECK(*Process(config, {{"-1", "-2"}}) == Ids{kPaddingId, kMissingId});  // Neither is in use.
  config.processing.missing = ProcessingConfig::Missing::kId;
  CHECK(*Process(config, {{"-3"}}) == Ids{kMissingId - 1});
  CHECK(Process(config, {{"3", "-2"}}).status().message() ==
        "feature 'f': a value of '3', '-2' has the id 18446744073709551614 (-2). It is reserved "
        "for padding or missing values; correct the value, or hash it as `integer`");
  config.processing.missing = ProcessingConfig::Missing::kSkip;
  config.processing.max_length = 2;
  CHECK(Process(config, {{"-1"}}).ok());
  config.processing.pad = true;
  CHECK_THAT(std::string(Process(config, {{"-1"}}).status().message()),
             Catch::Contains("18446744073709551615 (-1)"));
  config.processing.modulo = 10;  // (2^64 - 1) modulo 10 is 5.
  CHECK(*Process(config, {{"-1"}}) == Ids{5, kPaddingId});
}

TEST_CASE("A cross is every combination, in order, and nothing where a column is empty") {
  FeatureConfig config = Named("cross");
  config.processing.seed = 4;
  const auto h = [](const char* text) { return HashText(text, 4); };
  const Ids expected = {CrossIds(Ids{h("a"), h("x")}, 4), CrossIds(Ids{h("a"), h("y")}, 4),
                        CrossIds(Ids{h("b"), h("x")}, 4), CrossIds(Ids{h("b"), h("y")}, 4)};
  CHECK(*Process(config, {{"a", "b"}, {"x", "y"}}) == expected);
  CHECK(Process(config, {{"a", "b"}, {}})->empty());
  CHECK(*Process(config, {{"a"}, {"x"}, {"p"}}) == Ids{CrossIds(Ids{h("a"), h("x"), h("p")}, 4)});
  const Texts many(300, "m");
  CHECK(Process(config, {many, {"x", "y"}, many}).status().message() ==
        "feature 'cross': its columns cross to more than 65536 ids (300 of 'a' from 'm' on, 2 of "
        "'b' from 'x' on, 300 of 'c' from 'm' on); shorten the lists");
  CHECK(Process(config, {many, many, {}})->empty());
  CHECK(Process(config, std::vector<Texts>(8, many)).status().code() ==
        absl::StatusCode::kInvalidArgument);  // More combinations than 64 bits count.
}

TEST_CASE("Dense values are transformed and scaled") {
  ColumnConfig column;
  column.mean = 2.0;
  column.stddev = 4.0;
  CHECK(Scaled(column, 10.0) == 2.0F);
  column.transform = ColumnConfig::Transform::kLog1p;
  CHECK(Scaled(column, -1.0) == Approx((-std::log(2.0) - 2.0) / 4.0));
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    Moments moments;
    std::vector<double> values(2 + random.Below(500));
    double sum = 0;
    for (double& value : values) sum += value = 1e6 + random.Normal();
    for (const double value : values) moments.Add(value);
    const double mean = sum / static_cast<double>(values.size());
    double squares = 0;
    for (const double value : values) squares += (value - mean) * (value - mean);
    REQUIRE(moments.mean() == Approx(mean).epsilon(1e-12));
    REQUIRE(moments.stddev() ==
            Approx(std::sqrt(squares / static_cast<double>(values.size()))).epsilon(1e-6));
  }
}

TEST_CASE("The configured share of negatives is kept, always the same ones") {
  const ReadOptions tenth{.keep_negatives = 0.1, .seed = 3};
  size_t kept = 0;
  size_t other = 0;
  for (uint64_t row = 0; row < 100'000; ++row) {
    CHECK(KeepsNegative({}, row));
    CHECK(KeepsNegative(tenth, row) == KeepsNegative(tenth, row));
    kept += KeepsNegative(tenth, row) ? 1 : 0;
    other += KeepsNegative(tenth, row) && KeepsNegative({.keep_negatives = 0.1, .seed = 4}, row);
  }
  CHECK(kept == Approx(10'000).margin(400));
  CHECK(other == Approx(1'000).margin(150));
}

}  // namespace
}  // namespace simurgh
