#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "predict/model_version.h"
#include "report/input_scan.h"
#include "services/simurgh/predict_input.h"

namespace simurgh {

// An input whose rows have been predicted.
struct ScannedInput {
  std::unique_ptr<const PredictInput> input;  // The scan refers to it.
  std::unique_ptr<InputScan> scan;
  InputReport report;
  std::vector<IdDrift> ids;
};

struct ScanOptions {
  std::string name;  // Name of the input, for errors.
  uint32_t threads = 1;
  InputScan::Options scan;
  // Rows without labels are no error, if the input can be read again without them.
  bool may_lack_labels = false;
};

// Predicts the rows of an input and gathers what reports need. Logs bad rows.
// Errors: those of FilePrediction; INVALID_ARGUMENT for an input without good rows.
StatusOr<ScannedInput> ScanInput(const std::shared_ptr<const ModelVersion>& model,
                                 const PredictInput& input, const ScanOptions& options);

}  // namespace simurgh
