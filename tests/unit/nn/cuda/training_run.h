#pragma once

#include <memory>
#include <span>
#include <vector>

#include "nn/dense_network.h"
#include "tests/unit/nn/test_models.h"

// Training runs, to compare backends.
namespace simurgh::testing {

// Every kind of layer, with shared inputs and odd widths. No bias directly before batch norm,
// because its gradient is only rounding error.
//
// relu: replaces relu, where a rounding error near 0 changes a whole gradient and would hide other
// errors of bf16.
ModelConfig EveryLayer(const LayerConfig& relu = Relu());
DenseNetworkOptions RunOptions(const DenseOptimizerConfig& optimizer);
// EveryLayer on the backend under test, with Adam. replays: as CreateTestNetwork.
std::unique_ptr<DenseNetwork> WiredNetwork(ComputePrecision compute, const EmbeddingWire& wire,
                                           bool replays = true);

// Every optimizer, some with weight decay, clipping or averages.
std::vector<DenseOptimizerConfig> RunOptimizers();

struct TrainingRun {
  std::vector<double> losses;
  std::vector<float> parameters;
  std::vector<float> state;
  std::vector<float> embedding_gradient;  // In the last step.
  std::vector<float> predictions;
};

// Trains on batches of 96 or 33 samples, whose labels follow a rule, so losses fall. off: relative
// perturbation of the weights in every pass.
TrainingRun Train(DenseNetwork& network, int steps, float off = 0);
TrainingRun TrainOnCpu(const DenseNetworkOptions& options, int steps,
                       const ModelConfig& model = EveryLayer());

// |actual - expected| / |expected|, of the vectors.
double RelativeError(std::span<const float> actual, std::span<const float> expected);

// Checks |actual - expected| <= tolerance * max(1, |expected|) for every value.
void CheckNear(std::span<const float> actual, std::span<const float> expected, double tolerance);

// A run of the CPU backend in f32, and a perturbed run that bounds the difference of a correct
// backend.
//
// A sum of n products with n random roundings equals the exact sum of products with a relative
// error of about sqrt(n) u each, u = 2^-24 (Higham, "Accuracy and Stability of Numerical
// Algorithms", sections 2.8 and 3.1). A weight is in three such sums: of its layer's outputs, of
// the gradient of its inputs and of its own gradient. Two backends thus differ as if weights were
// off by 6 sqrt(n) u. The perturbed run has weights off by that, up or down at random, in every
// pass, but not in the optimizer. Roundings are random too, so a correct run may differ by twice as
// much.
struct ExpectedRun {
  TrainingRun run;
  TrainingRun off;
};
ExpectedRun ExpectAsOnCpu(const DenseNetworkOptions& options, int steps);

// Compares losses, weights, state, gradients and predictions, each as a vector.
void CheckSameTraining(const TrainingRun& actual, const ExpectedRun& expected);

bool SameBits(std::span<const float> a, std::span<const float> b);

}  // namespace simurgh::testing
