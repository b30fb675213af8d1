#include "services/datagen/teachers.h"

#include <array>
#include <cmath>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"

#include "simurgh/base/hash.h"
#include "simurgh/base/random.h"

namespace simurgh {
namespace {

GeneratedSample Draw(const std::vector<double>& logits, Random& random) {
  GeneratedSample sample;
  sample.teacher_logits = logits;
  sample.additive_logit = NAN;
  sample.dense_logit = NAN;
  for (const double logit : logits) {
    sample.labels.push_back(random.Uniform() < 1.0 / (1.0 + std::exp(-logit)) ? 1.0F : 0.0F);
  }
  return sample;
}

Random RandomOf(uint64_t seed, uint64_t number) { return Random(Mix64(Mix64(seed) + number)); }

}  // namespace

SampleWriter SequenceTeacher(uint64_t seed) {
  constexpr uint64_t kSeries = 50;
  constexpr uint64_t kItems = 2 * kSeries;
  constexpr uint64_t kShortest = 5;
  constexpr uint64_t kLongest = 20;
  constexpr double kExpected = 1.5;  // Seen items of the item's series, besides those by chance.
  constexpr double kWeight = 2.5;
  return {"item,seen,label\n", kItems, [seed](uint64_t number, std::string& text) {
            Random random = RandomOf(seed, number);
            const uint64_t item = random.Below(kItems);
            const uint64_t length = kShortest + random.Below(kLongest - kShortest + 1);
            double logit = 0;
            absl::StrAppend(&text, item, ",");
            for (uint64_t i = 0; i < length; ++i) {
              const bool of_series = random.Uniform() < kExpected / static_cast<double>(length);
              const uint64_t other = random.Below(kItems);
              const uint64_t seen = of_series ? item / 2 * 2 + other % 2 : other;
              if (seen / 2 == item / 2) logit += seen % 2 == 0 ? kWeight : -kWeight;
              absl::StrAppend(&text, i == 0 ? "" : " ", seen);
            }
            const GeneratedSample sample = Draw({logit}, random);
            absl::StrAppend(&text, ",", sample.labels[0], "\n");
            return sample;
          }};
}

SampleWriter ExpertsTeacher(uint64_t seed) {
  constexpr size_t kSegments = 256;
  constexpr size_t kExperts = 8;
  constexpr size_t kNumbers = 8;
  constexpr double kScale = 4;
  using Direction = std::array<double, kNumbers>;  // Of norm 1.
  std::vector<std::array<Direction, 2>> experts(kExperts);
  Random random_teacher(Mix64(seed));
  for (auto& expert : experts) {
    for (Direction& direction : expert) {
      for (double& weight : direction) weight = random_teacher.Normal();
      const double norm =
          std::sqrt(std::inner_product(direction.begin(), direction.end(), direction.begin(), 0.0));
      for (double& weight : direction) weight /= norm;
    }
  }
  std::vector<std::array<size_t, 2>> experts_of(kSegments);  // Of each label.
  for (auto& chosen : experts_of) {
    for (size_t& expert : chosen) expert = random_teacher.Below(kExperts);
  }
  std::string header = "segment";
  for (size_t i = 1; i <= kNumbers; ++i) absl::StrAppend(&header, ",x", i);
  const auto append = [=](uint64_t number, std::string& text) {
    Random random = RandomOf(seed, number);
    const uint64_t segment = random.Below(kSegments);
    Direction x;
    absl::StrAppend(&text, segment);
    for (double& value : x) {
      value = std::round(random.Normal() * 1000) / 1000;
      absl::StrAppend(&text, ",", value);
    }
    std::vector<double> logits;
    for (const size_t expert : experts_of[segment]) {
      double logit = kScale;
      for (const Direction& direction : experts[expert]) {
        logit *= std::inner_product(x.begin(), x.end(), direction.begin(), 0.0);
      }
      logits.push_back(logit);
    }
    const GeneratedSample sample = Draw(logits, random);
    absl::StrAppend(&text, ",", sample.labels[0], ",", sample.labels[1], "\n");
    return sample;
  };
  return {header + ",y1,y2\n", kSegments, append};
}

}  // namespace simurgh
