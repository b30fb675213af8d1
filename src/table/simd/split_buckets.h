#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "table/row_index.h"

namespace simurgh {

// Which bits of a slot say that its entry does not lie in its first bucket, and that it belongs to
// the higher half of its segment.
struct SplitMasks {
  uint32_t displaced;
  uint32_t high;
};

// How many entries went where.
struct SplitCounts {
  size_t low = 0;
  size_t high = 0;
  size_t displaced = 0;
};

// Takes the entries of the higher half out of `low`, to the same buckets of `high`, in their order,
// and the slots of displaced ones to `displaced`. Nothing has gone past a bucket of either after.
//
// Requires as many buckets in `high`, whose content is lost, and room for all slots in `displaced`.
// Every target gives the bits of SplitBucketsReference, except in slots that are empty.
SplitCounts SplitBuckets(SplitMasks masks, std::span<IndexBucket> low, IndexBucket* high,
                         uint32_t* displaced);

// The same, slot by slot.
SplitCounts SplitBucketsReference(SplitMasks masks, std::span<IndexBucket> low, IndexBucket* high,
                                  uint32_t* displaced);

}  // namespace simurgh
