#pragma once

#include <map>
#include <string>

#include "simurgh/base/status.h"

namespace simurgh::bench {

// What a daemon counts: series as Prometheus writes them, 'name{label="value",...}', and their
// values.
using Series = std::map<std::string, double>;

// Asks http://<address>/metrics; address: "host:port" with numbers.
// Errors: UNAVAILABLE when nobody answers.
StatusOr<Series> Scrape(const std::string& address);

// What came between two answers; 0 for a series that is not there.
double Growth(const Series& before, const Series& after, const std::string& series);

}  // namespace simurgh::bench
