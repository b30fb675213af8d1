#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "table/row_index.h"

namespace simurgh {

// Bits of a slot: the entry is displaced; the entry belongs to the upper half of its segment.
struct SplitMasks {
  uint32_t displaced;
  uint32_t high;
};

// Number of entries by destination.
struct SplitCounts {
  size_t low = 0;
  size_t high = 0;
  size_t displaced = 0;
};

// Moves the entries of the upper half from `low` to the same buckets of `high`, in order, and the
// slots of displaced entries to `displaced`. Resets the overflow counts of both.
//
// Requires as many buckets in `high`, which are overwritten, and space for all slots in
// `displaced`. Bit-identical to SplitBucketsReference() on every target, except in empty slots.
SplitCounts SplitBuckets(SplitMasks masks, std::span<IndexBucket> low, IndexBucket* high,
                         uint32_t* displaced);

// Defines the result, slot by slot.
SplitCounts SplitBucketsReference(SplitMasks masks, std::span<IndexBucket> low, IndexBucket* high,
                                  uint32_t* displaced);

}  // namespace simurgh
