#pragma once

#include <string>
#include <vector>

namespace simurgh {

// The candidate with the smallest edit distance to `word`, the first of equals; empty without
// candidates.
std::string Nearest(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace simurgh
