#pragma once

#include <cstddef>
#include <cstdint>

#include "nn/cuda/float16.h"
#include "nn/cuda/matrix.h"
#include "nn/formulas.h"
#include "nn/host_device.h"
#include "simurgh/config/embedding_form.h"
#include "simurgh/data/vector_codec.h"
#include "simurgh/data/vector_number.h"

// Kernels that decode embeddings and encode gradients, bit by bit as VectorCodec.
namespace simurgh::cuda {

// Layout of the vectors in an encoded row, with tables in device memory. Only int8 has tables, for
// its scales.
struct CodeLayout {
  VectorPrecision precision = VectorPrecision::kF32;
  size_t row_bytes = 0;
  size_t scales_offset = 0;
  const uint32_t* first_columns = nullptr;  // By vector, followed by the number of columns.
  const uint32_t* vector_of = nullptr;      // By column.
};

// Element i of an aligned array.
template <typename T>
SIMURGH_HOST_DEVICE const T& ElementOf(const std::byte* begin, size_t i) {
  return reinterpret_cast<const T*>(begin)[i];
}
template <typename T>
SIMURGH_HOST_DEVICE T& ElementOf(std::byte* begin, size_t i) {
  return reinterpret_cast<T*>(begin)[i];
}

// Number i of a vector in f32 or 16 bits.
SIMURGH_HOST_DEVICE inline float WidenElement(VectorPrecision precision, const std::byte* vector,
                                              size_t i) {
  if (precision == VectorPrecision::kF32) return ElementOf<float>(vector, i);
  const Half format = precision == VectorPrecision::kBf16 ? Half::kBf16 : Half::kF16;
  return WidenNumber(format, 1.0F, ElementOf<uint16_t>(vector, i));
}

// Number i of a vector in int8.
SIMURGH_HOST_DEVICE inline float WidenByte(const std::byte* vector, size_t i, float scale) {
  return scale * static_cast<float>(ElementOf<int8_t>(vector, i));
}

// A matrix that VectorCodec encoded.
struct EncodedVectors {
  CodeLayout layout;
  const std::byte* rows;

  SIMURGH_HOST_DEVICE float operator()(size_t row, size_t column) const {
    const std::byte* from = rows + row * layout.row_bytes;
    if (layout.precision != VectorPrecision::kInt8) {
      return WidenElement(layout.precision, from, column);
    }
    const uint32_t vector = layout.vector_of[column];
    return WidenByte(from, column, ElementOf<float>(from + layout.scales_offset, vector));
  }
};

// to(r, c) = number first_column + c of row r, or 0 from column `width`.
template <typename To>
struct DecodeCell {
  EncodedVectors from;
  size_t first_column;
  size_t width;
  Matrix<To> to;

  SIMURGH_HOST_DEVICE void operator()(size_t row, size_t column) const {
    Assign(to(row, column), column < width ? from(row, first_column + column) : 0.0F);
  }
};

// Encodes factor * from(r, c) in 16 bits.
struct EncodeHalfCell {
  Matrix<const float> from;
  CodeLayout layout;
  float factor;
  std::byte* to;

  SIMURGH_HOST_DEVICE void operator()(size_t row, size_t column) const {
    const Half format = layout.precision == VectorPrecision::kBf16 ? Half::kBf16 : Half::kF16;
    ElementOf<uint16_t>(to + row * layout.row_bytes, column) =
        NarrowNumber(format, factor * from(row, column));
  }
};

// Encodes factor * vector v of row r in int8, with its scale. Called for each (row, vector); the
// last vector's call pads the row.
struct EncodeByteVector {
  Matrix<const float> from;
  CodeLayout layout;
  float factor;
  const RoundingKey* key;
  std::byte* to;

  SIMURGH_HOST_DEVICE void operator()(size_t row, size_t vector) const {
    const uint32_t first = layout.first_columns[vector];
    const uint32_t end = layout.first_columns[vector + 1];
    uint32_t largest = 0;
    for (uint32_t i = first; i < end; ++i) {
      const uint32_t size = SizeBits(factor * from(row, i));
      largest = size > largest ? size : largest;
    }
    const ByteScale scale = ScaleOf(largest);
    std::byte* out = to + row * layout.row_bytes;
    ElementOf<float>(out + layout.scales_offset, vector) = scale.scale;
    const ByteRounding rounding{true, RoundingNoise(key->seed, key->first_row + row, key->step)};
    for (uint32_t i = first; i < end; ++i) {
      const float value = factor * from(row, i) * scale.to_bytes;
      ElementOf<int8_t>(out, i) =
          scale.to_bytes == 0 ? int8_t{0} : NarrowToByte(value, ChanceOf(rounding, i));
    }
    if (end != from.columns) return;
    for (size_t i = end; i < layout.scales_offset; ++i) out[i] = std::byte{0};
  }
};

}  // namespace simurgh::cuda

