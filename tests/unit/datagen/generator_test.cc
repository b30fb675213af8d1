#include "bench/datagen/generator.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/unit/data/data_files.h"
#include "tests/unit/data/reader_test_support.h"

namespace simurgh {
namespace {

Generator Make(const GeneratorConfig& config) {
  auto generator = Generator::Create(config);
  REQUIRE(generator.ok());
  return *std::move(generator);
}

std::string Lines(const GeneratorConfig& config, uint64_t first, uint64_t count) {
  const Generator generator = Make(config);
  std::string text;
  for (uint64_t n = first; n < first + count; ++n) generator.AppendLine(generator.Sample(n), text);
  return text;
}

std::vector<GeneratedSample> Samples(const GeneratorConfig& config, uint64_t count) {
  const Generator generator = Make(config);
  std::vector<GeneratedSample> samples;
  for (uint64_t n = 0; n < count; ++n) samples.push_back(generator.Sample(n));
  return samples;
}

double Teacher(const GeneratedSample& sample) { return sample.teacher_logits[0]; }
double Additive(const GeneratedSample& sample) { return sample.additive_logit; }
double Dense(const GeneratedSample& sample) { return sample.dense_logit; }

// By its definition, one sort: the mean rank of the positives. Scores are real numbers without
// ties.
double Auc(const std::vector<GeneratedSample>& samples, double (*score)(const GeneratedSample&)) {
  std::vector<const GeneratedSample*> ranked;
  for (const GeneratedSample& sample : samples) ranked.push_back(&sample);
  std::sort(ranked.begin(), ranked.end(),
            [score](const auto* a, const auto* b) { return score(*a) < score(*b); });
  double positives = 0.0;
  double wins = 0.0;
  for (size_t n = 0; n < ranked.size(); ++n) {
    if (ranked[n]->labels[0] == 0.0F) continue;
    wins += static_cast<double>(n) - positives;  // Negatives below.
    positives += 1.0;
  }
  return wins / positives / (static_cast<double>(ranked.size()) - positives);
}

TEST_CASE("The teacher's parts are worth what they should be, at every seed and size") {
  GeneratorConfig config;
  config.seed = GENERATE(1, 7, 123'456'789);
  config.distinct_ids = GENERATE(78, 100'000, 33'000'000);
  const auto samples = Samples(config, 60'000);
  const double teacher = Auc(samples, Teacher);
  const double additive = Auc(samples, Additive);
  const double dense = Auc(samples, Dense);
  CAPTURE(config.seed, config.distinct_ids, teacher, additive, dense);
  CHECK(teacher > 0.81);
  CHECK(teacher < 0.85);
  CHECK(additive < teacher - 0.02);
  CHECK(dense < teacher - 0.08);
  CHECK(dense > 0.6);
}

TEST_CASE("So they are for other shapes of data") {
  GeneratorConfig config;
  config.cardinality_scale = 0.01;
  SECTION("flatter") { config.zipf_exponent = 0.5; }
  SECTION("steeper") { config.zipf_exponent = 2.0; }
  SECTION("many cells missing") { config.missing = 0.5; }
  SECTION("none missing") { config.missing = 0.0; }
  const auto samples = Samples(config, 60'000);
  const double teacher = Auc(samples, Teacher);
  CHECK(Auc(samples, Additive) < teacher - 0.02);
  CHECK(Auc(samples, Dense) < teacher - 0.08);
}

TEST_CASE("Labels are drawn with the teacher's probability, a quarter of them positive") {
  const auto samples = Samples({}, 200'000);
  struct Bin {
    double expected = 0.0;
    double variance = 0.0;
    double seen = 0.0;
  };
  std::map<int, Bin> bins;
  double positives = 0.0;
  for (const GeneratedSample& sample : samples) {
    const double probability = 1.0 / (1.0 + std::exp(-sample.teacher_logits[0]));
    Bin& bin = bins[static_cast<int>(probability * 10.0)];
    bin.expected += probability;
    bin.variance += probability * (1.0 - probability);
    bin.seen += sample.labels[0];
    positives += sample.labels[0];
  }
  CHECK(bins.size() == 10);
  for (const auto& [tenth, bin] : bins) {
    CAPTURE(tenth);
    CHECK(std::abs(bin.seen - bin.expected) < 5.0 * std::sqrt(bin.variance));
  }
  CHECK(positives / static_cast<double>(samples.size()) == Approx(0.25).margin(0.01));
}

TEST_CASE("Given an id of any one feature the interactions have mean zero") {
  const auto samples = Samples({}, 100'000);
  for (size_t f = 0; f < Generator::kFeatures; ++f) {
    struct Sums {
      double count = 0.0;
      double sum = 0.0;
      double squares = 0.0;
    };
    std::map<uint64_t, Sums> by_id;
    for (const GeneratedSample& sample : samples) {
      Sums& sums = by_id[sample.ids[f].value_or(0)];
      const double pairs = sample.teacher_logits[0] - sample.additive_logit;
      sums.count += 1.0;
      sums.sum += pairs;
      sums.squares += pairs * pairs;
    }
    for (const auto& [id, sums] : by_id) {
      if (sums.count < 5'000) continue;
      CAPTURE(f, id, sums.count);
      // Slack beside the noise: centres are estimated on a calibration sample.
      CHECK(std::abs(sums.sum / sums.count) <
            0.02 + 5.0 * std::sqrt(sums.squares / sums.count / sums.count));
    }
  }
}

TEST_CASE("The same seed gives the same bytes, sample by sample; another gives others") {
  const std::string text = Lines({.seed = 5}, 100, 200);
  CHECK(text == Lines({.seed = 5}, 100, 200));
  CHECK(text == Lines({.seed = 5}, 100, 50) + Lines({.seed = 5}, 150, 150));
  CHECK(text != Lines({.seed = 6}, 100, 200));
  CHECK(text != Lines({.seed = 5}, 101, 200));
}

TEST_CASE("An id belongs to seed, feature and rank, whatever else is chosen") {
  // C20 has four ids at scale 1 and three at small ones, C9 three at both.
  const auto ids_of = [](const GeneratorConfig& config, size_t feature) {
    std::set<uint64_t> ids;
    for (const GeneratedSample& sample : Samples(config, 2'000)) {
      if (sample.ids[feature].has_value()) ids.insert(*sample.ids[feature]);
    }
    return ids;
  };
  const std::set<uint64_t> c20 = ids_of({}, 19);
  CHECK(c20.size() == 4);
  CHECK(c20 == ids_of({.zipf_exponent = 0.5, .missing = 0.5}, 19));
  CHECK(c20 != ids_of({.seed = 2}, 19));
  const std::set<uint64_t> three = ids_of({.cardinality_scale = 0.01}, 19);
  CHECK(three.size() == 3);
  CHECK(std::includes(c20.begin(), c20.end(), three.begin(), three.end()));
  const std::set<uint64_t> c9 = ids_of({}, 8);
  CHECK(c9.size() == 3);
  CHECK(c9 != three);
}

TEST_CASE("Ids of 8 digits have the same cardinality as those of 16") {
  const auto count = [](int digits) {
    std::set<uint64_t> ids;
    uint64_t largest = 0;
    for (const GeneratedSample& sample : Samples({.missing = 0.0, .id_digits = digits}, 20'000)) {
      ids.insert(*sample.ids[2]);
      largest = std::max(largest, *sample.ids[2]);
    }
    CHECK((largest > 0xffffffff) == (digits == 16));
    return ids.size();
  };
  const size_t ids = count(16);
  CHECK(ids > 1'000);
  CHECK(count(8) == ids);
}

uint64_t SumOfCardinalities(const Generator& generator) {
  const auto& cardinalities = generator.cardinalities();
  CHECK(*std::min_element(cardinalities.begin(), cardinalities.end()) >= 3);
  return std::accumulate(cardinalities.begin(), cardinalities.end(), uint64_t{0});
}

TEST_CASE("Cardinalities follow the scale") {
  const Generator criteo = Make({});
  CHECK(criteo.cardinalities()[2] == 10'131'227);
  CHECK(SumOfCardinalities(criteo) == 33'762'577);
  CHECK(Make({.cardinality_scale = 0.5}).cardinalities()[0] == 730);
  CHECK(Make({.cardinality_scale = 2.0}).cardinalities()[19] == 8);
}

TEST_CASE("Cardinalities add up to the requested distinct ids") {
  const auto ids = GENERATE(as<uint64_t>(), 78, 79, 1'000, 1'000'000, 100'000'000, 3'000'000'000);
  CHECK(SumOfCardinalities(Make({.distinct_ids = ids})) == ids);
}

TEST_CASE("Further labels leave everything else as it is, and have something of the first") {
  const auto one = Samples({}, 20'000);
  const auto three = Samples({.labels = 3}, 20'000);
  std::array<double, 2> together{};
  std::array<double, 2> positives{};
  double first_positives = 0;
  for (size_t n = 0; n < one.size(); ++n) {
    REQUIRE(three[n].labels[0] == one[n].labels[0]);
    REQUIRE(three[n].ids == one[n].ids);
    REQUIRE(three[n].dense == one[n].dense);
    REQUIRE(one[n].labels.size() == 1);
    REQUIRE(three[n].labels.size() == 3);
    first_positives += one[n].labels[0];
    for (size_t i = 0; i < 2; ++i) {
      positives[i] += three[n].labels[i + 1];
      together[i] += three[n].labels[i + 1] * one[n].labels[0];
    }
  }
  for (size_t i = 0; i < 2; ++i) {
    // Independent labels would share positives * first_positives / samples.
    CHECK(together[i] > 1.1 * positives[i] * first_positives / static_cast<double>(one.size()));
    CHECK(positives[i] > 0.1 * static_cast<double>(one.size()));
    CHECK(positives[i] < 0.5 * static_cast<double>(one.size()));
  }
  CHECK(three[0].teacher_logits[1] != three[0].teacher_logits[2]);
}

TEST_CASE("Generated lines read back through the Criteo reader") {
  const int digits = GENERATE(8, 16);
  const GeneratorConfig config{.missing = 0.2, .id_digits = digits};
  const auto samples = Samples(config, 500);
  const TemporaryFolder folder;
  const std::string file = folder.Write("a.tsv", Lines(config, 0, 500));
  DataConfig data;
  data.format = DataConfig::Format::kCriteo;
  std::vector<FeatureConfig> features;
  for (size_t f = 1; f <= Generator::kFeatures; ++f) {
    features.push_back(Feature("C" + std::to_string(f)));
  }
  const auto read = ReadSamples(data, features, {file}, 64);
  REQUIRE(read.ok());
  REQUIRE(read->size() == samples.size());
  size_t missing = 0;
  size_t negative = 0;
  for (size_t n = 0; n < samples.size(); ++n) {
    REQUIRE((*read)[n].label == samples[n].labels[0]);
    for (size_t f = 0; f < Generator::kFeatures; ++f) {
      std::vector<uint64_t> ids;
      if (samples[n].ids[f].has_value()) ids.push_back(*samples[n].ids[f]);
      REQUIRE((*read)[n].ids[f] == ids);
    }
    for (size_t c = 0; c < Generator::kDenseColumns; ++c) {
      const double value = samples[n].dense[c].value_or(0);
      REQUIRE((*read)[n].dense[c] == Approx(std::copysign(std::log1p(std::abs(value)), value)));
      missing += samples[n].dense[c].has_value() ? 0 : 1;
      negative += value < 0.0 ? 1 : 0;
    }
  }
  CHECK(static_cast<double>(missing) / 6'500.0 == Approx(0.2).margin(0.03));
  CHECK(negative > 10);
}

TEST_CASE("Options out of range are refused by name") {
  struct Bad {
    GeneratorConfig config;
    const char* message;
  };
  const Bad bad = GENERATE(values<Bad>({
      {{.cardinality_scale = 0.0},
       "--cardinality-scale: 0 is out of range; use above 0, at most 100"},
      {{.cardinality_scale = 101.0}, "--cardinality-scale: 101 is out"},
      {{.cardinality_scale = NAN}, "--cardinality-scale: nan is out"},
      {{.distinct_ids = 77}, "--distinct-ids: 77 is out of range; use 78 to "},
      {{.distinct_ids = 4'000'000'000}, "--distinct-ids: 4e+09 is out"},
      {{.zipf_exponent = 0.0}, "--zipf-exponent: 0 is out of range; use above 0, at most 4"},
      {{.missing = -0.1}, "--missing: -0.1 is out of range; use 0 to 0.9"},
      {{.missing = 0.95}, "--missing: 0.95 is out"},
      {{.id_digits = 12}, "--id-digits: 12 is out of range; use 8 or 16"},
  }));
  const auto generator = Generator::Create(bad.config);
  CHECK(generator.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(generator.status().message()), Catch::Contains(bad.message));
}

}  // namespace
}  // namespace simurgh
