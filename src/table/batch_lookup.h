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
// Threads: one owner.
class BatchLookup {
 public:
  BatchLookup(const RowIndex& index, const Rows& rows) : index_(index), rows_(rows) {}

  // Calls visit(position, row) for every id in order, with kNoRow where it has no row. The first
  // `bytes` of a row's record have been fetched by then. `visit` may write to rows, not to the
  // index.
  template <typename Visit>
  void ForEach(std::span<const uint64_t> ids, uint64_t bytes, const Visit& visit) {
    for (size_t begin = 0; begin < ids.size(); begin += kBlock) {
      const auto block = ids.subspan(begin, std::min(kBlock, ids.size() - begin));
      FindCandidates(block);
      for (size_t i = 0; i < std::min(kRowsAhead, block.size()); ++i) Fetch(i, bytes);
      for (size_t i = 0; i < block.size(); ++i) {
        if (i + kRowsAhead < block.size()) Fetch(i + kRowsAhead, bytes);
        visit(begin + i, Confirmed(i, block[i]));
      }
    }
  }

 private:
  // Ids of an index pass: what it finds stays in the first-level cache.
  static constexpr size_t kBlock = 1024;
  // How far buckets and rows are fetched ahead of their use.
  static constexpr size_t kBucketsAhead = 24;
  static constexpr size_t kRowsAhead = 12;

  // Fills `candidates_` with a row for each id, or kNoRow where none fits.
  void FindCandidates(std::span<const uint64_t> ids);

  void Fetch(size_t at, uint64_t bytes) const {
    if (candidates_[at] != kNoRow) rows_.Prefetch(candidates_[at], bytes);
  }

  // Two ids in some thousand share a tag and a bucket.
  uint32_t Confirmed(size_t at, uint64_t id) const {
    const uint32_t row = candidates_[at];
    if (row == kNoRow || rows_.header(row).id == id) [[likely]]
      return row;
    return index_.Find(id, hashes_[at]);
  }

  const RowIndex& index_;
  const Rows& rows_;
  std::array<uint64_t, kBlock> hashes_;
  std::array<uint32_t, kBlock> candidates_;
  std::array<uint16_t, kBlock> unsettled_;
};

}  // namespace simurgh
