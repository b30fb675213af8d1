// Properties of the steps of feature processing for random input.

#include <algorithm>
#include <cmath>
#include <limits>
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
constexpr uint64_t kSeeds = 100;

FeatureConfig Named(const std::string& name) {
  FeatureConfig config;
  config.name = name;
  return config;
}

Ids Process(FeatureConfig config, const std::vector<Texts>& cells) {
  std::vector<size_t> columns;
  RowCells row;
  for (const Texts& cell : cells) {
    if (cells.size() > 1) config.columns.push_back(std::to_string(columns.size()));
    columns.push_back(columns.size());
    for (const std::string& text : cell) row.Add({.text = text});
    row.EndCell();
  }
  auto feature = FeatureIds::Create(config, columns);
  REQUIRE(feature.status() == absl::OkStatus());
  const auto ids = feature->Of(row);
  REQUIRE(ids.status() == absl::OkStatus());
  return **ids;
}

Texts RandomTexts(Random& random, size_t most) {
  Texts texts(random.Below(most + 1));
  for (std::string& text : texts) text = std::to_string(random.Below(40));
  return texts;
}

TEST_CASE("Modulo: below it, congruent, and nothing new for small ids") {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    FeatureConfig config = Named("f");
    const Texts texts = RandomTexts(random, 20);
    const Ids plain = Process(config, {texts});
    const uint64_t modulo = 1 + random.Below(1'000);
    config.processing.modulo = modulo;
    const Ids folded = Process(config, {texts});
    REQUIRE(folded.size() == plain.size());
    for (size_t i = 0; i < plain.size(); ++i) REQUIRE(folded[i] == plain[i] % modulo);
    config.processing.modulo = uint64_t{1} << 40;
    config.processing.hash = ProcessingConfig::Hash::kNone;
    const Ids small = Process(config, {texts});
    for (size_t i = 0; i < small.size(); ++i) REQUIRE(small[i] == std::stoull(texts[i]));
  }
}

TEST_CASE("Hash stack: every round in its own range, whatever else is in the list") {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    FeatureConfig config = Named("f");
    config.hash_stack = {.rounds = static_cast<uint32_t>(1 + random.Below(8)),
                         .buckets = 1 + random.Below(100)};
    const Texts texts = RandomTexts(random, 10);
    const Ids together = Process(config, {texts});
    Ids one_by_one;
    for (const std::string& text : texts) {
      const Ids rows = Process(config, {{text}});
      one_by_one.insert(one_by_one.end(), rows.begin(), rows.end());
    }
    REQUIRE(together == one_by_one);
    for (size_t i = 0; i < together.size(); ++i) {
      REQUIRE(together[i] / config.hash_stack.buckets == i % config.hash_stack.rounds);
    }
  }
}

TEST_CASE("Crosses: the product of the lengths, one id from each pair") {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    FeatureConfig config = Named("f");
    config.processing.seed = seed % 3;
    const std::vector<Texts> cells = {RandomTexts(random, 5), RandomTexts(random, 5),
                                      RandomTexts(random, 5)};
    const Ids ids = Process(config, cells);
    REQUIRE(ids.size() == cells[0].size() * cells[1].size() * cells[2].size());
    std::set<Texts> combinations;
    size_t i = 0;
    for (const std::string& a : cells[0]) {
      for (const std::string& b : cells[1]) {
        for (const std::string& c : cells[2]) {
          combinations.insert({a, b, c});
          REQUIRE(ids[i++] == Process(config, {{a}, {b}, {c}})[0]);
        }
      }
    }
    REQUIRE(std::set<uint64_t>(ids.begin(), ids.end()).size() == combinations.size());
  }
}

