#pragma once

#include <string>
#include <vector>

namespace simurgh {

// "the nearest NOUN is 'NAME'", or if none is near, the candidates: "use one of a, b, c". Of many
// candidates, the first.
std::string NearestRemedy(const std::string& noun, const std::string& word,
                          const std::vector<std::string>& candidates);

}  // namespace simurgh
