#include "services/embedding_worker/row_cache.h"

#include <algorithm>
#include <array>
#include <utility>

#include <boost/asio/strand.hpp>

#include "services/api/row_codec.h"
#include "simurgh/base/check.h"
#include "simurgh/base/hash.h"

namespace simurgh {

// Precedes a row's floats.
struct RowCache::Header {
  uint64_t id = 0;
  uint64_t step = 0;  // The step it was fetched for.
  uint32_t table = 0;

  float* row() { return reinterpret_cast<float*>(this + 1); }
};

namespace {

constexpr size_t kAlignment = 8;           // Records start at multiples.
constexpr uint32_t kNoTable = UINT32_MAX;  // The rest of the ring is unused.

// An entry is the record's position / kAlignment + 1, then 8 bits of the hash; 0: none.
constexpr int kTagBits = 8;
constexpr uint64_t kTagMask = (uint64_t{1} << kTagBits) - 1;
// Keeps buckets half full on average if all rows have the smallest dim.
constexpr size_t kEntriesPerRow = 2;

constexpr size_t kRowsAhead = 8;  // Prefetch distance in the index.
constexpr size_t kMaxAge = 64;

uint64_t EntryFor(uint64_t position, uint64_t hash) {
  return (position / kAlignment + 1) << kTagBits | (hash & kTagMask);
}
uint64_t PositionOf(uint64_t entry) { return ((entry >> kTagBits) - 1) * kAlignment; }

}  // namespace

RowCache::RowCache(size_t capacity_bytes, uint32_t max_age_steps, std::vector<uint32_t> table_dims)
    : max_age_steps_(max_age_steps), table_dims_(std::move(table_dims)) {
  SIMURGH_CHECK(!table_dims_.empty());
  const auto smallest = std::ranges::min_element(table_dims_);
  const size_t row_bytes = SizeOf(static_cast<uint32_t>(smallest - table_dims_.begin()));
  const size_t rows = capacity_bytes / (row_bytes + kEntriesPerRow * sizeof(uint64_t));
  ring_ = AlignedBuffer(rows * row_bytes);
  index_.resize(rows * kEntriesPerRow / kWays * kWays);
}

uint64_t RowCache::HashOf(uint32_t table, uint64_t id) { return Mix64(id ^ Mix64(table)); }

size_t RowCache::SizeOf(uint32_t table) const {
  const size_t bytes = sizeof(Header) + table_dims_[table] * sizeof(float);
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

RowCache::Header& RowCache::At(uint64_t position) const {
  return *reinterpret_cast<Header*>(ring_.data() + position % ring_.size());
}

bool RowCache::IsLive(uint64_t entry) const { return entry != 0 && PositionOf(entry) >= first_; }

const uint64_t* RowCache::EntryOf(uint32_t table, uint64_t id) const {
  if (index_.empty()) return nullptr;
  const uint64_t hash = HashOf(table, id);
  const uint64_t* const bucket = &index_[FirstOfBucket(hash)];
  for (size_t i = 0; i < kWays; ++i) {
    if ((bucket[i] & kTagMask) != (hash & kTagMask) || !IsLive(bucket[i])) continue;
    const Header& header = At(PositionOf(bucket[i]));
    if (header.id == id && header.table == table) return &bucket[i];
  }
  return nullptr;
}

std::optional<uint32_t> RowCache::Find(uint32_t table, uint64_t id, uint64_t step,
                                       std::span<float> row) const {
  const uint64_t* const entry = EntryOf(table, id);
  if (entry == nullptr) return std::nullopt;
  Header& header = At(PositionOf(*entry));
  const uint64_t age = step - std::min(step, header.step);
  if (age > max_age_steps_) return std::nullopt;
  std::copy_n(header.row(), row.size(), row.data());
  return static_cast<uint32_t>(age);
}

void RowCache::Insert(uint32_t table, uint64_t id, uint64_t step, std::span<const float> row) {
  SIMURGH_CHECK_EQ(row.size(), size_t{table_dims_[table]});
  newest_step_ = std::max(newest_step_, step);
  if (const uint64_t* const entry = EntryOf(table, id); entry != nullptr) {
    Header& header = At(PositionOf(*entry));
    if (header.step > step) return;
    header.step = step;
    std::ranges::copy(row, header.row());
    return;
  }
  const size_t bytes = SizeOf(table);
  if (index_.empty() || bytes > ring_.size()) return;
  const uint64_t position = MakeRoom(bytes);
  Header& header = At(position);
  header = {.id = id, .step = step, .table = table};
  std::ranges::copy(row, header.row());
  end_ = position + bytes;
  ++rows_;

  const uint64_t hash = HashOf(table, id);
  const auto bucket = std::span(index_).subspan(FirstOfBucket(hash), kWays);
  // Entries of evicted rows are smaller than all live ones.
  *std::ranges::min_element(bucket) = EntryFor(position, hash);
}

uint64_t RowCache::MakeRoom(size_t bytes) {
  uint64_t position = end_;
  const size_t to_the_end = ring_.size() - position % ring_.size();
  if (to_the_end < bytes) position += to_the_end;
  while (first_ + ring_.size() < position + bytes) EvictOldest();
  if (position != end_ && to_the_end >= sizeof(Header)) At(end_).table = kNoTable;
  return position;
}

void RowCache::EvictOldest() {
  // The cache is empty: start the next round.
  if (first_ == end_) {
    first_ = end_ + (ring_.size() - end_ % ring_.size());
    return;
  }
  const size_t to_the_end = ring_.size() - first_ % ring_.size();
  if (to_the_end < sizeof(Header) || At(first_).table == kNoTable) {
    first_ += to_the_end;
    return;
  }
  const Header& header = At(first_);
  if (header.step + max_age_steps_ >= newest_step_) ++evicted_for_space_;
  --rows_;
  first_ += SizeOf(header.table);
}

RankRowCache::RankRowCache(size_t capacity_bytes, uint32_t max_age_steps,
                           const std::vector<uint32_t>& table_dims,
                           const rpc::asio::any_io_executor& compute, WorkerMetrics& metrics)
    : thread_(rpc::asio::make_strand(compute)),
      metrics_(metrics),
      rows_(capacity_bytes, max_age_steps, table_dims) {}

RankRowCache::~RankRowCache() { metrics_.row_cache.Add(-static_cast<double>(reported_rows_)); }

RankRowCache::Missing RankRowCache::Split(const BatchPlan& plan, uint64_t step,
                                          RowPrecision precision, std::span<float> floats,
                                          std::span<uint64_t> ids, std::span<uint64_t> offsets) {
  Missing missing;
  std::array<uint64_t, kMaxAge + 1> hits{};  // By age.
  size_t misses = 0;
  size_t offset = 0;
  for (const ServerShare& share : plan.servers) {
    std::vector<RowGroup> groups = share.groups;
    const auto all = std::span(plan.ids).subspan(share.first_id, share.id_count);
    api::ForEachRun(share.groups, [&](size_t p, size_t g, size_t first, size_t count, size_t) {
      RowGroup& group = groups[g];
      const std::span<const uint64_t> run = all.subspan(first, count);
      const size_t before = misses;
      for (size_t i = 0; i < count; ++i, offset += group.dim) {
        if (i + kRowsAhead < count) rows_.Prefetch(group.table, run[i + kRowsAhead]);
        const auto age = rows_.Find(group.table, run[i], step, floats.subspan(offset, group.dim));
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
  metrics_.row_cache_misses.Add(misses);
  metrics_.row_cache_hits.Add(plan.ids.size() - misses);
  for (size_t age = 0; age < hits.size(); ++age) {
    if (hits[age] > 0) metrics_.row_cache_age_steps.Observe(static_cast<double>(age), hits[age]);
  }
  return missing;
}

void RankRowCache::Insert(const ServerRows& server, uint64_t step, const RowWire& wire,
                          std::span<const std::byte> bytes, std::span<const uint64_t> ids,
                          std::span<const uint64_t> offsets, std::span<float> floats) {
  api::ForEachRun(server.groups, [&](size_t, size_t g, size_t first, size_t count, size_t byte) {
    const RowGroup& group = server.groups[g];
    const size_t row_bytes = wire.row_bytes(group.table);
    for (size_t i = 0; i < count; ++i) {
      if (i + kRowsAhead < count) rows_.Prefetch(group.table, ids[first + i + kRowsAhead]);
      const std::span<float> row = floats.subspan(offsets[first + i], group.dim);
      wire.DecodeRow(group.table, bytes.subspan(byte + i * row_bytes, row_bytes), row);
      if (std::ranges::all_of(row, [](float x) { return x == 0; })) continue;
      rows_.Insert(group.table, ids[first + i], step, row);
    }
  });
  metrics_.row_cache.Add(static_cast<double>(rows_.rows()) - static_cast<double>(reported_rows_));
  metrics_.row_cache_evictions.Add(rows_.evicted_for_space() - reported_evicted_for_space_);
  reported_rows_ = rows_.rows();
  reported_evicted_for_space_ = rows_.evicted_for_space();
}

RowCacheRanks::RowCacheRanks(size_t capacity_bytes, std::vector<uint32_t> table_dims,
                             rpc::asio::any_io_executor compute, WorkerMetrics& metrics)
    : capacity_bytes_(capacity_bytes),
      table_dims_(std::move(table_dims)),
      compute_(std::move(compute)),
      metrics_(metrics) {}

std::shared_ptr<RankRowCache> RowCacheRanks::Of(const StepId& step_id, uint32_t max_age_steps) {
  if (capacity_bytes_ == 0 || max_age_steps == 0 || step_id.rank >= step_id.ranks) return nullptr;
  if (std::pair(step_id.run, step_id.ranks) != std::pair(run_, ranks_count_) ||
      max_age_steps != max_age_steps_) {
    ranks_.clear();
    run_ = step_id.run;
    ranks_count_ = step_id.ranks;
    max_age_steps_ = max_age_steps;
  }
  std::shared_ptr<RankRowCache>& rank = ranks_[step_id.rank];
  if (rank == nullptr) {
    rank = std::make_shared<RankRowCache>(capacity_bytes_ / ranks_count_, max_age_steps_,
                                          table_dims_, compute_, metrics_);
  }
  return rank;
}

}  // namespace simurgh
