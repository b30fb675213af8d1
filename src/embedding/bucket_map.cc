#include "embedding/bucket_map.h"

#include "base/check.h"

namespace simurgh {

BucketMap::BucketMap(uint32_t servers, uint32_t partitions)
    : partitions_(partitions), slots_(servers * partitions) {
  SIMURGH_CHECK(servers > 0 && partitions > 0);
  SIMURGH_CHECK_LE(uint64_t{servers} * partitions, kBuckets);
}

BucketMap MapOf(const ClusterConfig& config) {
  return BucketMap(static_cast<uint32_t>(config.embedding_ps.instances.size()),
                   config.embedding_ps.partitions);
}

}  // namespace simurgh
