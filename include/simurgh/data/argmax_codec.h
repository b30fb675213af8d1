#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "simurgh/base/status.h"
#include "simurgh/data/compact_batch.h"

namespace simurgh {

// Wire format of the argmax of max pooling: for each element, the index of the sample's occurrence
// that gave it.
//
// Indexes are ordered by feature, sample and element. Each takes the fewest bits for 0 to n - 1,
// where n is the sample's number of occurrences: no bits if n is 0 or 1. Least significant bit
// first; each feature is padded to a byte.
//
// argmax: (B * dim) as in simurgh/data/pooling.h.

// Bytes after the encoded ones that EncodeArgmax may write.
inline constexpr size_t kArgmaxSlackBytes = 8;

size_t ArgmaxBytes(const FeatureView& feature, size_t dim);

// Upper bound on ArgmaxBytes for this number of samples.
constexpr size_t MaxArgmaxBytes(size_t samples, size_t dim) {
  constexpr size_t kPositionBytes = 3;
  static_assert(kMaxBatchOccurrences <= size_t{1} << (8 * kPositionBytes));
  return samples * dim * kPositionBytes;
}

// out: ArgmaxBytes + kArgmaxSlackBytes.
void EncodeArgmax(const FeatureView& feature, size_t dim, std::span<const uint32_t> argmax,
                  std::span<std::byte> out);

// Sets all of `argmax`, each below its sample's n if n > 0. Requires ArgmaxBytes bytes. Ignores
// padding bits.
// Errors: INVALID_ARGUMENT naming sample, element, position and n.
Status DecodeArgmax(const FeatureView& feature, size_t dim, std::span<const std::byte> bytes,
                    std::span<uint32_t> argmax);

}  // namespace simurgh
