#pragma once

#include <algorithm>
#include <cstdint>

#include "simurgh/data/compact_batch.h"

namespace simurgh {

// src/data/COMPACT_BATCH.md describes the layout.
inline constexpr uint8_t kBatchVersion = 4;

// Flags of a batch.
inline constexpr uint8_t kSharedLists = 1;
inline constexpr uint8_t kBare = 2;  // The bare form; else the coded one.
inline constexpr uint8_t kSomeWeighted = 4;

inline constexpr uint8_t kWeighted = 1;  // Flag of a feature in the coded form.

// Whether a batch with `ids` ids may have the bare form. The limit keeps a few received bytes from
// allocating a long table. Other batches have the coded form, with bytes for each feature.
constexpr bool MayBeBare(uint64_t features, uint64_t samples, uint64_t ids) {
  const uint64_t most = std::max(uint64_t{1} << 16, 16 * ids);
  return features <= most && features * samples <= most;
}

// Whether a batch may have a coded form of `bytes` bytes, plain ids included. Samples without ids
// take almost no bytes, so a few thousand bytes could otherwise allocate any number of them.
constexpr bool MayBeCoded(uint64_t features, uint64_t samples, uint64_t bytes) {
  constexpr uint64_t kLeastFeatureBytes = 2;
  const uint64_t most = std::max<uint64_t>(kMaxBatchOccurrences, 64 * bytes);
  return features <= bytes / kLeastFeatureBytes && features * samples <= most;
}

}  // namespace simurgh
