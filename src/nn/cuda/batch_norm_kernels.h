#pragma once

#include <cstddef>

#include "nn/cuda/reduction_kernels.h"
#include "nn/formulas.h"
#include "nn/host_device.h"

// Batch normalisation with the CPU backend's formulas and order of sums. Functions of a row are
// those of map_kernels.h.
namespace simurgh::cuda {

struct SquaredDistance {
  const float* mean;

  SIMURGH_HOST_DEVICE float operator()(size_t /*row*/, size_t c, float x) const {
    const float distance = x - mean[c];
    return distance * distance;
  }
};

struct BatchNormParameters {
  const float* scale;
  const float* shift;
  const float* mean;
  const float* inverse;  // Inverse of the deviation.
};

struct BatchNormValue {
  BatchNormParameters of;

  SIMURGH_HOST_DEVICE float operator()(size_t /*row*/, size_t c, float x) const {
    return (x - of.mean[c]) * (of.scale[c] * of.inverse[c]) + of.shift[c];
  }
};

// The terms of the scales' gradient: the output gradient times the normalised input.
struct BatchNormScaleGradient {
  BatchNormParameters of;

  SIMURGH_HOST_DEVICE float operator()(size_t /*row*/, size_t c, float x, float dy) const {
    return dy * ((x - of.mean[c]) * of.inverse[c]);
  }
};

// Computes the gradient of the input from the means over the batch, or over all ranks' batches, of
// dy and of dy * normalised:
// dx = scale / deviation * (dy - mean(dy) - normalised * mean(dy * normalised)).
struct BatchNormGradient {
  BatchNormParameters of;
  const float* means;             // (C)
  const float* normalised_means;  // (C)

  SIMURGH_HOST_DEVICE float operator()(size_t /*row*/, size_t c, float x, float dy) const {
    const float slope = normalised_means[c] * of.inverse[c];
    return of.scale[c] * of.inverse[c] * (dy - means[c] - (x - of.mean[c]) * slope);
  }
};

// Computes the batch's variance and its inverse deviation. Called for each column.
struct FinishVariance {
  const double* sums;
  RowCount rows;
  float epsilon;
  float* variance;
  float* inverse;

  SIMURGH_HOST_DEVICE void operator()(size_t column) const {
    variance[column] = static_cast<float>(sums[column] / rows.Divisor());
    inverse[column] = InverseDeviation(variance[column], epsilon);
  }
};

// Computes the inverse deviation. Called for each column.
struct InvertDeviation {
  const float* variance;
  float epsilon;
  float* inverse;

  SIMURGH_HOST_DEVICE void operator()(size_t column) const {
    inverse[column] = InverseDeviation(variance[column], epsilon);
  }
};

// rows: the number of rows of the batch's statistics, on the device; without any the running ones
// do not change. Called for each column.
struct UpdateRunningStatistics {
  float momentum;
  const double* rows;
  const float* batch_mean;
  const float* batch_variance;
  float* running_mean;
  float* running_variance;

  SIMURGH_HOST_DEVICE void operator()(size_t column) const {
    if (*rows == 0) return;
    const auto unbias = static_cast<float>(*rows > 1 ? *rows / (*rows - 1) : 1.0);
    const float keep = 1.0F - momentum;
    running_mean[column] = keep * running_mean[column] + momentum * batch_mean[column];
    running_variance[column] =
        keep * running_variance[column] + momentum * (batch_variance[column] * unbias);
  }
};

}  // namespace simurgh::cuda
