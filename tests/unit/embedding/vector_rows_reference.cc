#include "tests/unit/embedding/vector_rows_reference.h"

#include <algorithm>

namespace simurgh {

void NarrowRowReference(Half format, float factor, std::span<const float> from, uint16_t* to) {
  for (size_t i = 0; i < from.size(); ++i) to[i] = NarrowNumber(format, factor * from[i]);
}

void WidenRowReference(Half format, float factor, const uint16_t* from, std::span<float> to) {
  for (size_t i = 0; i < to.size(); ++i) to[i] = WidenNumber(format, factor, from[i]);
}

void NarrowToBytesReference(std::span<const uint32_t> dims, float factor, const float* from,
                            const ByteRounding& rounding, int8_t* to, float* scales) {
  uint32_t first = 0;
  for (size_t v = 0; v < dims.size(); first += dims[v++]) {
    uint32_t largest = 0;
    for (uint32_t d = 0; d < dims[v]; ++d) {
      largest = std::max(largest, SizeBits(factor * from[first + d]));
    }
    const ByteScale scale = ScaleOf(largest);
    scales[v] = scale.scale;
    for (uint32_t i = first; i < first + dims[v]; ++i) {
      to[i] = scale.to_bytes == 0
                  ? int8_t{0}
                  : NarrowToByte(factor * from[i] * scale.to_bytes, ChanceOf(rounding, i));
    }
  }
}

void WidenBytesReference(std::span<const uint32_t> dims, float factor, const int8_t* from,
                         const float* scales, float* to) {
  for (size_t v = 0; v < dims.size(); ++v) {
    const float scale = factor * scales[v];
    for (uint32_t d = 0; d < dims[v]; ++d) *to++ = scale * static_cast<float>(*from++);
  }
}

}  // namespace simurgh
