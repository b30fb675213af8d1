#pragma once

#include <string>
#include <string_view>

namespace simurgh {

// Returns why a text is not in UTF-8, with the command that converts its file; empty if it is.
std::string EncodingProblem(std::string_view text);

}  // namespace simurgh
