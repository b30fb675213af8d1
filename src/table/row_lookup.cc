#include "table/row_lookup.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "table/simd/pull_rows.h"
#include "table/table_state.h"

namespace simurgh {

void BatchLookup::FindCandidates(std::span<const uint64_t> ids, uint32_t* candidates) const {
  std::array<uint64_t, kBlock> hashes;
  std::array<uint16_t, kBlock> unsettled;
  const size_t open = FindAtHome(index_.homes(), ids, hashes.data(), candidates, unsettled.data());
  // The few rows outside their home bucket. FindAtHome() has prefetched the next one.
  for (size_t i = 0; i < open; ++i) {
    candidates[unsettled[i]] = index_.Candidate(hashes[unsettled[i]]);
  }
}

// Existing rows of a training pull.

void Table::State::PullPresent(std::span<const uint64_t> ids, EncodedRows to, uint32_t now,
                               uint32_t open_from) {
  absent.clear();
  open.clear();
  RowStore::Reader reader(store, to.precision());
  const auto pull_one = [&](size_t at, uint32_t row) {
    if (row != kNoRow && rows.header(row).recency >= open_from) {
      open.push_back(at);
      return;
    }
    if (row == kNoRow || !Claim(row, /*keeps_stamp=*/false)) {
      absent.push_back(at);
      return;
    }
    if (at % kAgeEvery == 0) ++counts.pulled_before[std::bit_width(now - rows.header(row).recency)];
    Touch(row, now);
    reader.Add(row, to.row(at));
  };
  if (to.precision() != store.format().weights) {
    lookup.ForEach(ids, PulledBytes(), pull_one);
  } else {
    const RowGather gather = {.rows = rows,
                              .stamp = now,
                              .suspect_below = suspect_below,
                              .open_from = open_from,
                              .ages = counts.pulled_before.data()};
    lookup.ForEachBlock(
        ids, [&](size_t begin, std::span<const uint64_t> block, const uint32_t* candidates) {
          std::array<uint16_t, BatchLookup::kBlock> rest;
          const size_t left =
              GatherRows(gather, block, candidates, to.Rows(begin, block.size()), rest.data());
          for (size_t i = 0; i < left; ++i) {
            pull_one(begin + rest[i], lookup.Confirmed(candidates[rest[i]], block[rest[i]]));
          }
        });
  }
  reader.Flush();
}

// Missing rows of a training pull.

namespace {

// Prefetch distance of buckets.
constexpr size_t kBucketsAhead = 16;
// Prefetch distance of overflow buckets.
constexpr size_t kNextAhead = 8;
constexpr size_t kAcquireBlock = 32;

}  // namespace

void Table::State::PullCold(std::span<const uint64_t> ids, EncodedRows to, uint32_t now,
                            uint32_t open_from, PullReport& pulled) {
  constexpr size_t kDone = std::numeric_limits<size_t>::max();
  RowStore::Reader reader(store, to.precision());
  bool has_reclaimed = false;
  for (bool again = true; again && cold_failure.ok();) {
    again = false;
    bool has_moved = false;
    bool has_stayed = false;
    for (const ColdRows::Row& cold_row : FetchColdAt(ids, absent)) {
      const size_t at = absent[cold_row.at];
      const bool has_gone = !cold->Has(cold_row);
      if (!has_gone && cold_row.header().recency >= open_from) {
        open.push_back(at);
        absent[cold_row.at] = kDone;
        continue;
      }
      // An id given twice is in memory by now, or has left it again.
      const uint32_t row =
          has_gone ? index.Find(ids[at], RowIndex::Hash(ids[at])) : Warm(cold_row, now);
      again = again || (has_gone && row == kNoRow);
      has_stayed = has_stayed || (row == kNoRow && cold->Has(cold_row));
      if (row == kNoRow) continue;
      has_moved = true;
      if (at % kAgeEvery == 0) {
        ++counts.pulled_before[std::bit_width(now - rows.header(row).recency)];
      }
      Touch(row, now);
      reader.Add(row, to.row(at));
      reader.Flush();  // The next one may send this row back to the disk.
      ++pulled.found;
      absent[cold_row.at] = kDone;
    }
    std::erase(absent, kDone);
    if (!has_stayed) continue;
    // The rows that came back have left gaps.
    if (!has_moved && std::exchange(has_reclaimed, true)) return FailToWarm();
    ReclaimCold();
    again = true;
  }
}

void Table::State::PullAbsent(std::span<const uint64_t> ids, EncodedRows to, uint32_t now,
                              PullReport& pulled) {
  if (!cold_failure.ok()) return;
  RowStore::Reader reader(store, to.precision());
  for (size_t i = 0; i < absent.size(); ++i) {
    if (const size_t next = i + kBucketsAhead; next < absent.size()) {
      index.Prefetch(RowIndex::Hash(ids[absent[next]]));
    }
    const size_t at = absent[i];
    // An id given twice has a row already, unless that was evicted again.
    uint32_t row = index.Find(ids[at], RowIndex::Hash(ids[at]));
    if (row != kNoRow && HasExpired(row)) {
      Expire(row);
      row = kNoRow;
    }
    if (row == kNoRow && cold_rows() > 0 && cold->MayHave(ids[at])) {
      for (const ColdRows::Row& cold_row : FetchCold({&ids[at], 1})) row = Warm(cold_row, now);
    }
    if (row != kNoRow) {
      Touch(row, now);
      ++pulled.found;
    } else {
      distinct.Add(ids[at]);
      const bool counted = MayCount(ids[at]);
      const bool admitted = counted && admission.Admit(ids[at]);
      if (admitted) row = Create(ids[at], now);
      if (row == kNoRow) {
        std::memset(to.row(at), 0, to.row_bytes());
        ++(counted && !admitted ? pulled.rejected_admission : counts.rejected_full);
        continue;
      }
    }
    reader.Add(row, to.row(at));
    reader.Flush();
  }
}

// Two passes, index and then rows: each waits only for its own cache misses.
void Table::State::PullNew(std::span<const uint64_t> ids, EncodedRows to, uint32_t now,
                           PullReport& pulled) {
  std::array<RowStore::NewRow, BatchLookup::kBlock> made;
  std::array<uint16_t, BatchLookup::kBlock> places;
  std::array<uint64_t, BatchLookup::kBlock> hashes;
  std::array<uint32_t, BatchLookup::kBlock> taken;
  size_t acquired = 0;
  size_t filled = 0;
  size_t repeated = BatchLookup::kBlock;  // From here on, `made` holds repeated ids.
  const auto prefetch = [&](size_t i) {
    hashes[i] = RowIndex::Hash(ids[absent[i]]);
    index.Prefetch(hashes[i]);
  };
  for (size_t i = 0; i < std::min(kBucketsAhead, absent.size()); ++i) prefetch(i);
  for (size_t i = 0; i < absent.size(); ++i) {
    if (i + kBucketsAhead < absent.size()) prefetch(i + kBucketsAhead);
    if (i + kNextAhead < absent.size()) index.PrefetchNext(hashes[i + kNextAhead]);
    if (filled == acquired) {
      const size_t more = std::min(kAcquireBlock, absent.size() - i);
      store.Acquire({taken.data() + acquired, more});
      acquired += more;
    }
    const size_t at = absent[i];
    const uint64_t id = ids[at];
    const uint32_t row = taken[filled];
    const uint32_t other = index.InsertAbsent(id, hashes[i], row);
    const bool given_before = other != kNoRow;
    if (!given_before) {
      RowHeader& header = rows.header(row);
      header.id = id;  // InsertAbsent() of later ids may read it.
      distinct.Add(id);
      const bool queued = header.use_count != 0;  // Unused memory is zero.
      if (!queued) queue.Add(row, now);
    }
    const size_t slot = given_before ? --repeated : filled++;
    made[slot] = {id, given_before ? other : row};
    places[slot] = static_cast<uint16_t>(at);
  }
  while (acquired > filled) store.Release(taken[--acquired]);
  if (changes.active()) {
    for (size_t i = 0; i < filled; ++i) changes.Change(made[i].row);
  }
  counts.created += filled;
  pulled.found += made.size() - repeated;
  RowStore::Reader reader(store, to.precision());
  const auto read = [&](size_t i) { reader.Add(made[i].row, to.row(places[i])); };
  for (size_t begin = 0; begin < filled; begin += RowStore::kMaxNewRows) {
    const size_t end = std::min(begin + RowStore::kMaxNewRows, filled);
    store.Initialize(std::span(made).subspan(begin, end - begin), now);
    for (size_t i = begin; i < end; ++i) read(i);
  }
  for (size_t i = repeated; i < made.size(); ++i) {
    Touch(made[i].row, now);
    read(i);
  }
  reader.Flush();
}

}  // namespace simurgh
