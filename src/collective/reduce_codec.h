#pragma once

#include <cstddef>
#include <span>

#include "simurgh/collective/collective.h"

namespace simurgh {

// Bytes of `count` values as they travel.
size_t EncodedSize(size_t count, ReducePrecision precision);

// Encodes values + residual; residual: see Collective::Sum, of the same length or empty.
// out: EncodedSize(values.size()).
// With int8, 512 values become their minimum and their step in f32, then a byte each. Where one of
// them, or the distance of their ends, is not finite, all travel as NaN and their residual is zero.
void EncodeValues(std::span<const float> values, ReducePrecision precision,
                  std::span<float> residual, std::span<std::byte> out);

// The inverse, but for rounding. encoded: EncodedSize(values.size()).
void DecodeValues(std::span<const std::byte> encoded, ReducePrecision precision,
                  std::span<float> values);

// As DecodeValues, but adds to what is there.
void AddValues(std::span<const std::byte> encoded, ReducePrecision precision,
               std::span<float> sums);

}  // namespace simurgh
