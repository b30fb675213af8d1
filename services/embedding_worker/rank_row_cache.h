#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "rpc/async.h"
#include "services/embedding_worker/row_cache.h"
#include "services/embedding_worker/row_wire.h"
#include "services/embedding_worker/worker_metrics.h"
#include "simurgh/feature/batch_plan.h"
#include "simurgh/table/partition.h"

namespace simurgh {

// The hot rows of one rank. They are of use to no other: only for its own steps it is known which
// pushes a row may lack.
//
// Threads: made and asked for its thread anywhere; all else on that thread.
class RankRowCache {
 public:
  RankRowCache(size_t capacity_bytes, uint32_t max_age_steps,
               const std::vector<uint32_t>& table_dims, const rpc::asio::any_io_executor& compute,
               WorkerMetrics& metrics);
  ~RankRowCache();

  // Runs one thing at a time.
  const rpc::asio::any_io_executor& thread() const { return thread_; }

  // Which rows of a plan are not here; the others are copied to their places.
  struct Missing {
    RowRequest request;
    uint32_t age_steps = 0;  // Of the oldest of the others.
  };
  // floats: of the plan. ids, places: room for all of the plan's ids; set to those of the request,
  // and to where the floats of each belong.
  Missing Split(const BatchPlan& plan, uint64_t step, RowPrecision precision,
                std::span<float> floats, std::span<uint64_t> ids, std::span<uint64_t> places);

  // Puts what a server has answered where it belongs, and keeps it. A row of zeros is not kept: it
  // may be one that admission has refused, and that must be asked for again to be counted.
  // ids, places, bytes: of the server's part of the request.
  void Take(const ServerRows& server, uint64_t step, const RowWire& wire,
            std::span<const std::byte> bytes, std::span<const uint64_t> ids,
            std::span<const uint64_t> places, std::span<float> floats);

 private:
  void Report();

  const rpc::asio::any_io_executor thread_;
  WorkerMetrics& metrics_;
  RowCache rows_;
  size_t reported_rows_ = 0;
  uint64_t reported_evicted_for_space_ = 0;
};

// The hot rows of all ranks of the latest run.
//
// Threads: one owner.
class RowCacheRanks {
 public:
  RowCacheRanks(size_t capacity_bytes, std::vector<uint32_t> table_dims,
                rpc::asio::any_io_executor compute, WorkerMetrics& metrics);

  // Those of the position's rank; null when none are kept. A rank's share of the capacity is that
  // of one among position.ranks. Another run, another number of ranks or another age let go of
  // everything.
  std::shared_ptr<RankRowCache> Of(const StepId& position, uint32_t max_age_steps);

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
