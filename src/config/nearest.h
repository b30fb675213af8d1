#pragma once

#include <string>
#include <vector>

namespace simurgh {

// Returns the first candidate with the smallest edit distance to `word`, ignoring case. Returns an
// empty text if that exceeds a third of the word's length, rounded up.
std::string Nearest(const std::string& word, const std::vector<std::string>& candidates);

// Returns "the nearest NOUN is 'NAME'", or if none is near, the candidates: "use one of a, b, c".
// Long lists of candidates are cut.
std::string NearestRemedy(const std::string& noun, const std::string& word,
                          const std::vector<std::string>& candidates);

}  // namespace simurgh
