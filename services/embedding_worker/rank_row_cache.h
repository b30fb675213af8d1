#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "rpc/async.h"
#include "services/embedding_worker/row_wire.h"
#include "services/embedding_worker/worker_metrics.h"
#include "simurgh/feature/batch_plan.h"
#include "simurgh/table/partition.h"
#include "simurgh/table/row_cache.h"

namespace simurgh {

// The cached rows of one rank. Ranks do not share rows: the age of a row, in pushes that it lacks,
// is defined by the rank's own steps.
//
// Threads: constructor, destructor and thread() any; all else on thread().
class RankRowCache {
 public:
  RankRowCache(size_t capacity_bytes, uint32_t max_age_steps,
               const std::vector<uint32_t>& table_dims, const rpc::asio::any_io_executor& compute,
               WorkerMetrics& metrics);
  ~RankRowCache();

  // A strand.
  const rpc::asio::any_io_executor& thread() const { return thread_; }

  struct Missing {
    RowRequest request;
    uint32_t age_steps = 0;  // Age of the oldest cached row.
  };
  // Copies the plan's cached rows to `floats` and requests the others. Writes the request's ids and
  // the offsets of their floats. Requires ids and offsets of the plan's number of ids.
  Missing Split(const BatchPlan& plan, uint64_t step, RowPrecision precision,
                std::span<float> floats, std::span<uint64_t> ids, std::span<uint64_t> offsets);

  // Decodes a server's rows to their offsets and caches them. A row of zeros is not cached: it may
  // await admission, which counts requests. ids, offsets, bytes: of the server's part.
  void Insert(const ServerRows& server, uint64_t step, const RowWire& wire,
              std::span<const std::byte> bytes, std::span<const uint64_t> ids,
              std::span<const uint64_t> offsets, std::span<float> floats);

 private:
  const rpc::asio::any_io_executor thread_;
  WorkerMetrics& metrics_;
  RowCache rows_;
  size_t reported_rows_ = 0;
  uint64_t reported_evicted_for_space_ = 0;
};

// The row caches of all ranks of the latest run.
//
// Threads: one owner.
class RowCacheRanks {
 public:
  RowCacheRanks(size_t capacity_bytes, std::vector<uint32_t> table_dims,
                rpc::asio::any_io_executor compute, WorkerMetrics& metrics);

  // Returns the cache of step_id.rank, null without one. Ranks share the capacity equally. Another
  // run, number of ranks or age clears all caches.
  std::shared_ptr<RankRowCache> Of(const StepId& step_id, uint32_t max_age_steps);

 private:
  const size_t capacity_bytes_;
  const std::vector<uint32_t> table_dims_;
  const rpc::asio::any_io_executor compute_;
  WorkerMetrics& metrics_;
  uint64_t run_ = 0;
  uint32_t ranks_count_ = 0;
  uint32_t max_age_steps_ = 0;
  std::map<uint32_t, std::shared_ptr<RankRowCache>> ranks_;
};

}  // namespace simurgh
