#include "table/batch_lookup.h"

namespace simurgh {

void BatchLookup::FindCandidates(std::span<const uint64_t> ids) {
  const size_t size = ids.size();
  for (size_t i = 0; i < size; ++i) hashes_[i] = RowIndex::Hash(ids[i]);
  for (size_t i = 0; i < std::min(kBucketsAhead, size); ++i) index_.Prefetch(hashes_[i]);
  size_t unsettled = 0;
  for (size_t i = 0; i < size; ++i) {
    if (i + kBucketsAhead < size) index_.Prefetch(hashes_[i + kBucketsAhead]);
    const RowIndex::Glimpse glimpse = index_.AtHome(hashes_[i]);
    candidates_[i] = glimpse.row;
    unsettled_[unsettled] = static_cast<uint16_t>(i);
    unsettled += static_cast<size_t>(!glimpse.settled);
    if (!glimpse.settled) index_.PrefetchNext(hashes_[i]);
  }
  // A row in so many lies in another bucket than its first, which is on its way by now.
  for (size_t i = 0; i < unsettled; ++i) {
    const size_t at = unsettled_[i];
    candidates_[at] = index_.Candidate(hashes_[at]);
  }
}

}  // namespace simurgh
