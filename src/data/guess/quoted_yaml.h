#pragma once

#include <string>
#include <string_view>

namespace simurgh {

// Returns a YAML text in double quotes, with escapes for control characters.
std::string QuotedYaml(std::string_view text);

}  // namespace simurgh
