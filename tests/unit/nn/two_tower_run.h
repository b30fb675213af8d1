#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/random.h"
#include "config/model_config.h"
#include "nn/dense_network.h"
#include "tests/unit/nn/test_models.h"

// Training runs of two towers, to compare backends.
namespace simurgh::testing {

// Towers of a user, from the numbers and feature `a`, and of an item, feature `b`.
ModelConfig TwoTowerModel(float temperature);

struct TwoTowerCase {
  LossConfig::Correction correction = LossConfig::Correction::kLogQ;
  bool has_weights = false;
  size_t uniform = 0;     // Uniform negatives of a batch of more samples.
  uint64_t left_out = 3;  // A step that is not applied.

  ModelConfig model() const;
  DenseNetworkOptions options() const;
};

// A batch with keys: few users and items, equal inputs of which have equal keys. Labels of all
// kinds; with weights, these follow the labels.
struct TwoTowerBatch : TestBatch {
  TwoTowerBatch(const TwoTowerCase& run, uint64_t step, size_t rows, Random& random);

  // Returns the step, of this rank alone.
  RankStep Step(uint64_t step) const;

  std::vector<uint64_t> users;
  std::vector<uint64_t> items;
  size_t uniform = 0;
};

// The samples of a step's batch; sizes repeat and change.
size_t TwoTowerRows(uint64_t step);

struct TwoTowerRun {
  size_t skipped = 0;  // Steps that are not finite.
  std::vector<double> losses;
  std::vector<float> predictions;         // Predictions of all steps.
  std::vector<float> embedding_gradient;  // Gradients of all steps.
  std::vector<float> parameters;
  std::vector<float> state;
  std::vector<float> outputs;  // Outputs for a batch after the last step.
  std::vector<float> vectors;  // What the last tower read of it.
};

// Trains and predicts. ranks: adds the calls of several ranks to the step; may be empty. Then every
// fourth batch of a seed above 1 is empty. finish: called before gradients are applied; may be
// empty. seed: of the batches.
TwoTowerRun TrainTwoTowers(DenseNetwork& network, const TwoTowerCase& run, uint64_t steps,
                           uint64_t seed = 1, const std::function<void(RankStep&)>& ranks = {},
                           const std::function<void()>& finish = {});

// Trains with steps that the network applies, and passes that start before the report of the one
// before. Equals TrainTwoTowers() of a run that leaves no step out, but for `skipped`.
TwoTowerRun TrainTwoTowersAhead(DenseNetwork& network, const TwoTowerCase& run, uint64_t steps);

// Checks each part's relative error, and that frequencies of items have equal bits.
void CheckSameRun(const TwoTowerRun& actual, const TwoTowerRun& expected, double tolerance);

}  // namespace simurgh::testing
