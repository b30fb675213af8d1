#pragma once

#include <cstddef>
#include <vector>

#include "base/status.h"
#include "config/calibration.h"
#include "config/cluster_config.h"
#include "model/manifest.h"
#include "model/tensor_file.h"
#include "nn/dense_network.h"
#include "nn/model.h"

namespace simurgh {

// Returns the inputs of a configuration's dense network: dense columns, masks of raw features, and
// embeddings.
ModelInputs InputsOf(const ClusterConfig& config);

// The values that a network predicts with, in the order of PredictionTensors().
struct DenseWeights {
  std::vector<float> parameters;
  std::vector<float> statistics;
};

// The tensors as files have them.
std::vector<TensorSpec> SpecsOf(const std::vector<DenseTensor>& tensors);

// Errors: INVALID_ARGUMENT for the first tensor that only one of them has, or in another type or
// shape, naming it, both shapes and the remedy.
Status CheckDenseTensors(const std::vector<TensorSpec>& saved,
                         const std::vector<TensorSpec>& wanted, const char* remedy);

// Reads the tensors of a configuration's network by name: from dense.safetensors of a checkpoint,
// or from a file with only these tensors. If the file has averaged weights, they are the weights.
// Optimizer state is left out.
// Errors: INVALID_ARGUMENT for a tensor that is missing, unknown or of another shape, naming it,
// both shapes and the remedy; of TensorFileReader::Read.
StatusOr<DenseWeights> ReadDenseWeights(TensorFileReader& file, const ClusterConfig& config);

// The calibrations in a manifest, which has a text for them only if there are some.
void WriteCalibrations(const std::vector<Calibration>& calibrations, Manifest& manifest);
// Returns one calibration per label; empty: none. Errors: DATA_LOSS, naming the key.
StatusOr<std::vector<Calibration>> ReadCalibrations(const Manifest& manifest, size_t labels);

// Sets the weights, their average and the running statistics of a new network to those of the file
// config.model.initial_weights.
// Errors: of TensorFileReader::Open and ReadDenseWeights, naming key and file.
Status SetInitialWeights(const ClusterConfig& config, DenseNetwork& network);

}  // namespace simurgh
