#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "config/data_config.h"

namespace simurgh {

struct GeneratorConfig {
  uint64_t seed = 1;
  double cardinality_scale = 1.0;  // Times the 33.8 M ids of Criteo; each feature keeps 3 or more.
  uint64_t distinct_ids = 0;       // Ids of all features together; 0: by cardinality_scale.
  double zipf_exponent = 1.05;     // Exponent of each feature's id distribution.
  double missing = 0.03;           // Probability that a cell is empty, labels excepted.
  int id_digits = 16;              // Hexadecimal digits of an id: 8 or 16.
  uint32_t labels = 1;             // Per sample, 1 to kMaxTasks.
};

struct GeneratedSample {
  std::vector<float> labels;  // Each 0 or 1.
  std::array<std::optional<int32_t>, kCriteoDenseColumns> dense;
  std::array<std::optional<uint64_t>, kCriteoIdColumns> ids;
  std::vector<double> teacher_logits;  // (labels) the true log-odds of a positive.
  // Log-odds of the first label up to a constant: without feature pairs, and from the dense columns
  // alone.
  double additive_logit = 0.0;
  double dense_logit = 0.0;
};

// Generates click data in Criteo's layout. The best reachable AUC is known.
//
// Features are independent: 26 ids with a Zipf distribution and 13 log-normal integers, one of them
// negative at times. Every id has a latent number z of random sign. Its size halves by rank 128 and
// vanishes for rare ids, which training data cannot determine. Labels are drawn from
//
//   logit = bias + sum over integers of weight * sign(x) log1p(|x|)
//                + sum over features of z
//                + sum over a few fixed pairs of features of (z - mean z) (z' - mean z')
//
// Each sum is scaled to a fixed standard deviation; the bias gives 25 % positives. The pair terms
// have mean zero given either feature, so an additive model cannot learn them. Further labels have
// log-odds halfway between those of the first label and of a teacher of their own; they leave the
// first label, ids and integers unchanged.
//
// Ids, latents and weights are hashes of (seed, feature, rank), so the generator needs no tables.
// Sample n is a function of (config, n): disjoint ranges give training and test data.
//
// Threads: any.
class Generator {
 public:
  static constexpr size_t kFeatures = kCriteoIdColumns;
  static constexpr size_t kDenseColumns = kCriteoDenseColumns;

  // Cost: draws 50,000 samples to scale the sums.
  // Errors: INVALID_ARGUMENT naming the option and its range.
  static StatusOr<Generator> Create(const GeneratorConfig& config);

  // Cost: about a microsecond.
  GeneratedSample Sample(uint64_t number) const;

  // Number of ids of each feature.
  const std::array<uint64_t, kFeatures>& cardinalities() const;

  // Appends the sample as a line of Criteo's layout.
  void AppendLine(const GeneratedSample& sample, std::string& text) const;

 private:
  struct State;
  explicit Generator(std::shared_ptr<const State> state) : state_(std::move(state)) {}

  std::shared_ptr<const State> state_;
};

}  // namespace simurgh
