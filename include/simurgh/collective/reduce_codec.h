#pragma once

#include <cstddef>
#include <span>

#include "simurgh/collective/collective.h"

namespace simurgh {

// Bytes of `count` encoded values.
size_t EncodedSize(size_t count, ReducePrecision precision);

// Encodes values + residual. residual: as Collective::Sum. out: EncodedSize(values.size()) bytes.
//
// int8 encodes 512 values as their minimum and step in f32, then one byte each. If one value, or
// their range, is not finite, all 512 decode to NaN and their residual is zero.
void EncodeValues(std::span<const float> values, ReducePrecision precision,
                  std::span<float> residual, std::span<std::byte> out);

// The inverse, except for rounding. encoded: EncodedSize(values.size()) bytes.
void DecodeValues(std::span<const std::byte> encoded, ReducePrecision precision,
                  std::span<float> values);

// As DecodeValues, but adds to `sums`.
void AddValues(std::span<const std::byte> encoded, ReducePrecision precision,
               std::span<float> sums);

}  // namespace simurgh
