#pragma once

#include <cstddef>
#include <cstdint>

#include "config/embedding_form.h"
#include "embedding/vector_codec.h"
#include "embedding/vector_number.h"
#include "nn/cuda/float16.h"
#include "nn/cuda/matrix.h"
#include "nn/cuda/reduction_kernels.h"
#include "nn/dropout.h"
#include "nn/formulas.h"
#include "nn/host_device.h"

// Kernels that decode embeddings and encode gradients, bit by bit as VectorCodec.
namespace simurgh::cuda {

// Layout of the vectors in an encoded row, with tables in device memory. Only int8 has tables, for
// its scales.
struct CodeLayout {
  VectorPrecision precision = VectorPrecision::kF32;
  size_t row_bytes = 0;
  size_t scales_offset = 0;
  const uint32_t* first_columns = nullptr;  // (vectors + 1); the last is the end.
  const uint32_t* vector_of = nullptr;      // Vector of each column.

  // Requires a precision of 16 bits.
  SIMURGH_HOST_DEVICE Half half() const {
    return precision == VectorPrecision::kBf16 ? Half::kBf16 : Half::kF16;
  }
};

// Returns element i of an aligned array.
template <typename T>
SIMURGH_HOST_DEVICE const T& ElementOf(const std::byte* begin, size_t i) {
  return reinterpret_cast<const T*>(begin)[i];
}
template <typename T>
SIMURGH_HOST_DEVICE T& ElementOf(std::byte* begin, size_t i) {
  return reinterpret_cast<T*>(begin)[i];
}

// Returns number i of a vector in f32 or 16 bits.
SIMURGH_HOST_DEVICE inline float WidenElement(VectorPrecision precision, const std::byte* vector,
                                              size_t i) {
  if (precision == VectorPrecision::kF32) return ElementOf<float>(vector, i);
  const Half format = precision == VectorPrecision::kBf16 ? Half::kBf16 : Half::kF16;
  return WidenNumber(format, 1.0F, ElementOf<uint16_t>(vector, i));
}

// Returns number i of a vector in int8.
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

  // Returns the rows as numbers that are not decoded. Requires f32, or 16 bits and uint16_t.
  template <typename Number>
  SIMURGH_HOST_DEVICE Matrix<const Number> Numbers() const {
    return {reinterpret_cast<const Number*>(rows), 0, 0, layout.row_bytes / sizeof(Number)};
  }

  // Returns whether N numbers from a column that N divides, counted from first_column, are a pack.
  template <size_t N>
  bool Packs(size_t first_column) const {
    const auto packs = [&]<typename Number>(Matrix<const Number> numbers) {
      numbers.data += first_column;
      return layout.row_bytes % sizeof(Number) == 0 && AllPack<N>(numbers);
    };
    if (layout.precision == VectorPrecision::kInt8) return false;
    return layout.precision == VectorPrecision::kF32 ? packs(Numbers<float>())
                                                     : packs(Numbers<uint16_t>());
  }

  template <size_t N>
  SIMURGH_HOST_DEVICE Pack<float, N> Load(size_t row, size_t column, bool packs) const {
    if (packs && layout.precision == VectorPrecision::kF32) {
      return Numbers<float>().template Load<N>(row, column);
    }
    Pack<float, N> numbers;
    if (packs) {
      const auto codes = Numbers<uint16_t>().template Load<N>(row, column);
      for (size_t k = 0; k < N; ++k) {
        numbers[k] = WidenNumber(layout.half(), 1.0F, codes[k]);
      }
    } else {
      for (size_t k = 0; k < N; ++k) numbers[k] = (*this)(row, column + k);
    }
    return numbers;
  }
};

// to(r, c) = number first_column + c of row r, or 0 from column `width`.
template <typename To>
struct DecodeCell {
  static constexpr size_t kPack = kPackOf<To>;

  EncodedVectors from;
  size_t first_column;
  size_t width;
  Matrix<To> to;
  bool from_packs = from.Packs<kPack>(first_column);

  bool Packs() const { return AllPack<kPack>(to); }

