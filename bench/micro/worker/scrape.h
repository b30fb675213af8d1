#pragma once

#include <map>
#include <string>

#include "base/status.h"

namespace simurgh::bench {

// Metrics of a daemon: values by series as Prometheus writes them, 'name{label="value",...}'.
using Series = std::map<std::string, double>;

// Gets http://<address>/metrics. address: "host:port", numeric.
// Errors: UNAVAILABLE if there is no response.
StatusOr<Series> Scrape(const std::string& address);

// Difference of a series between two scrapes; 0 if the series is missing.
double Growth(const Series& before, const Series& after, const std::string& series);

}  // namespace simurgh::bench
