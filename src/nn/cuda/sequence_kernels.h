#pragma once

#include <cstddef>

#include "nn/cuda/elementwise_kernels.h"
#include "nn/cuda/float16.h"
#include "nn/cuda/matrix.h"
#include "nn/host_device.h"

// Sequences: rows of which each sample has some first ones. See nn/cpu/attention.h.
namespace simurgh::cuda {

// The columns of one of several sequences, whose rows lie side by side in a tower's input.
struct PlacesOf {
  size_t column;  // First column of the first row.
  size_t dim;
  size_t stride;  // From one row to the next.

  // Returns the column of the tower's input for a column of the sequence.
  SIMURGH_HOST_DEVICE size_t operator()(size_t c) const {
    return column + c / dim * stride + c % dim;
  }
};

// Called for each (row, column of the sequence).
template <typename From, typename To>
struct InterleaveCell {
  Matrix<const From> from;
  PlacesOf places;
  Matrix<To> to;

  SIMURGH_HOST_DEVICE void operator()(size_t row, size_t c) const {
    Assign(to(row, places(c)), ToFloat(from(row, c)));
  }
};

// Decodes a sequence of the embeddings. Called for each (row, column of the sequence).
template <typename To>
struct DecodePlacesCell {
  EncodedVectors from;
  size_t first_column;
  PlacesOf places;
  Matrix<To> to;

  SIMURGH_HOST_DEVICE void operator()(size_t row, size_t c) const {
    Assign(to(row, places(c)), from(row, first_column + c));
  }
};

// The opposite of InterleaveCell. Called for each (row, column of the sequence).
template <typename T>
struct SeparateCell {
  Matrix<const T> from;
  PlacesOf places;
  Matrix<T> to;

  SIMURGH_HOST_DEVICE void operator()(size_t row, size_t c) const {
    to(row, c) = from(row, places(c));
  }
};

// The input of a layer without a query: places * dim columns, then the mask.
template <typename T>
struct SequenceRows {
  Matrix<const T> input;
  size_t places;
  size_t dim;

  // Returns the number of the sample's rows.
  SIMURGH_HOST_DEVICE size_t Length(size_t sample) const {
    size_t length = 0;
    while (length < places && ToFloat(input(sample, places * dim + length)) != 0.0F) ++length;
    return length;
  }
};

// Called for each (sample, column of a row).
template <typename T>
struct MeanCell {
  SequenceRows<T> rows;
  Matrix<T> output;

  SIMURGH_HOST_DEVICE void operator()(size_t sample, size_t d) const {
    const size_t length = rows.Length(sample);
    float sum = 0.0F;
    for (size_t l = 0; l < length; ++l) sum += ToFloat(rows.input(sample, l * rows.dim + d));
    Assign(output(sample, d), length == 0 ? 0.0F : sum / static_cast<float>(length));
  }
};

// Called for each (sample, column of the input).
template <typename T>
struct MeanBackwardCell {
  SequenceRows<T> rows;
  Matrix<const T> output_gradient;
  Matrix<T> input_gradient;

  SIMURGH_HOST_DEVICE void operator()(size_t sample, size_t c) const {
    const size_t length = rows.Length(sample);
    Assign(input_gradient(sample, c),
           c < length * rows.dim
               ? ToFloat(output_gradient(sample, c % rows.dim)) / static_cast<float>(length)
               : 0.0F);
  }
};

// Called for each (sample, column of a row).
template <typename T>
struct LastCell {
  SequenceRows<T> rows;
  Matrix<T> output;

  SIMURGH_HOST_DEVICE void operator()(size_t sample, size_t d) const {
    const size_t length = rows.Length(sample);
    output(sample, d) = length == 0 ? T{} : rows.input(sample, (length - 1) * rows.dim + d);
  }
};

// Called for each (sample, column of the input).
template <typename T>
struct LastBackwardCell {
  SequenceRows<T> rows;
  Matrix<const T> output_gradient;
  Matrix<T> input_gradient;

  SIMURGH_HOST_DEVICE void operator()(size_t sample, size_t c) const {
    const size_t end = rows.Length(sample) * rows.dim;
    const bool is_last = c < end && c + rows.dim >= end;
    input_gradient(sample, c) = is_last ? output_gradient(sample, c % rows.dim) : T{};
  }
};

}  // namespace simurgh::cuda
