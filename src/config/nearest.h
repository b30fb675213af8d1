#pragma once

#include <string>
#include <vector>

namespace simurgh {

// The first candidate with the smallest edit distance to `word`, ignoring case; empty if
// that exceeds a third of the word's length, rounded up.
std::string Nearest(const std::string& word, const std::vector<std::string>& candidates);

// "the nearest NOUN is 'NAME'", or if none is near, the candidates: "use one of a, b, c". Of many
// candidates, the first.
std::string NearestRemedy(const std::string& noun, const std::string& word,
                          const std::vector<std::string>& candidates);

}  // namespace simurgh
