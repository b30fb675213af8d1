#pragma once

#include <cstdint>

#include "simurgh/config/table_config.h"
#include "table/simd/row_update.h"

namespace simurgh {

// The values of a row in memory: dim weights, then shape.vectors * dim numbers of optimizer state,
// then shape.scalars f32. Each part is aligned to 4 bytes.
struct RowFormat {
  uint32_t dim = 0;
  RowStateShape shape = {0, 0};
  RowPrecision weights = RowPrecision::kF32;
  RowPrecision state = RowPrecision::kF32;

  // Everything is f32, so there is no padding and kernels work in place.
  bool plain() const {
    return weights == RowPrecision::kF32 && (state == RowPrecision::kF32 || shape.vectors == 0);
  }
  // Numbers of a row, weights and state.
  uint32_t floats() const { return dim + shape.floats(dim); }

  uint32_t weight_bytes() const { return dim * SizeOf(weights); }
  uint32_t state_offset() const { return (weight_bytes() + 3) / 4 * 4; }
  uint32_t vector_floats() const { return shape.vectors * dim; }
  uint32_t scalars_offset() const {
    return (state_offset() + vector_floats() * SizeOf(state) + 3) / 4 * 4;
  }
  uint32_t bytes() const { return scalars_offset() + shape.scalars * sizeof(float); }
  // Without padding.
  uint32_t payload_bytes() const {
    return weight_bytes() + vector_floats() * SizeOf(state) +
           shape.scalars * static_cast<uint32_t>(sizeof(float));
  }
};

}  // namespace simurgh
