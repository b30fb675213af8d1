#include "table/batch_lookup.h"

namespace simurgh {

void BatchLookup::FindCandidates(std::span<const uint64_t> ids, uint32_t* candidates) const {
  std::array<uint64_t, kBlock> hashes;
  std::array<uint16_t, kBlock> unsettled_ids;
  const size_t size = ids.size();
  for (size_t i = 0; i < size; ++i) hashes[i] = RowIndex::Hash(ids[i]);
  for (size_t i = 0; i < std::min(kBucketsAhead, size); ++i) index_.Prefetch(hashes[i]);
  size_t unsettled = 0;
  for (size_t i = 0; i < size; ++i) {
    if (i + kBucketsAhead < size) index_.Prefetch(hashes[i + kBucketsAhead]);
    const RowIndex::Glimpse glimpse = index_.AtHome(hashes[i]);
    candidates[i] = glimpse.row;
    unsettled_ids[unsettled] = static_cast<uint16_t>(i);
    unsettled += static_cast<size_t>(!glimpse.settled);
    if (!glimpse.settled) index_.PrefetchNext(hashes[i]);
  }
  // A row in so many lies in another bucket than its first, which is on its way by now.
  for (size_t i = 0; i < unsettled; ++i) {
    const size_t at = unsettled_ids[i];
    candidates[at] = index_.Candidate(hashes[at]);
  }
}

}  // namespace simurgh
