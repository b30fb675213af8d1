#include "config/calibration.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

#include "config/map_reader.h"

namespace simurgh {
namespace {

constexpr absl::string_view kFittedFrom = "beta ";

}  // namespace

std::string CalibrationConfig::Problem(const std::string& text) {
  // Older versions wrote platt.
  if (text == "beta" || text == "platt" || text == "none") return "";
  const std::string numbers(absl::StripPrefix(text, kFittedFrom));
  return std::string(CalibrationsFromText(numbers).status().message());
}

CalibrationConfig CalibrationConfig::Of(const ConfigSettings& settings) {
  const auto found = settings.find("training.calibration");
  if (found == settings.end() || found->second == "beta") return {};
  if (found->second == "none") return {.fits = false, .given = {}};
  absl::string_view numbers = found->second;
  const bool fits = absl::ConsumePrefix(&numbers, kFittedFrom);
  return {.fits = fits, .given = CalibrationsFromText(std::string(numbers)).value()};
}

std::string CalibrationsText(const std::vector<Calibration>& calibrations) {
  return absl::StrJoin(calibrations, ", ", [](std::string* text, const Calibration& one) {
    absl::StrAppend(text, FormatNumber(one.low), " ");
    if (one.high != one.low) absl::StrAppend(text, FormatNumber(one.high), " ");
    absl::StrAppend(text, FormatNumber(one.shift));
  });
}

StatusOr<std::vector<Calibration>> CalibrationsFromText(const std::string& text) {
  std::vector<Calibration> calibrations;
  for (const absl::string_view of_label : absl::StrSplit(text, ", ")) {
    const std::vector<std::string> numbers = absl::StrSplit(of_label, ' ');
    const auto is_number = [&](size_t i, double* number) {
      return ParseNumber(numbers[i], number) == NumberFault::kNone;
    };
    Calibration& one = calibrations.emplace_back();
    const size_t last = numbers.size() - 1;
    const bool is_valid = (last == 1 || last == 2) && is_number(0, &one.low) &&
                          is_number(last - 1, &one.high) && is_number(last, &one.shift) &&
                          one.low > 0 && one.high > 0;
    if (is_valid) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("'", of_label,
                     "' is not one or two slopes above 0 and a shift; write them as in 0.8 -0.1 or "
                     "0.8 1.2 -0.1"));
  }
  return calibrations;
}

}  // namespace simurgh
