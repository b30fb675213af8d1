#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "simurgh/base/status.h"
#include "simurgh/data/compact_batch.h"

namespace simurgh {

// Which of its sample's occurrences each element of a feature pooled by max is of, as it travels.
//
// Positions lie sample after sample, element after element, each in the fewest bits that the n
// occurrences of its sample need for 0 to n - 1: none where n is 0 or 1. Least significant bit
// first, filled up to a byte. Several features lie one behind the other.
//
// argmax: (B * dim) as simurgh/data/pooling.h has it.

// Writers store whole words, so that this much must be writable behind the last byte.
inline constexpr size_t kArgmaxSlackBytes = 8;

// Of a feature.
size_t ArgmaxBytes(const FeatureView& feature, size_t dim);

// The most that a feature of so many samples can have.
constexpr size_t MaxArgmaxBytes(size_t samples, size_t dim) {
  constexpr size_t kPositionBytes = 3;
  static_assert(kMaxBatchOccurrences <= size_t{1} << (8 * kPositionBytes));
  return samples * dim * kPositionBytes;
}

// out: ArgmaxBytes and kArgmaxSlackBytes.
void EncodeArgmax(const FeatureView& feature, size_t dim, std::span<const uint32_t> argmax,
                  std::span<std::byte> out);

// Sets all of `argmax`, each below its sample's n if that is not 0. Requires ArgmaxBytes bytes.
// Errors: INVALID_ARGUMENT naming sample, element, position and n. Bits that fill up a byte are not
// looked at.
Status DecodeArgmax(const FeatureView& feature, size_t dim, std::span<const std::byte> bytes,
                    std::span<uint32_t> argmax);

}  // namespace simurgh
