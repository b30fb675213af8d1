#pragma once

#include <cstddef>
#include <cstdint>

#include "base/hash.h"
#include "nn/host_device.h"

namespace simurgh {

// Identify a layer of a run and a step of a rank. stream: see LayerPlan.
constexpr uint64_t DropoutLayer(uint64_t seed, uint64_t stream) {
  return Mix64(stream ^ Mix64(seed));
}
constexpr uint64_t DropoutStep(uint64_t step, uint32_t rank) { return Mix64(Mix64(rank) + step); }

// The values that a dropout layer keeps in a step: each use computes them from their places, and
// nothing stores them. All backends have equal masks, with any number of threads.
struct DropoutMask {
  uint64_t key = 0;      // Hash of the layer, or of the layer in a step.
  uint32_t dropped = 0;  // A value is dropped if its hash is below.
  float scale = 1.0F;    // Factor of the others, which keeps the mean.

  // rate: >= 0, < 1. layer: DropoutLayer(). The result is not yet that of a step.
  static DropoutMask Of(float rate, uint64_t layer) {
    const auto share = static_cast<double>(rate);
    return {.key = layer,
            .dropped = static_cast<uint32_t>(share * 0x1p32),
            .scale = static_cast<float>(1.0 / (1.0 - share))};
  }

  // step: DropoutStep().
  SIMURGH_HOST_DEVICE DropoutMask At(uint64_t step) const {
    return {Mix64(key + step), dropped, scale};
  }

  // Returns the hash of a sample, by its place in the rank's batch.
  SIMURGH_HOST_DEVICE uint64_t RowKey(size_t row) const {
    return Mix64(key + (row + 1) * 0x9e3779b97f4a7c15ULL);
  }

  // Returns the factor of a value: 0, or scale. A loop over columns is vectorised.
  // Source: the mixer of 32 bits of Wellons, "Prospecting for Hash Functions", 2018, with the
  // second half of the key between its rounds.
  SIMURGH_HOST_DEVICE float Factor(uint64_t row_key, uint32_t column) const {
    uint32_t x = static_cast<uint32_t>(row_key) + column * 0x9e3779b9U;
    x = (x ^ (x >> 16)) * 0x21f0aaadU;
    x ^= static_cast<uint32_t>(row_key >> 32);
    x = (x ^ (x >> 15)) * 0xd35a2d97U;
    x ^= x >> 15;
    return x < dropped ? 0.0F : scale;
  }
};

}  // namespace simurgh
