#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "config/cluster_config.h"
#include "model/model_directory.h"
#include "report/history.h"

namespace simurgh {

// The rows of a table in a checkpoint.
struct TableReport {
  std::string name;
  uint32_t dim = 0;
  uint64_t rows = 0;
  uint64_t bytes = 0;  // Size of its files, with optimizer state. A delta has only its own.
  std::optional<uint64_t> evicted = {};  // Rows that left it: see TrainingHistory. None: not known.
  // Euclidean norms of the weights of rows: of all rows, or of the first kMostNorms.
  double mean_norm = 0;
  double median_norm = 0;
  double high_norm = 0;  // Percentile 99.
};

// Norms that are computed for a table.
inline constexpr uint64_t kMostNorms = 200'000;

// Reads the tables of a checkpoint. Errors: those of TableReader.
StatusOr<std::vector<TableReport>> ReadTables(const Checkpoint& checkpoint,
                                              const ClusterConfig& config);

// Sets the evicted rows at a step, if the history has its checkpoint.
void SetEvicted(const TrainingHistory& history, uint64_t step, std::vector<TableReport>& tables);

}  // namespace simurgh
