#pragma once

#include <cstdint>

#include "base/hash.h"
#include "config/cluster_config.h"

namespace simurgh {

// Maps ids to the owners of their rows: the top 16 bits of Mix64(id) are its bucket, and each
// bucket has one owner. Another number of servers changes the map and not the hash, so rows move by
// whole buckets. An id has the same owner in every table.
//
// Threads: immutable.
class BucketMap {
 public:
  static constexpr uint32_t kBuckets = 65'536;

  // Maps consecutive ranges of buckets to consecutive slots; a slot is a partition of a server.
  // Requires 1 <= servers * partitions <= kBuckets.
  BucketMap(uint32_t servers, uint32_t partitions);

  static uint32_t BucketOf(uint64_t id) { return static_cast<uint32_t>(Mix64(id) >> 48); }

  // server * partitions() + partition.
  uint32_t SlotOf(uint64_t id) const { return SlotOfBucket(BucketOf(id)); }
  uint32_t SlotOfBucket(uint32_t bucket) const {
    return static_cast<uint32_t>((uint64_t{bucket} * slots_) >> 16);
  }

  uint32_t servers() const { return slots_ / partitions_; }
  uint32_t partitions() const { return partitions_; }  // Number of partitions per server.
  uint32_t slots() const { return slots_; }

  // Peers whose versions differ must not exchange rows.
  uint64_t version() const { return version_; }

 private:
  uint32_t partitions_;
  uint32_t slots_;
  uint64_t version_ = 1;
};

// The placement on the servers of a configuration.
BucketMap MapOf(const ClusterConfig& config);

}  // namespace simurgh