  template <size_t N>
  SIMURGH_HOST_DEVICE void Run(size_t row, size_t column) const {
    Pack<To, N> result;
    if (column + N <= width) {
      const auto numbers = from.template Load<N>(row, first_column + column, from_packs);
      for (size_t k = 0; k < N; ++k) Assign(result[k], numbers[k]);
    } else {
      for (size_t k = 0; k < N; ++k) {
        Assign(result[k], column + k < width ? from(row, first_column + column + k) : 0.0F);
      }
    }
    to.template Store<N>(row, column, result);
  }
};

// The input of a tower that reads dense columns, then embeddings: as CopyCell and DecodeCell. Packs
// do not end where the embeddings begin.
template <typename To>
struct GatherCell {
  static constexpr size_t kPack = kPackOf<To>;

  Matrix<const float> dense;
  EncodedVectors embeddings;
  size_t first_column;
  size_t width;
  Matrix<To> to;

  bool Packs() const { return AllPack<kPack>(to); }

  template <size_t N>
  SIMURGH_HOST_DEVICE void Run(size_t row, size_t column) const {
    Pack<To, N> numbers;
    for (size_t k = 0; k < N; ++k) {
      const size_t c = column + k;
      const size_t embedding = c - dense.columns;
      Assign(numbers[k], c < dense.columns   ? dense(row, c)
                         : embedding < width ? embeddings(row, first_column + embedding)
                                             : 0.0F);
    }
    to.template Store<N>(row, column, numbers);
  }
};

// Finishes gradients of embeddings: to = (from + before) / loss scale, in f32 or encoded in 16
// bits. Sets the flag if one is NaN or infinite.
template <typename From>
struct FinishGradientCell {
  static constexpr size_t kPack = kPackOf<From>;

  // Encoding of factor * gradient; for f32 unused.
  struct Code {
    Half format;
    float factor;
  };

  Matrix<const From> from;
  Matrix<const float> before;  // Counts as 0 without data.
  const float* inverse_scale;  // Null: 1.
  uint32_t* not_finite;
  Matrix<float> to;  // Has no data if gradients are encoded.
  Matrix<uint16_t> encoded;
  Code code;
  bool from_packs = AllPack<kPack>(from);

  bool Packs() const {
    return AllPack<kPack>(before) &&
           (to.data == nullptr ? AllPack<kPack>(encoded) : AllPack<kPack>(to));
  }

