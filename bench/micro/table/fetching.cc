#include "bench/micro/table/fetching.h"

#include "absl/strings/str_cat.h"

namespace simurgh::bench {

std::vector<Fetching> WaysOfFetching() {
  std::vector<Fetching> ways;
  for (const size_t rows : {4, 8, 12, 16, 24, 32, 48, 64, 96, 128}) ways.push_back({rows, false});
  for (const size_t rows : {8, 16, 32, 48, 64, 96, 128}) ways.push_back({rows, true});
  return ways;
}

std::string NameOf(const Fetching& fetching) {
  return absl::StrCat(fetching.in_lots ? "lots of " : "", fetching.rows,
                      fetching.in_lots ? " rows" : " rows ahead");
}

}  // namespace simurgh::bench
