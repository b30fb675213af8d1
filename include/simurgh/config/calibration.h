#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "simurgh/base/status.h"
#include "simurgh/config/cluster_config.h"

namespace simurgh {

// Replaces a label's output z by scale * z + shift, from which the prediction follows. scale is
// above 0, so the order of the predictions stays.
struct Calibration {
  double scale = 1;
  double shift = 0;

  bool operator==(const Calibration&) const = default;
};

// YAML key `training.calibration`.
struct CalibrationConfig {
  bool fits = true;                // To evaluations of the validation data.
  std::vector<Calibration> given;  // One per label, in place of fitted ones; empty: none.

  // Reads the key of a resolved configuration.
  static CalibrationConfig Of(const ConfigSettings& settings);
};

// "0.8 -0.1, 1 0": scale and shift of each label, in digits that restore every bit.
std::string CalibrationsText(const std::vector<Calibration>& calibrations);
// The inverse. Errors: INVALID_ARGUMENT.
StatusOr<std::vector<Calibration>> CalibrationsFromText(const std::string& text);

}  // namespace simurgh
