#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "config/table_config.h"
#include "embedding/batch_plan.h"
#include "embedding/row_cache.h"
#include "embedding/row_wire.h"
#include "telemetry/metrics.h"

namespace simurgh {

// Metrics of the row caches of all ranks.
struct RowCacheMetrics {
  explicit RowCacheMetrics(MetricRegistry& registry);

  Counter& hits;
  Counter& misses;
  Counter& evictions;
  Histogram& age_steps;
};

// The cached rows of one rank. Ranks do not share rows: the age of a row, in pushes that it lacks,
// is defined by the rank's own steps.
//
// Threads: one at a time.
class RankRowCache {
 public:
  RankRowCache(size_t capacity_bytes, uint32_t max_age_steps,
               const std::vector<uint32_t>& table_dims, RowCacheMetrics& metrics);

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
  RowCacheMetrics& metrics_;
  RowCache rows_;
  uint64_t reported_evicted_for_space_ = 0;
};

}  // namespace simurgh