  template <size_t N>
  SIMURGH_HOST_DEVICE void Run(size_t row, size_t column) const {
    const auto values = from.template Load<N>(row, column, from_packs);
    Pack<float, N> sums;
    for (size_t k = 0; k < N; ++k) sums[k] = ToFloat(values[k]);
    if (before.data != nullptr) {
      const auto others = before.template Load<N>(row, column);
      for (size_t k = 0; k < N; ++k) sums[k] += others[k];
    }
    const float inverse = inverse_scale == nullptr ? 1.0F : *inverse_scale;
    bool finite = true;
    for (size_t k = 0; k < N; ++k) {
      sums[k] *= inverse;
      finite = finite && IsUsable(sums[k]);
    }
    if (!finite) *not_finite = 1;
    if (to.data != nullptr) return to.template Store<N>(row, column, sums);
    Pack<uint16_t, N> codes;
    for (size_t k = 0; k < N; ++k) codes[k] = NarrowNumber(code.format, code.factor * sums[k]);
    encoded.template Store<N>(row, column, codes);
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

// Elementwise kernels, called for cells or packs of them. Calls of a launch are independent.
namespace simurgh::cuda {

// to(r, c) = from(r, c), which is 0 beyond from's columns.
template <typename From, typename To>
struct CopyCell {
  static constexpr size_t kPack = kPackOfBoth<From, To>;

  Matrix<const From> from;
  Matrix<To> to;
  bool from_packs = AllPack<kPack>(from);

  bool Packs() const { return AllPack<kPack>(to); }

  template <size_t N>
  SIMURGH_HOST_DEVICE void Run(size_t row, size_t column) const {
    Pack<To, N> result;
    if (column + N <= from.columns) {
      const auto values = from.template Load<N>(row, column, from_packs);
      for (size_t k = 0; k < N; ++k) Assign(result[k], ToFloat(values[k]));
    } else {
      for (size_t k = 0; k < N; ++k) {
        Assign(result[k], column + k < from.columns ? ToFloat(from(row, column + k)) : 0.0F);
      }
    }
    to.template Store<N>(row, column, result);
  }
};

template <typename From, typename To>
struct AddCell {
  static constexpr size_t kPack = kPackOfBoth<From, To>;

  Matrix<const From> from;
  Matrix<To> to;
  bool from_packs = AllPack<kPack>(from);

  bool Packs() const { return AllPack<kPack>(to); }

  template <size_t N>
  SIMURGH_HOST_DEVICE void Run(size_t row, size_t column) const {
    const auto values = from.template Load<N>(row, column, from_packs);
    auto sums = to.template Load<N>(row, column);
    for (size_t k = 0; k < N; ++k) Assign(sums[k], ToFloat(sums[k]) + ToFloat(values[k]));
    to.template Store<N>(row, column, sums);
  }
};

template <typename T>
struct ZeroCell {
  static constexpr size_t kPack = kPackOf<T>;

  Matrix<T> target;

  bool Packs() const { return AllPack<kPack>(target); }

  template <size_t N>
  SIMURGH_HOST_DEVICE void Run(size_t row, size_t column) const {
    target.template Store<N>(row, column, {});
  }
};

// values(r, c) += bias[c], optionally followed by max(0, .).
template <typename T>
struct AddBiasCell {
  static constexpr size_t kPack = kPackOf<T>;

  Matrix<T> values;
  const float* bias;
  bool relu;

  bool Packs() const { return AllPack<kPack>(values); }

  template <size_t N>
  SIMURGH_HOST_DEVICE void Run(size_t row, size_t column) const {
    auto pack = values.template Load<N>(row, column);
    for (size_t k = 0; k < N; ++k) {
      const float sum = ToFloat(pack[k]) + bias[column + k];
      Assign(pack[k], relu ? ReluFormula::Value(sum) : sum);
    }
    values.template Store<N>(row, column, pack);
  }
};

// Formula: see formulas.h.
template <typename T, typename Formula>
struct ActivationCell {
  static constexpr size_t kPack = kPackOf<T>;

  Matrix<const T> input;
  Matrix<T> output;

  bool Packs() const { return AllPack<kPack>(input, output); }

  template <size_t N>
  SIMURGH_HOST_DEVICE void Run(size_t row, size_t column) const {
    const auto values = input.template Load<N>(row, column);
    Pack<T, N> results;
    for (size_t k = 0; k < N; ++k) Assign(results[k], Formula::Value(ToFloat(values[k])));
    output.template Store<N>(row, column, results);
  }
};

// input_gradient may be output_gradient.
template <typename T, typename Formula>
struct ActivationBackwardCell {
  static constexpr size_t kPack = kPackOf<T>;

  Matrix<const T> saved;
  Matrix<const T> output_gradient;
  Matrix<T> input_gradient;
  Formula formula = {};

  bool Packs() const { return AllPack<kPack>(saved, output_gradient, input_gradient); }

  template <size_t N>
  SIMURGH_HOST_DEVICE void Run(size_t row, size_t column) const {
    const auto before = saved.template Load<N>(row, column);
    const auto dy = output_gradient.template Load<N>(row, column);
    Pack<T, N> dx;
    for (size_t k = 0; k < N; ++k) {
      Assign(dx[k], formula.Gradient(ToFloat(before[k]), ToFloat(dy[k])));
    }
    input_gradient.template Store<N>(row, column, dx);
  }
};

// A dropout layer, forward and backward. to may be `from`.
template <typename T>
struct DropCell {
  static constexpr size_t kPack = kPackOf<T>;

  DropoutMask mask;      // Not yet that of a step.
  const uint64_t* step;  // In device memory: captured work runs in many steps.
  Matrix<const T> from;
  Matrix<T> to;

  bool Packs() const { return AllPack<kPack>(from, to); }

  template <size_t N>
  SIMURGH_HOST_DEVICE void Run(size_t row, size_t column) const {
    const DropoutMask now = mask.At(*step);
    const uint64_t key = now.RowKey(row);
    const auto values = from.template Load<N>(row, column);
    Pack<T, N> kept;
    for (size_t k = 0; k < N; ++k) {
      Assign(kept[k], ToFloat(values[k]) * now.Factor(key, static_cast<uint32_t>(column + k)));
    }
    to.template Store<N>(row, column, kept);
  }
};

// Copies the step that a pass drops values by to device memory. Called once.
struct TakeDropoutStep {
  const uint64_t* from;  // In pinned memory.
  uint64_t* to;

  SIMURGH_HOST_DEVICE void operator()(size_t) const { *to = *from; }
};

// values = gelu(values + bias); stores the input of gelu.
template <typename T>
struct AddBiasGeluCell {
  static constexpr size_t kPack = kPackOf<T>;

  Matrix<T> values;
  const float* bias;
  Matrix<T> gelu_input;

  bool Packs() const { return AllPack<kPack>(values, gelu_input); }

  template <size_t N>
  SIMURGH_HOST_DEVICE void Run(size_t row, size_t column) const {
    auto pack = values.template Load<N>(row, column);
    Pack<T, N> inputs;
    for (size_t k = 0; k < N; ++k) {
      const float sum = ToFloat(pack[k]) + bias[column + k];
      Assign(inputs[k], sum);
      Assign(pack[k], GeluFormula::Value(sum));
    }
    gelu_input.template Store<N>(row, column, inputs);
    values.template Store<N>(row, column, pack);
  }
};

// The cross layer's y = x0 * u + x.
template <typename T>
struct CrossCombineCell {
  static constexpr size_t kPack = kPackOf<T>;

  Matrix<const T> origin;
  Matrix<const T> outer;
  Matrix<const T> input;
  Matrix<T> output;

  bool Packs() const { return AllPack<kPack>(origin, outer, input, output); }

  template <size_t N>
  SIMURGH_HOST_DEVICE void Run(size_t row, size_t column) const {
    const auto x0 = origin.template Load<N>(row, column);
    const auto u = outer.template Load<N>(row, column);
    const auto x = input.template Load<N>(row, column);
    Pack<T, N> y;
    for (size_t k = 0; k < N; ++k) {
      Assign(y[k], ToFloat(x0[k]) * ToFloat(u[k]) + ToFloat(x[k]));
    }
    output.template Store<N>(row, column, y);
  }
};

template <typename T>
struct CrossCombineBackwardCell {
  static constexpr size_t kPack = kPackOf<T>;

  Matrix<const T> origin;
  Matrix<const T> outer;
  Matrix<const T> output_gradient;
  Matrix<T> outer_gradient;
  Matrix<T> origin_gradient;
  bool add_to_origin;

  bool Packs() const {
    return AllPack<kPack>(origin, outer, output_gradient, outer_gradient, origin_gradient);
  }

  template <size_t N>
  SIMURGH_HOST_DEVICE void Run(size_t row, size_t column) const {
    const auto x0 = origin.template Load<N>(row, column);
    const auto u = outer.template Load<N>(row, column);
    const auto dy = output_gradient.template Load<N>(row, column);
    Pack<T, N> before{};
    if (add_to_origin) before = origin_gradient.template Load<N>(row, column);
    Pack<T, N> du;
    Pack<T, N> dx0;
    for (size_t k = 0; k < N; ++k) {
      const float gradient = ToFloat(dy[k]);
      Assign(du[k], gradient * ToFloat(x0[k]));
      Assign(dx0[k], ToFloat(before[k]) + gradient * ToFloat(u[k]));
    }
    outer_gradient.template Store<N>(row, column, du);
    origin_gradient.template Store<N>(row, column, dx0);
  }
};

}  // namespace simurgh::cuda
