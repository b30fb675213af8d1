#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "telemetry/metrics.h"

namespace simurgh::testing {

// Results of a training run in one process.
struct Outcome {
  uint64_t network = 0;          // Digest of weights and optimizer state.
  std::vector<uint64_t> tables;  // Digest of all rows, by table.
  uint64_t steps = 0;
  double auc = 0;
  std::vector<double> task_aucs;  // By label, if there are several.

  bool operator==(const Outcome&) const = default;
};

// Trains with the file, the overrides and `servers` servers. registry: receives the metrics; may be
// null.
Outcome TrainStandalone(const std::string& path, int servers, std::vector<std::string> overrides,
                        MetricRegistry* registry = nullptr);

// Overrides for a short run that repeats to the last bit.
std::vector<std::string> Reproducible(const std::string& staleness);

}  // namespace simurgh::testing
