#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "config/training_config.h"
#include "nn/dense_network.h"
#include "nn/model_plan.h"

namespace simurgh {

// Sets the initial parameters. linear: weight and bias uniform in +-1/sqrt(inputs), PyTorch's
// default. cross: weights likewise, bias 0. batch_norm: scale 1, shift 0.
//
// A layer's values depend only on the seed, the tower's name, the layer's index and its widths.
void InitializeParameters(const ModelPlan& plan, uint64_t seed, std::span<float> parameters);

// Sets running means to 0 and running variances to 1.
void InitializeStatistics(const ModelPlan& plan, std::span<float> statistics);

// Returns DenseNetwork::tensors. scales_loss: the state ends with a loss scale.
std::vector<DenseTensor> TensorsOf(const ModelPlan& plan, const DenseOptimizerConfig& optimizer,
                                   bool scales_loss);

// Returns the part of TensorsOf that the optimizer keeps; offsets begin at 0.
std::vector<DenseTensor> OptimizerTensors(const DenseOptimizerConfig& optimizer, size_t weights);

// See DenseNetwork::Restore. parameters, state: of the saved network; own: of this one.
Status CheckRestored(std::span<const float> parameters, std::span<const float> state,
                     std::span<const float> own_parameters, std::span<const float> own_state);

// See DenseNetwork::CheckFinite. The spans have the layout of the plan.
Status CheckFiniteWeights(const ModelPlan& plan, std::span<const float> parameters,
                          std::span<const float> statistics);

}  // namespace simurgh
