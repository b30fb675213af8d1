#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "config/data_config.h"

namespace simurgh {

class ColumnProfile;
struct DataSample;

// Which rows of interactions are positives, by the cells of their label.
class PositiveRule {
 public:
  // Finds the rule. Numbers of two values: the greater one. Ratings of up to 5: 4 and more. Other
  // numbers: their mean and more. Numbers up to 0 never are. Texts: the one that means yes.
  // name: of the column. wanted: the least number of positives, or their text; empty: guess.
  // Errors: INVALID_ARGUMENT if no row is positive, each would be, or texts have no known meaning.
  static StatusOr<PositiveRule> Find(const std::string& name, const ColumnProfile& profile,
                                     const std::string& wanted);

  // Returns whether a row is positive. Nothing: its label is missing.
  std::optional<bool> IsPositive(std::string_view cell) const;

  // Returns a phrase for the user.
  const std::string& reason() const { return reason_; }

 private:
  std::string text_;  // Text of positives; empty: `least_` decides.
  double least_ = 0;
  NumberFormat numbers_;
  std::string reason_;
};

// Finds the label of interactions among columns without another role, by names. Nothing: there is
// none. has_positive: the user names the positive value, so labels may have several texts.
// Errors: INVALID_ARGUMENT for several columns that fit equally, and for the name of a label whose
// cells are none.
StatusOr<std::optional<size_t>> FindRetrievalLabel(const DataSample& sample,
                                                   const std::vector<size_t>& columns,
                                                   bool has_positive);

// Returns whether the cells of a column can be a label: numbers, or one or two texts.
bool CanBeLabel(const ColumnProfile& profile);

}  // namespace simurgh
