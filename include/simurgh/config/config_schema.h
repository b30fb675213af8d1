#pragma once

#include <string>

namespace simurgh {

// The JSON Schema (draft 2020-12) of a cluster file: types, ranges, words, defaults, descriptions
// and required keys. Rules that concern several keys are left to the parser, except which of a few
// keys must be given.
std::string ConfigSchema();

}  // namespace simurgh
