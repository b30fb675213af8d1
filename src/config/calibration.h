#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/status.h"
#include "config/cluster_config.h"

namespace simurgh {

// Replaces a label's output z by high * ln(1 + exp(z)) - low * ln(1 + exp(-z)) + shift, from which
// the prediction follows. This is a line of slope `low` far below 0, and one of slope `high` far
// above 0. Both are above 0, so the order of the predictions stays. Equal slopes give low * z +
// shift.
struct Calibration {
  double low = 1;
  double high = 1;
  double shift = 0;

  bool operator==(const Calibration&) const = default;
};

// YAML key `training.calibration`.
struct CalibrationConfig {
  bool fits = true;  // Fit to evaluations of the validation data, and to an update's rows.
  std::vector<Calibration> given;  // One per label, until others are fitted; empty: none.

  // Returns the problem of a value of the key, or an empty string.
  static std::string Problem(const std::string& text);
  // Reads the key of a resolved configuration.
  static CalibrationConfig Of(const ConfigSettings& settings);
};

// "0.8 1.2 -0.1, 1 0": low, high and shift of each label, in digits that restore every bit. Equal
// slopes are one number.
std::string CalibrationsText(const std::vector<Calibration>& calibrations);
// Parses a CalibrationsText(). Errors: INVALID_ARGUMENT.
StatusOr<std::vector<Calibration>> CalibrationsFromText(const std::string& text);

}  // namespace simurgh
