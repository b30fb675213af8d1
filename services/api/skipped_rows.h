#pragma once

#include <cstdint>

namespace simurgh {

// Bad rows that a loader has left out so far.
struct SkippedRows {
  uint64_t in_all = 0;      // In all readings of its share.
  uint64_t in_reading = 0;  // In one of them, at most: what data.max_bad_rows bounds.
};

}  // namespace simurgh
