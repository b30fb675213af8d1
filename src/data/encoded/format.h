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

inline constexpr uint8_t kWeighted = 1;  // Of a feature of the coded form.

// Whether so many features of so many samples may have a bare form of so many ids: a few bytes must
// not ask for a long table. The coded form, which takes bytes for each feature, is for the others.
constexpr bool MayBeBare(uint64_t features, uint64_t samples, uint64_t ids) {
  const uint64_t most = std::max(uint64_t{1} << 16, 16 * ids);
  return features <= most && features * samples <= most;
}

// Whether so many features of so many samples may have a coded form of so many bytes, plain ids
// among them. Samples without an id take next to none, so that a few thousand bytes could ask for
// any number; those with ids pay for themselves.
constexpr bool MayBeCoded(uint64_t features, uint64_t samples, uint64_t bytes) {
  constexpr uint64_t kLeastFeatureBytes = 2;
  const uint64_t most = std::max<uint64_t>(kMaxBatchOccurrences, 64 * bytes);
  return features <= bytes / kLeastFeatureBytes && features * samples <= most;
}

}  // namespace simurgh