// Elementwise kernels, called once for each (row, column). Calls of a launch are independent.
namespace simurgh::cuda {

// to(r, c) = from(r, c), which is 0 beyond from's columns.
template <typename From, typename To>
struct CopyCell {
  Matrix<const From> from;
  Matrix<To> to;

  SIMURGH_HOST_DEVICE void operator()(size_t row, size_t column) const {
    Assign(to(row, column), column < from.columns ? ToFloat(from(row, column)) : 0.0F);
  }
};

template <typename From, typename To>
struct AddCell {
  Matrix<const From> from;
  Matrix<To> to;

  SIMURGH_HOST_DEVICE void operator()(size_t row, size_t column) const {
    Assign(to(row, column), ToFloat(to(row, column)) + ToFloat(from(row, column)));
  }
};

template <typename T>
struct ZeroCell {
  Matrix<T> target;

  SIMURGH_HOST_DEVICE void operator()(size_t row, size_t column) const {
    Assign(target(row, column), 0.0F);
  }
};

// values(r, c) += bias[c], optionally followed by max(0, .).
template <typename T>
struct AddBiasCell {
  Matrix<T> values;
  const float* bias;
  bool relu;

  SIMURGH_HOST_DEVICE void operator()(size_t row, size_t column) const {
    const float sum = ToFloat(values(row, column)) + bias[column];
    Assign(values(row, column), relu ? ReluFormula::Value(sum) : sum);
  }
};

// Formula: see formulas.h.
template <typename T, typename Formula>
struct ActivationCell {
  Matrix<const T> input;
  Matrix<T> output;

  SIMURGH_HOST_DEVICE void operator()(size_t row, size_t column) const {
    Assign(output(row, column), Formula::Value(ToFloat(input(row, column))));
  }
};

// input_gradient may be output_gradient.
template <typename T, typename Formula>
struct ActivationBackwardCell {
  Matrix<const T> saved;
  Matrix<const T> output_gradient;
  Matrix<T> input_gradient;

  SIMURGH_HOST_DEVICE void operator()(size_t row, size_t column) const {
    Assign(input_gradient(row, column),
           Formula::Gradient(ToFloat(saved(row, column)), ToFloat(output_gradient(row, column))));
  }
};

// values = gelu(values + bias); stores the input of gelu.
template <typename T>
struct AddBiasGeluCell {
  Matrix<T> values;
  const float* bias;
  Matrix<T> gelu_input;

  SIMURGH_HOST_DEVICE void operator()(size_t row, size_t column) const {
    const float sum = ToFloat(values(row, column)) + bias[column];
    Assign(gelu_input(row, column), sum);
    Assign(values(row, column), GeluFormula::Value(sum));
  }
};

// The cross layer's y = x0 * u + x.
template <typename T>
struct CrossCombineCell {
  Matrix<const T> origin;
  Matrix<const T> outer;
  Matrix<const T> input;
  Matrix<T> output;

  SIMURGH_HOST_DEVICE void operator()(size_t row, size_t column) const {
    Assign(output(row, column), ToFloat(origin(row, column)) * ToFloat(outer(row, column)) +
                                    ToFloat(input(row, column)));
  }
};

template <typename T>
struct CrossCombineBackwardCell {
  Matrix<const T> origin;
  Matrix<const T> outer;
  Matrix<const T> output_gradient;
  Matrix<T> outer_gradient;
  Matrix<T> origin_gradient;
  bool add_to_origin;

  SIMURGH_HOST_DEVICE void operator()(size_t row, size_t column) const {
    const float gradient = ToFloat(output_gradient(row, column));
    const float before = add_to_origin ? ToFloat(origin_gradient(row, column)) : 0.0F;
    Assign(outer_gradient(row, column), gradient * ToFloat(origin(row, column)));
    Assign(origin_gradient(row, column), before + gradient * ToFloat(outer(row, column)));
  }
};

}  // namespace simurgh::cuda
