#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace simurgh {

struct HttpAnswer {
  unsigned code = 0;  // Status, for example 200.
  std::string body;
  // `sent`: after the connect and before the request. `received`: after the answer.
  std::chrono::steady_clock::time_point sent;
  std::chrono::steady_clock::time_point received;
};

struct HttpTarget {
  std::string address;  // "host:port"
  std::string path;
};

// Sends a GET to all targets concurrently. Returns the answers in order, of at most 64 MiB each.
// Errors of one target: UNAVAILABLE, with the reason; DEADLINE_EXCEEDED after `timeout`, which does
// not limit the lookup of a name.
// Threads: any.
std::vector<StatusOr<HttpAnswer>> HttpGetAll(const std::vector<HttpTarget>& targets,
                                             std::chrono::milliseconds timeout);

// Metrics in the Prometheus text format 0.0.4, as MetricRegistry writes them.
class MetricsText {
 public:
  using Labels = std::map<std::string, std::string>;

  // Skips comments and timestamps. Errors: INVALID_ARGUMENT with the number of a line.
  static StatusOr<MetricsText> Parse(std::string_view text);

  // Returns the sum of all series of this name that have all these labels. Nothing if there are
  // none.
  std::optional<double> Sum(const std::string& name, const Labels& labels = {}) const;

  // Returns a label of the first series of this name. Nothing without the series or the label.
  std::optional<std::string> Label(const std::string& label, const std::string& name) const;

 private:
  std::map<std::string, std::vector<std::pair<Labels, double>>> series_;  // Keyed by name.
};

}  // namespace simurgh