TEST_CASE("Buckets: the order of values is the order of buckets, and a linear scan agrees") {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    std::set<double> sorted;
    for (uint64_t i = 0; i < 1 + random.Below(30); ++i) {
      sorted.insert(random.Normal());
    }
    const std::vector<double> boundaries(sorted.begin(), sorted.end());
    std::vector<double> values(boundaries);  // The boundaries themselves, too.
    for (int i = 0; i < 50; ++i) values.push_back(random.Normal());
    std::sort(values.begin(), values.end());
    uint64_t last = 0;
    for (const double value : values) {
      const auto at_most = std::count_if(boundaries.begin(), boundaries.end(),
                                         [&](double boundary) { return boundary <= value; });
      const uint64_t bucket = BucketOf(boundaries, value);
      REQUIRE(bucket == static_cast<uint64_t>(at_most));
      REQUIRE(bucket >= last);
      last = bucket;
    }
  }
}

TEST_CASE("Dense columns: the order stays, the logarithm is odd, and all can be undone") {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    ColumnConfig column;
    column.mean = random.Normal();
    column.stddev = 0.1 + random.Uniform();
    const bool is_log = random.Below(2) == 1;
    if (is_log) column.transform = ColumnConfig::Transform::kLog1p;
    std::vector<double> values(50);
    for (double& value : values) value = 1'000 * random.Normal();
    std::sort(values.begin(), values.end());
    float last = -std::numeric_limits<float>::infinity();
    for (const double value : values) {
      const float scaled = Scaled(column, value);
      REQUIRE(scaled >= last);
      last = scaled;
      REQUIRE(Transformed(column.transform, -value) == -Transformed(column.transform, value));
      const double back = double{scaled} * column.stddev + column.mean;
      REQUIRE((is_log ? std::copysign(std::expm1(std::abs(back)), back) : back) ==
              Approx(value).epsilon(1e-4).margin(1e-4));
    }
  }
}

TEST_CASE("Vocabularies: words by place, others behind them, the same for the same text") {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    FeatureConfig config = Named("f");
    const uint64_t words = 1 + random.Below(30);
    for (uint64_t i = 0; i < words; ++i) {
      config.processing.vocabulary.push_back(std::to_string(i + 5));
    }
    config.processing.oov_ids = random.Below(4);
    config.processing.seed = seed;
    const Texts texts = RandomTexts(random, 30);
    Ids expected;
    for (const std::string& text : texts) {
      const uint64_t value = std::stoull(text);
      if (value >= 5 && value < words + 5) {
        expected.push_back(value - 5);
      } else if (config.processing.oov_ids > 0) {
        expected.push_back(words + HashText(text, seed) % config.processing.oov_ids);
      }
    }
    REQUIRE(Process(config, {texts}) == expected);
  }
}

TEST_CASE("Missing values and lengths: no list is empty where there is an id for it") {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    FeatureConfig config = Named("f");
    const Texts texts = RandomTexts(random, 4);
    const Ids plain = Process(config, {texts});
    config.processing.missing = ProcessingConfig::Missing::kId;
    config.processing.max_length = static_cast<uint32_t>(1 + random.Below(5));
    config.processing.pad = random.Below(2) == 1;
    const Ids ids = Process(config, {texts});
    const size_t length = config.processing.max_length;
    const size_t kept = std::max<size_t>(1, std::min(plain.size(), length));
    REQUIRE(ids.size() == (config.processing.pad ? length : kept));
    for (size_t i = 0; i < ids.size(); ++i) {
      const uint64_t beyond = i == 0 ? kMissingId : kPaddingId;
      REQUIRE(ids[i] == (i < plain.size() ? plain[i] : beyond));
    }
  }
}

