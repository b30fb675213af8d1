#include "table/batch_lookup.h"

#include "table/simd/find_rows.h"

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

}  // namespace simurgh
