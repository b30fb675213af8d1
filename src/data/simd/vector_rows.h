#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "simurgh/data/vector_number.h"

namespace simurgh {

// Conversions of one row of vectors, number by number as vector_number.h says. Every target gives
// the bits of the function's Reference.

// `factor * from` to the nearest, beyond the largest finite number to it; NaN where that is not
// finite.
void NarrowRow(Half format, float factor, std::span<const float> from, uint16_t* to);
void NarrowRowReference(Half format, float factor, std::span<const float> from, uint16_t* to);

// factor * what the halves stand for; NaN where that is not finite.
void WidenRow(Half format, float factor, const uint16_t* from, std::span<float> to);
void WidenRowReference(Half format, float factor, const uint16_t* from, std::span<float> to);

// Vectors of these dims, one behind the other, as int8 and a scale each; see VectorCodec.
void NarrowToBytes(std::span<const uint32_t> dims, float factor, const float* from,
                   const ByteRounding& rounding, int8_t* to, float* scales);
void NarrowToBytesReference(std::span<const uint32_t> dims, float factor, const float* from,
                            const ByteRounding& rounding, int8_t* to, float* scales);

// to = factor * scale * from.
void WidenBytes(std::span<const uint32_t> dims, float factor, const int8_t* from,
                const float* scales, float* to);
void WidenBytesReference(std::span<const uint32_t> dims, float factor, const int8_t* from,
                         const float* scales, float* to);

}  // namespace simurgh
