#pragma once

#include <cstdint>
#include <functional>
#include <future>

#include "absl/functional/function_ref.h"

#include "simurgh/table/partition.h"

namespace simurgh {

// The partitions of a server, for work outside of requests.
struct PartitionThreads {
  uint32_t count;
  // Calls `use` on the thread of a partition. The caller waits for the future. Afterwards requests
  // that wait for memory try again.
  std::function<std::future<void>(uint32_t partition, std::function<void(Partition&)> use)> on_one;
  // The same for all partitions, each on its thread. Waits.
  std::function<void(absl::FunctionRef<void(uint32_t partition, Partition&)> use)> on_all;
};

}  // namespace simurgh
