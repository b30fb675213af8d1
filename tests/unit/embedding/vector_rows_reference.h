#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "embedding/vector_number.h"

namespace simurgh {

// The results that the functions of embedding/simd/vector_rows.h must have, bit by bit.
void NarrowRowReference(Half format, float factor, std::span<const float> from, uint16_t* to);
void WidenRowReference(Half format, float factor, const uint16_t* from, std::span<float> to);
void NarrowToBytesReference(std::span<const uint32_t> dims, float factor, const float* from,
                            const ByteRounding& rounding, int8_t* to, float* scales);
void WidenBytesReference(std::span<const uint32_t> dims, float factor, const int8_t* from,
                         const float* scales, float* to);

}  // namespace simurgh
