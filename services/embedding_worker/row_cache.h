#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "rpc/async.h"
#include "services/embedding_worker/row_wire.h"
#include "services/embedding_worker/worker_metrics.h"
#include "simurgh/base/aligned_buffer.h"
#include "simurgh/feature/batch_plan.h"
#include "simurgh/table/partition.h"

namespace simurgh {

// Rows that one rank pulled at its latest steps, for pulls that accept rows of this age.
//
// A ring holds the rows in the order of insertion and evicts the oldest. An index with buckets of
// one cache line locates them; a full bucket drops its oldest entry. The constructor allocates
// both; nothing allocates later.
//
// Threads: one owner.
class RowCache {
 public:
  // capacity_bytes: of ring and index; may be too small for any row. A row fetched for step s is
  // valid up to step s + max_age_steps. table_dims: by table.
  RowCache(size_t capacity_bytes, uint32_t max_age_steps, std::vector<uint32_t> table_dims);

  // Copies the row if it is cached and valid at this step. Returns its age in steps.
  std::optional<uint32_t> Find(uint32_t table, uint64_t id, uint64_t step,
                               std::span<float> row) const;

  // Caches a row fetched for this step, unless a later version is cached.
  void Insert(uint32_t table, uint64_t id, uint64_t step, std::span<const float> row);

  // Prefetches the row's bucket.
  void Prefetch(uint32_t table, uint64_t id) const {
    if (!index_.empty()) __builtin_prefetch(&index_[FirstOfBucket(HashOf(table, id))]);
  }

  size_t rows() const { return rows_; }
  // Allocated for ring and index.
  size_t bytes() const { return ring_.size() + index_.size() * sizeof(uint64_t); }
  // Rows evicted while still valid.
  uint64_t evicted_for_space() const { return evicted_for_space_; }

 private:
  struct Header;
  static constexpr size_t kWays = 8;  // Entries of a bucket: a cache line.

  static uint64_t HashOf(uint32_t table, uint64_t id);
  size_t FirstOfBucket(uint64_t hash) const {
    const auto buckets = static_cast<unsigned __int128>(index_.size() / kWays);
    return static_cast<size_t>(buckets * hash >> 64) * kWays;
  }
  size_t SizeOf(uint32_t table) const;
  // position: total bytes before the record, over all rounds of the ring.
  Header& At(uint64_t position) const;
  bool IsLive(uint64_t entry) const;
  // Null if the row is not cached.
  const uint64_t* EntryOf(uint32_t table, uint64_t id) const;
  // Evicts rows until `bytes` contiguous bytes are free. Returns their position.
  uint64_t MakeRoom(size_t bytes);
  void EvictOldest();

  const uint32_t max_age_steps_;
  const std::vector<uint32_t> table_dims_;
  AlignedBuffer ring_;
  std::vector<uint64_t> index_;  // Entries: see the .cc file.
  uint64_t first_ = 0;           // Position of the oldest record.
  uint64_t end_ = 0;             // End of the newest record.
  uint64_t newest_step_ = 0;
  size_t rows_ = 0;
  uint64_t evicted_for_space_ = 0;
};

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
