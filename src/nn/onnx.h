#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "config/calibration.h"
#include "config/model_config.h"
#include "config/statistics.h"
#include "nn/model.h"

namespace simurgh {

struct OnnxOptions {
  std::vector<std::string> outputs;             // A name for each label.
  double kept_negatives = 1.0;                  // See ToPredictions().
  std::vector<Calibration> calibrations = {};   // Indexed by label; empty: none.
  std::vector<LabelScale> scales = {};          // Indexed by label; empty: none is scaled.
  uint64_t step = 0;                            // The version of the ONNX model.
  std::map<std::string, std::string> metadata;  // Texts by key.
};

// Returns the bytes of an ONNX model, opset 17, that predicts as DenseNetwork::Predict and
// ToPredictions() do.
//
// Inputs: `dense` [N, dense_width] and `embeddings` [N, embedding_width], f32; one of width 0 is
// left out. Outputs: for each label the predictions [N]. N may change between calls.
// parameters, statistics: in the order of PredictionTensors().
// Memory: up to three times the weights.
// Errors: INVALID_ARGUMENT for an inconsistent model, or one beyond the 2 GiB of a protobuf file.
StatusOr<std::string> OnnxModel(const ModelConfig& model, const ModelInputs& inputs,
                                std::span<const float> parameters,
                                std::span<const float> statistics, const OnnxOptions& options);

}  // namespace simurgh
