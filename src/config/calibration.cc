#include "simurgh/config/calibration.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "config/map_reader.h"

namespace simurgh {

CalibrationConfig CalibrationConfig::Of(const ConfigSettings& settings) {
  const auto found = settings.find("training.calibration");
  if (found == settings.end() || found->second == "platt") return {};
  if (found->second == "none") return {.fits = false, .given = {}};
  return {.fits = false, .given = CalibrationsFromText(found->second).value()};
}

std::string CalibrationsText(const std::vector<Calibration>& calibrations) {
  return absl::StrJoin(calibrations, ", ", [](std::string* text, const Calibration& one) {
    absl::StrAppend(text, FormatNumber(one.scale), " ", FormatNumber(one.shift));
  });
}

StatusOr<std::vector<Calibration>> CalibrationsFromText(const std::string& text) {
  std::vector<Calibration> calibrations;
  for (const absl::string_view pair : absl::StrSplit(text, ", ")) {
    const std::vector<std::string> numbers = absl::StrSplit(pair, ' ');
    Calibration& one = calibrations.emplace_back();
    const bool is_valid =
        numbers.size() == 2 && ParseNumber(numbers[0], &one.scale) == NumberFault::kNone &&
        ParseNumber(numbers[1], &one.shift) == NumberFault::kNone && one.scale > 0;
    if (is_valid) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("'", pair, "' is not a scale above 0 and a shift; write them as in 0.8 -0.1"));
  }
  return calibrations;
}

}  // namespace simurgh
