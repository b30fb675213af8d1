#include "embedding/rank_row_cache.h"

#include <algorithm>
#include <array>

namespace simurgh {
namespace {

const CounterFamily kRowCacheHitsTotal("simurgh_worker_row_cache_hits_total",
                                       "Rows that pulls found in the row cache.");
const CounterFamily kRowCacheMissesTotal(
    "simurgh_worker_row_cache_misses_total",
    "Rows that pulls requested from servers because the row cache lacked them.");
const CounterFamily kRowCacheEvictionsTotal("simurgh_worker_row_cache_evictions_total",
                                            "Rows evicted from the row cache while still valid.");
const HistogramFamily kRowCacheAgeSteps("simurgh_worker_row_cache_age_steps",
                                        "Age of cached rows that pulls found.");

constexpr size_t kRowsAhead = 8;  // Prefetch distance in the index.
constexpr size_t kMaxAge = 64;

std::vector<size_t> RowBytes(const std::vector<uint32_t>& dims) {
  std::vector<size_t> bytes;
  for (const uint32_t dim : dims) bytes.push_back(dim * sizeof(float));
  return bytes;
}

}  // namespace

RowCacheMetrics::RowCacheMetrics(MetricRegistry& registry)
    : hits(registry.Get(kRowCacheHitsTotal)),
      misses(registry.Get(kRowCacheMissesTotal)),
      evictions(registry.Get(kRowCacheEvictionsTotal)),
      age_steps(registry.Get(kRowCacheAgeSteps, PowersOfTwo(64))) {}

RankRowCache::RankRowCache(size_t capacity_bytes, uint32_t max_age_steps,
                           const std::vector<uint32_t>& table_dims, RowCacheMetrics& metrics)
    : metrics_(metrics), rows_(capacity_bytes, max_age_steps, RowBytes(table_dims)) {}

RankRowCache::Missing RankRowCache::Split(const BatchPlan& plan, uint64_t step,
                                          RowPrecision precision, std::span<float> floats,
                                          std::span<uint64_t> ids, std::span<uint64_t> offsets) {
  Missing missing;
  std::array<uint64_t, kMaxAge + 1>
      hits{};  // Indexed by age in steps; the last for all older rows.
  size_t misses = 0;
  size_t offset = 0;
  for (const ServerShare& share : plan.servers) {
    std::vector<RowGroup> groups = share.groups;
    const auto all = std::span(plan.ids).subspan(share.first_id, share.id_count);
    ForEachRun(share.groups, [&](size_t p, size_t g, size_t first, size_t count, size_t) {
      RowGroup& group = groups[g];
      const std::span<const uint64_t> run = all.subspan(first, count);
      const size_t before = misses;
      for (size_t i = 0; i < count; ++i, offset += group.dim) {
        if (i + kRowsAhead < count) rows_.Prefetch(group.table, run[i + kRowsAhead]);
        const auto age = rows_.Find(group.table, run[i], step,
                                    std::as_writable_bytes(floats.subspan(offset, group.dim)));
        if (age) {
          ++hits[std::min<size_t>(*age, kMaxAge)];
          missing.age_steps = std::max(missing.age_steps, *age);
          continue;
        }
        ids[misses] = run[i];
        offsets[misses++] = offset;
      }
      group.counts[p] = static_cast<uint32_t>(misses - before);
    });
    for (RowGroup& group : groups) group.precision = precision;
    missing.request.Add(std::move(groups));
  }
  metrics_.misses.Add(misses);
  metrics_.hits.Add(plan.ids.size() - misses);
  for (size_t age = 0; age < hits.size(); ++age) {
    if (hits[age] > 0) metrics_.age_steps.Observe(static_cast<double>(age), hits[age]);
  }
  return missing;
}

void RankRowCache::Insert(const ServerRows& server, uint64_t step, const RowWire& wire,
                          std::span<const std::byte> bytes, std::span<const uint64_t> ids,
                          std::span<const uint64_t> offsets, std::span<float> floats) {
  ForEachRun(server.groups, [&](size_t, size_t g, size_t first, size_t count, size_t byte) {
    const RowGroup& group = server.groups[g];
    const size_t row_bytes = wire.row_bytes(group.table);
    for (size_t i = 0; i < count; ++i) {
      if (i + kRowsAhead < count) rows_.Prefetch(group.table, ids[first + i + kRowsAhead]);
      const std::span<float> row = floats.subspan(offsets[first + i], group.dim);
      wire.DecodeRow(group.table, bytes.subspan(byte + i * row_bytes, row_bytes), row);
      if (std::ranges::all_of(row, [](float x) { return x == 0; })) continue;
      rows_.Insert(group.table, ids[first + i], step, std::as_bytes(row));
    }
  });
  metrics_.evictions.Add(rows_.evicted_for_space() - reported_evicted_for_space_);
  reported_evicted_for_space_ = rows_.evicted_for_space();
}

}  // namespace simurgh
