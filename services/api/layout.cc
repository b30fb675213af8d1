#include "services/api/layout.h"

namespace simurgh {

BatchLayout LayoutOf(const ClusterConfig& config) {
  BatchLayout layout;
  for (const TableConfig& table : config.tables) layout.table_dims.push_back(table.dim);
  uint32_t column = 0;
  for (const FeatureConfig& feature : config.features) {
    layout.features.push_back({feature.table_index, column});
    column += layout.table_dims[feature.table_index];
  }
  return layout;
}

BucketMap MapOf(const ClusterConfig& config) {
  return BucketMap(static_cast<uint32_t>(config.embedding_ps.instances.size()),
                   config.embedding_ps.partitions);
}

}  // namespace simurgh
