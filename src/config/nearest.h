#pragma once

#include <string>
#include <vector>

namespace simurgh {

// The first candidate with the smallest edit distance to `word`; empty without candidates.
std::string Nearest(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace simurgh
