#pragma once

#include <cstdint>

#include "simurgh/feature/bucket_map.h"

namespace simurgh {

// The ids whose rows one of several servers has: those that a training with this number of servers
// puts there.
//
// Threads: immutable.
class RowShare {
 public:
  // Requires server < servers <= BucketMap::kBuckets.
  explicit RowShare(uint32_t server = 0, uint32_t servers = 1)
      : server_(server), map_(servers, /*partitions=*/1) {}

  uint32_t server() const { return server_; }
  uint32_t servers() const { return map_.servers(); }
  bool has_all() const { return map_.servers() == 1; }
  bool Has(uint64_t id) const { return ServerOf(id) == server_; }
  uint32_t ServerOf(uint64_t id) const { return map_.SlotOf(id); }

 private:
  uint32_t server_;
  BucketMap map_;
};

}  // namespace simurgh
