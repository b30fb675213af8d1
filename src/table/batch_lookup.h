#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "table/row_index.h"
#include "table/row_layout.h"

namespace simurgh {

// Finds the rows of many ids at once. Memory that nobody has touched lately takes some hundred
// times as long as the arithmetic, so everything is asked for before it is needed: a block of ids
// first goes through the index, bucket after bucket, and then through the rows. Two passes, because
// the misses of either overlap better alone.
//
// Threads: one owner. Memory: 32 KiB of stack.
class BatchLookup {
 public:
  BatchLookup(const RowIndex& index, const Rows& rows) : index_(index), rows_(rows) {}

  // Calls visit(position, row) for every id in order, with kNoRow where it has no row. The first
  // `bytes` of a row's record have been fetched by then. `visit` may write to rows, not to the
  // index.
  template <typename Visit>
  void ForEach(std::span<const uint64_t> ids, uint64_t bytes, const Visit& visit) const {
    ForEachBlock(
        ids, [&](size_t begin, std::span<const uint64_t> block, const uint32_t* candidates) {
          ForEachFetched({candidates, block.size()}, bytes,
                         [&](size_t i) { visit(begin + i, Confirmed(candidates[i], block[i])); });
        });
  }

  // Ids of an index pass: what it finds stays near, and a pass is long beside its beginning, which
  // waits.
  static constexpr size_t kBlock = 2048;

  // Calls visit(begin, block, candidates) for every kBlock ids or fewer, the first of them number
  // `begin`: the candidate of each is a row that may be its own, or kNoRow where none can.
  template <typename Visit>
  void ForEachBlock(std::span<const uint64_t> ids, const Visit& visit) const {
    std::array<uint32_t, kBlock> candidates;
    for (size_t begin = 0; begin < ids.size(); begin += kBlock) {
      const auto block = ids.subspan(begin, std::min(kBlock, ids.size() - begin));
      FindCandidates(block, candidates.data());
      visit(begin, block, candidates.data());
    }
  }

  // The row of an id with this candidate, or kNoRow. Two ids in some thousand share a tag and a
  // bucket.
  uint32_t Confirmed(uint32_t candidate, uint64_t id) const {
    if (candidate == kNoRow || rows_.header(candidate).id == id) [[likely]]
      return candidate;
    return index_.Find(id, RowIndex::Hash(id));
  }

 private:
  // Calls visit(i) for the position of every candidate in order, after its row has been fetched.
  template <typename Visit>
  void ForEachFetched(std::span<const uint32_t> candidates, uint64_t bytes,
                      const Visit& visit) const {
    const Rows rows = rows_;  // Nothing that `visit` writes can change it.
    const size_t together = Rows::PrefetchBlock(bytes);
    const auto fetch = [&](size_t begin) {
      const size_t count = std::min(together, candidates.size() - begin);
      rows.Prefetch(candidates.subspan(begin, count), bytes);
    };
    fetch(0);
    for (size_t begin = 0; begin < candidates.size(); begin += together) {
      const size_t end = std::min(begin + together, candidates.size());
      fetch(end);
      for (size_t i = begin; i < end; ++i) visit(i);
    }
  }

  // Finds for each id a row that may be its own, or kNoRow where none can. At most kBlock ids.
  void FindCandidates(std::span<const uint64_t> ids, uint32_t* candidates) const;

  const RowIndex& index_;
  const Rows& rows_;
};

}  // namespace simurgh
