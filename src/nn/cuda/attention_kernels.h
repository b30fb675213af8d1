#pragma once

#include <cmath>
#include <cstddef>

#include "nn/cuda/float16.h"
#include "nn/cuda/matrix.h"
#include "nn/cuda/reduction_kernels.h"
#include "nn/host_device.h"

// Attention to the rows of a sequence, see nn/cpu/attention.h. Matrices of rows have one for each
// place of each sample; empty places have the weight 0.
namespace simurgh::cuda {

// The input: a query, places * dim columns, then the mask.
template <typename T>
struct AttentionInput {
  Matrix<const T> input;
  size_t query;
  size_t places;
  size_t dim;

  SIMURGH_HOST_DEVICE float Query(size_t sample, size_t c) const {
    return ToFloat(input(sample, c));
  }
  SIMURGH_HOST_DEVICE float Row(size_t sample, size_t place, size_t d) const {
    return ToFloat(input(sample, query + place * dim + d));
  }
  SIMURGH_HOST_DEVICE bool Has(size_t sample, size_t place) const {
    return ToFloat(input(sample, query + places * dim + place)) != 0.0F;
  }
  // row: that of the place in a matrix of rows.
  SIMURGH_HOST_DEVICE bool Has(size_t row) const { return Has(row / places, row % places); }
};

// 1 for each row of a sequence: a term of SumColumns, with one column.
template <typename T>
struct PlaceTerm {
  static constexpr size_t kPack = 1;

  AttentionInput<T> in;

  bool Packs() const { return false; }

  template <size_t N>
  SIMURGH_HOST_DEVICE Pack<float, N> Of(size_t row, size_t /*column*/) const {
    return {in.Has(row) ? 1.0F : 0.0F};
  }
};

// (q, k, q - k, q * k). Called for each (row, column).
template <typename T>
struct PairCell {
  AttentionInput<T> in;
  Matrix<T> pairs;

  SIMURGH_HOST_DEVICE void operator()(size_t row, size_t c) const {
    const size_t sample = row / in.places;
    const size_t place = row % in.places;
    const size_t both = in.query + in.dim;
    float value = 0.0F;
    if (c < in.query) {
      value = in.Query(sample, c);
    } else if (c < both) {
      value = in.Row(sample, place, c - in.query);
    } else if (c < both + in.query) {
      value = in.Query(sample, c - both) - in.Row(sample, place, c - both);
    } else {
      const size_t d = c - both - in.query;
      value = in.Query(sample, d) * in.Row(sample, place, d);
    }
    Assign(pairs(row, c), value);
  }
};

// Turns the scores of a sample's rows into weights. Called for each sample.
template <typename T>
struct WeighRows {
  AttentionInput<T> in;
  bool normalises;
  float* weights;  // (samples, places)

  SIMURGH_HOST_DEVICE void operator()(size_t sample) const {
    float* const own = weights + sample * in.places;
    float largest = 0.0F;
    bool is_first = true;
    for (size_t l = 0; l < in.places; ++l) {
      if (!in.Has(sample, l)) continue;
      largest = is_first || own[l] > largest ? own[l] : largest;
      is_first = false;
    }
    float sum = 0.0F;
    for (size_t l = 0; l < in.places; ++l) {
      if (!in.Has(sample, l)) {
        own[l] = 0.0F;
      } else if (normalises) {
        own[l] = std::exp(own[l] - largest);
        sum += own[l];
      }
    }
    if (!normalises || is_first) return;
    for (size_t l = 0; l < in.places; ++l) own[l] /= sum;
  }
};

// Called for each (sample, column of a row).
template <typename T>
struct WeightedRowsCell {
  AttentionInput<T> in;
  const float* weights;
  Matrix<T> output;

  SIMURGH_HOST_DEVICE void operator()(size_t sample, size_t d) const {
    float sum = 0.0F;
    for (size_t l = 0; l < in.places; ++l) {
      const float weight = weights[sample * in.places + l];
      if (weight != 0.0F) sum += weight * in.Row(sample, l, d);
    }
    Assign(output(sample, d), sum);
  }
};

// The gradients of the weights. Called for each (sample, place).
template <typename T>
struct WeightSlopeCell {
  AttentionInput<T> in;
  Matrix<const T> output_gradient;
  float* slopes;

  SIMURGH_HOST_DEVICE void operator()(size_t sample, size_t place) const {
    float sum = 0.0F;
    if (in.Has(sample, place)) {
      for (size_t d = 0; d < in.dim; ++d) {
        sum += ToFloat(output_gradient(sample, d)) * in.Row(sample, place, d);
      }
    }
    slopes[sample * in.places + place] = sum;
  }
};

// The gradients of the scores. Called for each sample.
template <typename T>
struct ScoreGradients {
  AttentionInput<T> in;
  bool normalises;
  const float* weights;
  const float* slopes;
  Matrix<T> scores;  // (rows, 1)

  SIMURGH_HOST_DEVICE void operator()(size_t sample) const {
    const size_t first = sample * in.places;
    float mean = 0.0F;
    for (size_t l = first; l < first + in.places && normalises; ++l) mean += weights[l] * slopes[l];
    for (size_t l = first; l < first + in.places; ++l) {
      Assign(scores(l, 0), normalises ? weights[l] * (slopes[l] - mean) : slopes[l]);
    }
  }
};

// The gradient of the layer's input. Called for each (sample, column).
template <typename T>
struct AttentionBackwardCell {
  AttentionInput<T> in;
  const float* weights;
  Matrix<const T> output_gradient;
  Matrix<const T> pair_gradient;
  Matrix<T> input_gradient;

  SIMURGH_HOST_DEVICE void operator()(size_t sample, size_t c) const {
    const size_t both = in.query + in.dim;
    float sum = 0.0F;
    if (c < in.query) {
      for (size_t l = 0; l < in.places; ++l) {
        if (!in.Has(sample, l)) continue;
        const size_t row = sample * in.places + l;
        sum += ToFloat(pair_gradient(row, c)) + ToFloat(pair_gradient(row, both + c)) +
               ToFloat(pair_gradient(row, both + in.query + c)) * in.Row(sample, l, c);
      }
    } else if (c < in.query + in.places * in.dim) {
      const size_t place = (c - in.query) / in.dim;
      const size_t d = (c - in.query) % in.dim;
      const size_t row = sample * in.places + place;
      if (in.Has(sample, place)) {
        sum = ToFloat(pair_gradient(row, in.query + d)) +
              weights[row] * ToFloat(output_gradient(sample, d));
        if (d < in.query) {
          sum += ToFloat(pair_gradient(row, both + in.query + d)) * in.Query(sample, d) -
                 ToFloat(pair_gradient(row, both + d));
        }
      }
    }
    Assign(input_gradient(sample, c), sum);
  }
};

}  // namespace simurgh::cuda
