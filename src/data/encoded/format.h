#pragma once

#include <cstdint>

namespace simurgh {

// src/data/COMPACT_BATCH.md describes the layout.
inline constexpr uint8_t kBatchVersion = 1;
inline constexpr uint8_t kSharedLists = 1;  // Of a batch.
inline constexpr uint8_t kWeighted = 1;     // Of a feature.

}  // namespace simurgh
