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

}  // namespace

void Table::State::PullAbsent(std::span<const uint64_t> ids, CodedRows to, uint32_t now,
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
        ++(counted && !admitted ? pulled.refused : counts.turned_away);
        continue;
      }
    }
    reader.Add(row, to.row(at));
    reader.Flush();
  }
}

// Index first and then rows: each pass waits for its own memory alone.
void Table::State::PullNew(std::span<const uint64_t> ids, CodedRows to, uint32_t now,
                           PullCounts& pulled) {
  std::array<RowStore::NewRow, BatchLookup::kBlock> made;
  std::array<uint16_t, BatchLookup::kBlock> places;
  std::array<uint64_t, BatchLookup::kBlock> hashes;
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
    store.PrefetchAhead();
    const size_t at = absent[i];
    const uint64_t id = ids[at];
    const uint32_t row = store.Next();
    const uint32_t other = index.InsertAbsent(id, hashes[i], row);
    const bool given_before = other != kNoRow;
    if (!given_before) {
      store.Acquire();
      rows.header(row).id = id;  // The index may ask for it.
      distinct.Add(id);
    }
    const size_t slot = given_before ? --again : filled++;
    made[slot] = {id, given_before ? other : row};
    places[slot] = static_cast<uint16_t>(at);
  }
  counts.created += filled;
  pulled.found += made.size() - again;
  for (const RowStore::NewRow& row : std::span(made).first(filled)) {
    const bool queued = rows.header(row.row).use_count != 0;  // Fresh memory is zero.
    if (!queued) queue.Add(row.row, now);
  }
  store.Make(std::span(made).first(filled), now);
  for (const RowStore::NewRow& row : std::span(made).subspan(again)) Touch(row.row, now);
  RowStore::Reader reader(store, to.precision());
  const auto read = [&](size_t i) { reader.Add(made[i].row, to.row(places[i])); };
  for (size_t i = 0; i < filled; ++i) read(i);
  for (size_t i = again; i < made.size(); ++i) read(i);
  reader.Flush();
}

}  // namespace simurgh
