#include "embedding/row_cache.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/hash.h"

namespace simurgh {

// Precedes a row's bytes.
struct RowCache::Header {
  uint64_t id = 0;
  uint64_t step = 0;  // The step it was fetched for.
  uint32_t table = 0;

  std::byte* row() { return reinterpret_cast<std::byte*>(this + 1); }
};

namespace {

constexpr size_t kAlignment = 8;           // Records start at multiples.
constexpr uint32_t kNoTable = UINT32_MAX;  // The rest of the ring is unused.

// An entry is the record's position / kAlignment + 1, then 8 bits of the hash; 0: none.
constexpr int kTagBits = 8;
constexpr uint64_t kTagMask = (uint64_t{1} << kTagBits) - 1;
// Keeps buckets half full on average if all rows are those of the smallest table.
constexpr size_t kEntriesPerRow = 2;

uint64_t EntryFor(uint64_t position, uint64_t hash) {
  return (position / kAlignment + 1) << kTagBits | (hash & kTagMask);
}
uint64_t PositionOf(uint64_t entry) { return ((entry >> kTagBits) - 1) * kAlignment; }

}  // namespace

RowCache::RowCache(size_t capacity_bytes, uint32_t max_age_steps, std::vector<size_t> row_bytes)
    : max_age_steps_(max_age_steps), row_bytes_(std::move(row_bytes)) {
  SIMURGH_CHECK(!row_bytes_.empty());
  const auto smallest = std::ranges::min_element(row_bytes_);
  const size_t record_bytes = RecordBytes(static_cast<uint32_t>(smallest - row_bytes_.begin()));
  const size_t rows = capacity_bytes / (record_bytes + kEntriesPerRow * sizeof(uint64_t));
  ring_ = AlignedBuffer(rows * record_bytes);
  index_.resize(rows * kEntriesPerRow / kWays * kWays);
}

uint64_t RowCache::HashOf(uint32_t table, uint64_t id) { return Mix64(id ^ Mix64(table)); }

size_t RowCache::RecordBytes(uint32_t table) const {
  const size_t bytes = sizeof(Header) + row_bytes_[table];
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
                                       std::span<std::byte> row) const {
  const uint64_t* const entry = EntryOf(table, id);
  if (entry == nullptr) return std::nullopt;
  Header& header = At(PositionOf(*entry));
  const uint64_t age = step - std::min(step, header.step);
  if (age > max_age_steps_) return std::nullopt;
  std::memcpy(row.data(), header.row(), row.size());
  return static_cast<uint32_t>(age);
}

void RowCache::Insert(uint32_t table, uint64_t id, uint64_t step, std::span<const std::byte> row) {
  SIMURGH_CHECK_EQ(row.size(), row_bytes_[table]);
  newest_step_ = std::max(newest_step_, step);
  if (const uint64_t* const entry = EntryOf(table, id); entry != nullptr) {
    Header& header = At(PositionOf(*entry));
    if (header.step > step) return;
    header.step = step;
    std::memcpy(header.row(), row.data(), row.size());
    return;
  }
  const size_t bytes = RecordBytes(table);
  if (index_.empty() || bytes > ring_.size()) return;
  const uint64_t position = MakeRoom(bytes);
  Header& header = At(position);
  header = {.id = id, .step = step, .table = table};
  std::memcpy(header.row(), row.data(), row.size());
  end_ = position + bytes;
  ++rows_;

  const uint64_t hash = HashOf(table, id);
  const auto bucket = std::span(index_).subspan(FirstOfBucket(hash), kWays);
  // Entries of evicted rows are smaller than all live ones.
  *std::ranges::min_element(bucket) = EntryFor(position, hash);
}

void RowCache::Erase(uint32_t table, uint64_t id) {
  if (const uint64_t* const entry = EntryOf(table, id); entry != nullptr) {
    index_[static_cast<size_t>(entry - index_.data())] = 0;
  }
}

void RowCache::Clear() {
  first_ = end_;  // No entry is live.
  rows_ = 0;
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
  first_ += RecordBytes(header.table);
}

}  // namespace simurgh
