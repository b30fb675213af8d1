#pragma once

#include <cstdint>
#include <span>

#include "embedding/vector_number.h"

namespace simurgh {

// Conversions of a row of vectors, defined by vector_number.h number by number. Results do not
// depend on the SIMD target.

// to = factor * from, rounded to nearest. Larger numbers become the largest finite number, and NaN
// and infinity become NaN.
void NarrowRow(Half format, float factor, std::span<const float> from, uint16_t* to);

// to = factor * from; NaN where that is not finite.
void WidenRow(Half format, float factor, const uint16_t* from, std::span<float> to);

// Vectors of these dims, stored contiguously, as int8 with one scale per vector; see VectorCodec.
void NarrowToBytes(std::span<const uint32_t> dims, float factor, const float* from,
                   const ByteRounding& rounding, int8_t* to, float* scales);

// to = factor * scale * from.
void WidenBytes(std::span<const uint32_t> dims, float factor, const int8_t* from,
                const float* scales, float* to);

}  // namespace simurgh
