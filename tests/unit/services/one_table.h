#pragma once

#include <cstdint>

#include "config/cluster_config.h"

namespace simurgh {

// A server of one partition with one table, trained by SGD.
inline ClusterConfig OneTable(uint32_t dim, uint64_t capacity_rows) {
  ClusterConfig config;
  config.embedding_ps = {.instances = {{}}, .partitions = 1};
  TableConfig table;
  table.name = "ids";
  table.dim = dim;
  table.capacity_rows = capacity_rows;
  table.optimizer.kind = SparseOptimizerConfig::Kind::kSgd;
  config.tables = {table};
  return config;
}

}  // namespace simurgh
