#include "config/nearest.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace simurgh {
namespace {

// Levenshtein's distance, one row of its table at a time.
size_t EditDistance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string Nearest(const std::string& word, const std::vector<std::string>& candidates) {
  std::string nearest;
  size_t smallest = (word.size() + 2) / 3 + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance =
        EditDistance(absl::AsciiStrToLower(word), absl::AsciiStrToLower(candidate));
    if (distance < smallest) {
      smallest = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string NearestRemedy(const std::string& noun, const std::string& word,
                          const std::vector<std::string>& candidates) {
  constexpr size_t kMaxShown = 12;
  const std::string nearest = Nearest(word, candidates);
  if (!nearest.empty()) return absl::StrCat("the nearest ", noun, " is '", nearest, "'");
  if (candidates.empty()) return absl::StrCat("there is no ", noun);
  const size_t shown = std::min(candidates.size(), kMaxShown);
  return absl::StrCat("use one of ",
                      absl::StrJoin(candidates.begin(), candidates.begin() + shown, ", "),
                      shown < candidates.size() ? ", ..." : "");
}

}  // namespace simurgh
