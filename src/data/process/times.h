#pragma once

#include <optional>
#include <string_view>

namespace simurgh {

// A date with or without a time of day as seconds since 1970, or a number as it is; nothing for
// another text. Dates are as in ISO 8601, such as 2024-02-29, 2024/02/29 23:59 or
// 2024-02-29T23:59:59.5+01:00; without an offset they are in UTC.
std::optional<double> ParseTimeCell(std::string_view text);

}  // namespace simurgh
