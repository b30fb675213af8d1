#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "table/row_index.h"
#include "table/row_layout.h"

namespace simurgh {

// Finds the rows of many ids. Cache misses dominate the cost, so memory is prefetched: a block of
// ids first probes the index and then visits the rows. Two passes, because each overlaps its own
// misses better.
//
// Threads: one owner. Memory: 32 KiB of stack.
class BatchLookup {
 public:
  BatchLookup(const RowIndex& index, const Rows& rows) : index_(index), rows_(rows) {}

  // Calls visit(position, row) for every id in order; kNoRow for an id without a row. The first
  // `bytes` of the record are prefetched. `visit` may change rows but not the index.
  template <typename Visit>
  void ForEach(std::span<const uint64_t> ids, uint64_t bytes, const Visit& visit) const {
    ForEachBlock(
        ids, [&](size_t begin, std::span<const uint64_t> block, const uint32_t* candidates) {
          ForEachFetched({candidates, block.size()}, bytes,
                         [&](size_t i) { visit(begin + i, Confirmed(candidates[i], block[i])); });
        });
  }

  // Ids of an index pass: few enough that the results stay in the cache, and enough to hide the
  // misses at its start.
  static constexpr size_t kBlock = 2048;

  // Calls visit(begin, block, candidates) for blocks of up to kBlock ids that start at position
  // `begin`. A candidate is the only row that can be the id's, unless Confirmed() finds another.
  template <typename Visit>
  void ForEachBlock(std::span<const uint64_t> ids, const Visit& visit) const {
    std::array<uint32_t, kBlock> candidates;
    for (size_t begin = 0; begin < ids.size(); begin += kBlock) {
      const auto block = ids.subspan(begin, std::min(kBlock, ids.size() - begin));
      FindCandidates(block, candidates.data());
      visit(begin, block, candidates.data());
    }
  }

  // Returns the row of an id, or kNoRow. About one id in a thousand shares tag and bucket with
  // another, so that its candidate is wrong.
  uint32_t Confirmed(uint32_t candidate, uint64_t id) const {
    if (candidate == kNoRow || rows_.header(candidate).id == id) [[likely]]
      return candidate;
    return index_.Find(id, RowIndex::Hash(id));
  }

 private:
  // Calls visit(i) for every candidate in order, after its row was prefetched.
  template <typename Visit>
  void ForEachFetched(std::span<const uint32_t> candidates, uint64_t bytes,
                      const Visit& visit) const {
    const Rows rows = rows_;  // A local copy: `visit` cannot change it.
    const size_t block = Rows::PrefetchBlock(bytes);
    const auto fetch = [&](size_t begin) {
      const size_t count = std::min(block, candidates.size() - begin);
      rows.Prefetch(candidates.subspan(begin, count), bytes);
    };
    fetch(0);
    for (size_t begin = 0; begin < candidates.size(); begin += block) {
      const size_t end = std::min(begin + block, candidates.size());
      fetch(end);
      for (size_t i = begin; i < end; ++i) visit(i);
    }
  }

  // Fills `candidates` with the first row whose tag matches, or kNoRow. At most kBlock ids.
  void FindCandidates(std::span<const uint64_t> ids, uint32_t* candidates) const;

  const RowIndex& index_;
  const Rows& rows_;
};

}  // namespace simurgh