TEST_CASE("Lists: the first or the last, and weights go with their ids") {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    FeatureConfig config = Named("f");
    config.weight_separator = ':';
    config.processing.hash = ProcessingConfig::Hash::kNone;
    config.processing.max_length = static_cast<uint32_t>(1 + random.Below(5));
    const bool keep_last = random.Below(2) == 1;
    if (keep_last) config.processing.keep = ProcessingConfig::Keep::kLast;
    config.processing.pad = random.Below(2) == 1;
    config.hash_stack = {.rounds = static_cast<uint32_t>(1 + random.Below(3)), .buckets = 1'000};
    const size_t values = random.Below(8);
    RowCells row;
    Texts texts;
    for (size_t i = 0; i < values; ++i) {
      texts.push_back(std::to_string(i) + ":" + std::to_string(i + 100));
    }
    for (const std::string& text : texts) row.Add({.text = text});
    row.EndCell();
    auto feature = FeatureIds::Create(config, {0});
    const Ids ids = **feature->Of(row);
    const std::vector<float> weights = feature->weights();
    const size_t length = config.processing.max_length;
    const size_t kept = std::min(values, length);
    REQUIRE(ids.size() == config.hash_stack.rounds * (config.processing.pad ? length : kept));
    REQUIRE(weights.size() == ids.size());
    for (size_t i = 0; i < ids.size(); ++i) {
      const size_t place = i / config.hash_stack.rounds;
      const size_t value = place + (keep_last ? values - kept : 0);
      REQUIRE(weights[i] == (place < kept ? static_cast<float>(value + 100) : 1.0F));
      std::vector<uint64_t> rows(config.hash_stack.rounds);
      HashStackRows(config.hash_stack, place < kept ? value : kPaddingId, rows);
      REQUIRE(ids[i] == rows[i % config.hash_stack.rounds]);
    }
  }
}

// With one of the steps that make ids, and nothing behind it.
FeatureConfig RandomSource(Random& random, size_t columns) {
  FeatureConfig config = Named("f");
  ProcessingConfig& processing = config.processing;
  switch (columns > 1 ? 0 : random.Below(4)) {
    case 0:
      processing.seed = random.Below(3);
      break;
    case 1:
      processing.vocabulary = {"3", "1", "14", "15", "9", "26"};
      processing.oov_ids = random.Below(3);
      break;
    case 2:
      processing.boundaries = {2, 7, 18, 28};
      break;
    default:
      processing.hash = ProcessingConfig::Hash::kInteger;
  }
  return config;
}

TEST_CASE("Whatever makes the ids, the other steps follow in their order") {
  for (uint64_t seed = 1; seed <= 20 * kSeeds; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    std::vector<Texts> cells(1 + random.Below(3));
    for (Texts& cell : cells) cell = RandomTexts(random, 4);
    FeatureConfig config = RandomSource(random, cells.size());
    Ids expected = Process(config, cells);

    ProcessingConfig& processing = config.processing;
    processing.modulo = random.Below(2) * 5;
    for (uint64_t& id : expected) id = processing.modulo > 0 ? id % 5 : id;
    if (random.Below(2) == 0) processing.missing = ProcessingConfig::Missing::kId;
    const bool names_missing = processing.missing == ProcessingConfig::Missing::kId;
    if (names_missing && expected.empty()) expected = {kMissingId};
    if (random.Below(2) == 0) {
      processing.max_length = static_cast<uint32_t>(1 + random.Below(5));
      processing.pad = random.Below(2) == 0;
      if (processing.pad || expected.size() > processing.max_length) {
        expected.resize(processing.max_length, kPaddingId);
      }
    }
    config.hash_stack = {.rounds = static_cast<uint32_t>(random.Below(3)), .buckets = 9};
    if (config.hash_stack.rounds > 0) {
      Ids rows(expected.size() * config.hash_stack.rounds);
      for (size_t i = 0; i < expected.size(); ++i) {
        HashStackRows(
            config.hash_stack, expected[i],
            std::span(rows).subspan(i * config.hash_stack.rounds, config.hash_stack.rounds));
      }
      expected = rows;
    }
    REQUIRE(Process(config, cells) == expected);
  }
}

TEST_CASE("The negatives that are kept are those that have always been") {
  Ids kept;
  for (uint64_t row = 0; row < 40; ++row) {
    if (KeepsNegative({.keep_negatives = 0.25, .seed = 1}, row)) kept.push_back(row);
  }
  CHECK(kept == Ids{18, 21, 27, 28, 33, 35});
}

TEST_CASE("A larger share keeps what a smaller one keeps") {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    INFO("seed " << seed);
    for (uint64_t row = 0; row < 200; ++row) {
      const bool little = KeepsNegative({.keep_negatives = 0.2, .seed = seed}, row);
      const bool much = KeepsNegative({.keep_negatives = 0.7, .seed = seed}, row);
      REQUIRE((!little || much));
    }
  }
}

}  // namespace
}  // namespace simurgh
