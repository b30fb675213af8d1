#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "config/model_config.h"
#include "report/interval.h"

namespace simurgh {

// What a permutation does to a metric.
struct PermutationEffect {
  double mean = 0;            // Mean change over the repeats.
  double standard_error = 0;  // Includes the choice of the rows.
  Interval interval;          // mean +- t * standard_error, with rows - 1 degrees of freedom.
};

// The effects on one label. Increases of losses and decreases of the AUC are above 0.
struct PermutationEffects {
  PermutationEffect loss;  // Log loss of a binary label, or RMSE.
  PermutationEffect auc;   // NaN for a label of numbers, or without both classes.
};

// Permutation importance: the change of a metric when a column's cells are permuted among the rows.
//
// The metric of a permutation is a statistic of pairs of rows: one row keeps its other cells, and a
// donor gives the cell. So the error has three sources: the rows, the donors, and the choice of the
// pairs. The influence of row i on the statistic is
//   h_i = mean over repeats of (e_ir + e_jr), where row j gets the cell of row i in repeat r,
// where e_ir is the influence of row i on the permuted metric, less that on the original one. For a
// mean of losses it is the difference of the row's losses, less the mean difference. For the AUC it
// is that of DeLong's structural components. The standard error is
//   sqrt(sum of h_i^2 / (rows (rows - 1))).
// It is too large rather than too small: the choice of the pairs is in it twice. Repeats make it
// smaller, but never below the error of the rows. The spread over repeats alone would have only the
// choice of the pairs: a column of noise would then often have an effect that is not 0.
//
// Sources: Breiman, "Random forests", Machine Learning 45, 2001; Fisher, Rudin, Dominici, "All
// models are wrong, but many are useful", JMLR 20, 2019, where the statistic of pairs is e_switch;
// Hoeffding, "A class of statistics with asymptotically normal distribution", 1948; DeLong, DeLong,
// Clarke-Pearson, Biometrics 44, 1988.
//
// Threads: one owner.
class PermutationTest {
 public:
  // labels: (rows); NaN: a row without the label gives cells only. predictions: (rows), without a
  // permutation. weights: (rows). Lifetime: the spans outlive the object.
  PermutationTest(LossConfig::Kind kind, std::span<const float> labels,
                  std::span<const float> predictions, std::span<const float> weights);

  // permutations, predictions: one per repeat, (rows). In repeat r, row i has the cell of row
  // permutations[r][i]. Cost: a sort per repeat for the AUC.
  PermutationEffects Measure(std::span<const std::vector<uint32_t>> permutations,
                             std::span<const std::vector<float>> predictions) const;

 private:
  // A metric, and the influence of each row on it.
  struct Statistic {
    double value = 0;
    std::vector<double> influences;
  };

  Statistic LossOf(std::span<const float> predictions) const;
  Statistic AucOf(std::span<const float> predictions) const;
  PermutationEffect EffectOf(const Statistic& original, std::span<const Statistic> permuted,
                             std::span<const std::vector<uint32_t>> permutations,
                             double sign) const;

  const LossConfig::Kind kind_;
  const std::span<const float> labels_;
  const std::span<const float> weights_;
  std::vector<uint32_t> rows_;  // Rows with the label, and a weight above 0.
  double weight_ = 0;
  Statistic loss_;
  Statistic auc_;
};

}  // namespace simurgh
