#include "services/api/layout.h"

#include <algorithm>

namespace simurgh {

BatchLayout LayoutOf(const ClusterConfig& config) {
  BatchLayout layout;
  for (const TableConfig& table : config.tables) layout.table_dims.push_back(table.dim);
  uint32_t column = 0;
  for (const FeatureConfig& feature : config.features) {
    layout.features.push_back(
        {.table = feature.table_index,
         .first_column = column,
         .pooling = {.kind = feature.pooling,
                     .length = feature.processing.max_length,
                     .rows_per_id = std::max(feature.hash_stack.rounds, uint32_t{1})}});
    column += feature.width(layout.table_dims[feature.table_index]);
  }
  return layout;
}

BucketMap MapOf(const ClusterConfig& config) {
  return BucketMap(static_cast<uint32_t>(config.embedding_ps.instances.size()),
                   config.embedding_ps.partitions);
}

}  // namespace simurgh
