#include "bench/micro/worker/scrape.h"

#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "tests/support/http_get.h"

namespace simurgh::bench {
StatusOr<Series> Scrape(const std::string& address) {
  const std::string answer = testing::HttpGet(address, "/metrics");
  Series series;
  std::istringstream lines(answer);
  for (std::string line; std::getline(lines, line);) {
    const size_t blank = line.rfind(' ');
    double value = 0;
    if (line.starts_with('#') || blank == std::string::npos) continue;
    if (absl::SimpleAtod(line.substr(blank + 1), &value)) series[line.substr(0, blank)] = value;
  }
  if (series.empty()) return absl::UnavailableError(absl::StrCat(address, " returned no metrics"));
  return series;
}

double Growth(const Series& before, const Series& after, const std::string& series) {
  const auto last = after.find(series);
  if (last == after.end()) return 0;
  const auto first = before.find(series);
  return last->second - (first == before.end() ? 0 : first->second);
}

}  // namespace simurgh::bench
