#pragma once

#include <cstdint>

namespace simurgh {

// Bad rows that a loader has skipped.
struct SkippedRows {
  uint64_t in_all = 0;      // In all epochs of its share.
  uint64_t in_reading = 0;  // Maximum per epoch, limited by data.max_bad_rows.
};

}  // namespace simurgh
