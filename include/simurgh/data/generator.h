#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "simurgh/base/status.h"

namespace simurgh {

struct GeneratorConfig {
  uint64_t seed = 1;
  double cardinality_scale = 1.0;  // Times Criteo's 33.8 M ids; every feature keeps at least 3.
  uint64_t distinct_ids = 0;       // Ids of all features together; 0: as the scale says.
  double zipf_exponent = 1.05;     // Of each feature's ids.
  double missing = 0.03;           // Probability that a cell but the label is empty.
  int id_digits = 16;              // Hexadecimal digits of an id: 8 or 16.
  uint32_t labels = 1;             // Of a sample, 1 to kMaxTasks.
};

struct GeneratedSample {
  float label = 0.0F;              // 0 or 1.
  std::vector<float> more_labels;  // (labels - 1)
  std::array<std::optional<int32_t>, 13> dense;
  std::array<std::optional<uint64_t>, 26> ids;

  // Log-odds of a positive: what an all-knowing model would answer, the same without the terms that
  // join two features, and the dense columns' part alone (up to a constant, which no ranking sees).
  // All of the first label.
  double teacher_logit = 0.0;
  double additive_logit = 0.0;
  double dense_logit = 0.0;
  std::vector<double> more_teacher_logits;  // (labels - 1) of the others
};

// Makes click-like data of Criteo's layout whose best reachable quality is known.
//
// Features are independent: 26 ids, Zipf distributed over the cardinalities of Criteo's data times
// a scale, and 13 integers, log-normal, one of them at times negative. Every id has one latent
// number z, of random sign and of a size that halves by rank 128 and dies out behind it. Labels are
// drawn from
//
//   logit = bias + sum over integers of weight * sign(x) log1p(|x|)
//                + sum over features of z
//                + sum over a few fixed pairs of features of (z - mean z) (z' - mean z')
//
// each sum scaled to a fixed standard deviation, the bias set for 25 % positives. Ids, latents and
// weights are hashes of (seed, feature, rank): no tables, any size. Sample n is a function of
// (config, n) alone: ranges of numbers make training and test data of one teacher.
//
// Further labels have teachers of their own over the same ids, whose log-odds are halves of theirs
// and of the first one's: tasks that share something. The first label, ids and numbers do not
// depend on how many there are.
//
// What a model can reach: the teacher's AUC is that of the true log-odds, so the noise of the
// labels is in it already. Below it a model stays for two reasons only. Samples are finite: a
// rank-r id is seen in proportion to 1 / (r + 1)^exponent, and its z is known no better than its
// few labels tell; ids that training never shows stay unknown. That is why z dies out where ids
// become rare: the tail is most of the table and next to nothing of the signal. And the pairs have
// to be found: their terms have mean zero given either feature, so that no additive model gains
// from them, while z itself, which each feature shows by its own effect, is all they are made of.
//
// Threads: any; const after construction.
class Generator {
 public:
  static constexpr size_t kFeatures = 26;
  static constexpr size_t kDenseColumns = 13;

  // Cost: some 50,000 samples are drawn to scale the sums.
  // Errors: INVALID_ARGUMENT naming the option and its range.
  static StatusOr<Generator> Create(const GeneratorConfig& config);

  ~Generator();
  Generator(Generator&&) noexcept;
  Generator& operator=(Generator&&) noexcept;

  // Sample `number`. Cost: about a microsecond.
  GeneratedSample Sample(uint64_t number) const;

  // Ids of each feature.
  const std::array<uint64_t, kFeatures>& cardinalities() const;

  // Appends the sample as a line of Criteo's layout.
  void AppendLine(const GeneratedSample& sample, std::string& text) const;

 private:
  struct State;
  explicit Generator(std::unique_ptr<const State> state);

  std::unique_ptr<const State> state_;
};

}  // namespace simurgh
