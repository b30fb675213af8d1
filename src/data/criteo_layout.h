#pragma once

#include <cstddef>

namespace simurgh {

// A line of the Criteo layout: label, integers I1 to I13, hexadecimal ids C1 to C26; tab separated,
// any but the label empty. Source: readme of the Criteo display advertising challenge data, Criteo
// AI Lab, 2014.
inline constexpr size_t kCriteoDenseColumns = 13;
inline constexpr size_t kCriteoIdColumns = 26;

}  // namespace simurgh
