// How a training pull makes the rows that are not there.

#include <algorithm>
#include <array>
#include <cstring>

#include "table/table_state.h"

namespace simurgh {
namespace {

// How far the buckets of new rows are fetched ahead of their use.
constexpr size_t kBucketsAhead = 16;
// The same for those that are looked at when the first ones are full.
constexpr size_t kNextAhead = 8;
// Rows are acquired so many at a time.
constexpr size_t kAcquiredTogether = 32;

}  // namespace

void Table::State::PullAbsent(std::span<const uint64_t> ids, EncodedRows to, uint32_t now,
                              PullCounts& pulled) {
  RowStore::Reader reader(store, to.precision());
  for (size_t i = 0; i < absent.size(); ++i) {
    if (const size_t next = i + kBucketsAhead; next < absent.size()) {
      index.Prefetch(RowIndex::Hash(ids[absent[next]]));
    }
    const size_t at = absent[i];
    // An id given twice has a row by now, unless that was evicted again.
    uint32_t row = Lookup(ids[at]);
    if (row != kNoRow && IsGone(row)) {
      Expire(row);
      row = kNoRow;
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
        ++(counted && !admitted ? pulled.refused : counts.rejected_full);
        continue;
      }
    }
    reader.Add(row, to.row(at));
    reader.Flush();
  }
}

// Index first and then rows: each pass waits for its own memory alone.
void Table::State::PullNew(std::span<const uint64_t> ids, EncodedRows to, uint32_t now,
                           PullCounts& pulled) {
  std::array<RowStore::NewRow, BatchLookup::kBlock> made;
  std::array<uint16_t, BatchLookup::kBlock> places;
  std::array<uint64_t, BatchLookup::kBlock> hashes;
  std::array<uint32_t, BatchLookup::kBlock> taken;
  size_t acquired = 0;
  size_t filled = 0;
  size_t again = BatchLookup::kBlock;  // From there on: ids given twice.
  const auto prefetch = [&](size_t i) {
    hashes[i] = RowIndex::Hash(ids[absent[i]]);
    index.Prefetch(hashes[i]);
  };
  for (size_t i = 0; i < std::min(kBucketsAhead, absent.size()); ++i) prefetch(i);
  for (size_t i = 0; i < absent.size(); ++i) {
    if (i + kBucketsAhead < absent.size()) prefetch(i + kBucketsAhead);
    if (i + kNextAhead < absent.size()) index.PrefetchNext(hashes[i + kNextAhead]);
    if (filled == acquired) {
      const size_t more = std::min(kAcquiredTogether, absent.size() - i);
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
      header.id = id;  // The index may ask for it.
      distinct.Add(id);
      const bool queued = header.use_count != 0;  // Fresh memory is zero.
      if (!queued) queue.Add(row, now);
    }
    const size_t slot = given_before ? --again : filled++;
    made[slot] = {id, given_before ? other : row};
    places[slot] = static_cast<uint16_t>(at);
  }
  while (acquired > filled) store.Release(taken[--acquired]);
  counts.created += filled;
  pulled.found += made.size() - again;
  RowStore::Reader reader(store, to.precision());
  const auto read = [&](size_t i) { reader.Add(made[i].row, to.row(places[i])); };
  for (size_t begin = 0; begin < filled; begin += RowStore::kMadeTogether) {
    const size_t end = std::min(begin + RowStore::kMadeTogether, filled);
    store.Make(std::span(made).subspan(begin, end - begin), now);
    for (size_t i = begin; i < end; ++i) read(i);
  }
  for (size_t i = again; i < made.size(); ++i) {
    Touch(made[i].row, now);
    read(i);
  }
  reader.Flush();
}

}  // namespace simurgh
