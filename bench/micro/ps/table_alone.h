#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "bench/micro/ps/batches.h"
#include "config/cluster_config.h"
#include "table/partition.h"

namespace simurgh::bench {

// The partitions of a server without the server.
class TableAlone {
 public:
  // Errors: of Partition::Create.
  static StatusOr<std::unique_ptr<TableAlone>> Create(const ClusterConfig& config);

  void Fill(const std::vector<PsBatch>& rows);

  // Returns rows per second of pulls or pushes over all partitions. Each partition has its own
  // thread, which waits for no other.
  double Measure(const std::vector<PsBatch>& batches, bool push, size_t buffers, double seconds);

 private:
  std::vector<std::unique_ptr<Partition>> partitions_;
  std::vector<uint64_t> steps_;  // By partition.
};

}  // namespace simurgh::bench
