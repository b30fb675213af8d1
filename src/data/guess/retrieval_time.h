#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/data_config.h"

namespace simurgh {

class ColumnProfile;
struct DataSample;

// How to read the times of interactions.
class TimeRule {
 public:
  // Forms of times, for messages.
  static constexpr char kForms[] =
      "numbers, 2024-02-29, 2024-02-29 23:59:59 or 2024-02-29T23:59:59+01:00, and, if all rows "
      "have one form with a day above 12, 29.02.2024 or 02/29/2024";

  // Finds the form of a column's times. Nothing: more than 1 % of them cannot be read.
  static std::optional<TimeRule> Find(const DataSample& sample, size_t column);

  // Returns what orders rows. Nothing: the time is missing or cannot be read.
  std::optional<double> TimeOf(std::string_view cell) const;

 private:
  DateOrder order_ = DateOrder::kYearFirst;
};

// Returns warnings about times that order rows badly: equal ones, and those of several units.
std::vector<std::string> TimeWarnings(const std::string& name, const ColumnProfile& profile);

}  // namespace simurgh
