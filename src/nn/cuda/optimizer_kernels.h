#pragma once

#include <cmath>
#include <cstddef>

#include "nn/host_device.h"

// Optimizer steps over flat buffers, with the CPU backend's formulas (nn/cpu/optimizer.h). Kernels
// are called for each parameter unless noted.
namespace simurgh::cuda {

// Values that change from step to step. In device memory, because captured graphs are constant.
struct StepScalars {
  float rate = 0;
  float keep = 1;             // Factor of the weight: 1 - rate * decoupled decay.
  float steps = 0;            // adam, lamb: including this one.
  float correction = 1;       // adam, lamb: bias correction of the first moment.
  float root_correction = 1;  // adam, lamb: of the second moment's root.
  float average_steps = 0;
  float average_kept = 0;
  float unbias = 1;  // Factor of the batch's variance.
  float clip = 1;    // Factor of the gradients; computed on the device.
};

struct StepInputs {
  const StepScalars* scalars;
  float weight_decay;
  float* weights;
  const float* gradients;

  SIMURGH_HOST_DEVICE float Gradient(size_t i) const {
    return scalars->clip * gradients[i] + weight_decay * weights[i];
  }
  // change: includes the learning rate.
  SIMURGH_HOST_DEVICE void Move(size_t i, float change) const {
    weights[i] = scalars->keep * weights[i] - change;
  }
};

struct SgdStep {
  StepInputs in;

  SIMURGH_HOST_DEVICE void operator()(size_t i) const {
    in.Move(i, in.scalars->rate * in.Gradient(i));
  }
};

struct MomentumStep {
  StepInputs in;
  float momentum;
  bool nesterov;
  float* velocities;

  SIMURGH_HOST_DEVICE void operator()(size_t i) const {
    const float g = in.Gradient(i);
    const float v = momentum * velocities[i] + g;
    velocities[i] = v;
    in.Move(i, in.scalars->rate * (nesterov ? g + momentum * v : v));
  }
};

struct AdagradStep {
  StepInputs in;
  float epsilon;
  float* squares;

  SIMURGH_HOST_DEVICE void operator()(size_t i) const {
    const float g = in.Gradient(i);
    const float s = squares[i] + g * g;
    squares[i] = s;
    in.Move(i, in.scalars->rate * g / (std::sqrt(s) + epsilon));
  }
};

struct MomentBuffers {
  float beta1;
  float beta2;
  float epsilon;
  float* first;
  float* second;

  SIMURGH_HOST_DEVICE void Update(size_t i, float g) const {
    first[i] = beta1 * first[i] + (1.0F - beta1) * g;
    second[i] = beta2 * second[i] + (1.0F - beta2) * (g * g);
  }
  SIMURGH_HOST_DEVICE float Direction(size_t i, const StepScalars& scalars) const {
    return scalars.correction * first[i] /
           (std::sqrt(second[i]) * scalars.root_correction + epsilon);
  }
};

struct AdamStep {
  StepInputs in;
  MomentBuffers moments;

  SIMURGH_HOST_DEVICE void operator()(size_t i) const {
    moments.Update(i, in.Gradient(i));
    in.Move(i, in.scalars->rate * moments.Direction(i, *in.scalars));
  }
};

// Updates the moments and computes each parameter's direction, including decay.
struct LambDirection {
  StepInputs in;
  MomentBuffers moments;
  float decoupled_weight_decay;
  float* directions;

  SIMURGH_HOST_DEVICE void operator()(size_t i) const {
    moments.Update(i, in.Gradient(i));
    directions[i] = moments.Direction(i, *in.scalars) + decoupled_weight_decay * in.weights[i];
  }
};

// For one block; the sums are its sums of squares.
struct LambMove {
  const StepScalars* scalars;
  const double* weight_squares;
  const double* direction_squares;
  const float* directions;
  float* weights;

  SIMURGH_HOST_DEVICE void operator()(size_t i) const {
    const bool scaled = *weight_squares > 0 && *direction_squares > 0;
    const double trust = scaled ? std::sqrt(*weight_squares / *direction_squares) : 1.0;
    weights[i] -= static_cast<float>(static_cast<double>(scalars->rate) * trust) * directions[i];
  }
};

// Called once.
struct ClipNorm {
  const double* squares;
  float max_norm;
  StepScalars* scalars;

  SIMURGH_HOST_DEVICE void operator()(size_t) const {
    const double norm = std::sqrt(*squares);
    const double limit = static_cast<double>(max_norm);
    scalars->clip = norm > limit ? static_cast<float>(limit / norm) : 1.0F;
  }
};

struct AverageStep {
  const StepScalars* scalars;
  const float* weights;
  float* average;

  SIMURGH_HOST_DEVICE void operator()(size_t i) const {
    const float kept = scalars->average_kept;
    average[i] = kept * average[i] + (1.0F - kept) * weights[i];
  }
};

// Called once: copies a scalar to the state.
struct StoreScalar {
  const float* from;
  float* to;

  SIMURGH_HOST_DEVICE void operator()(size_t) const { *to = *from; }
};

}  // namespace simurgh::cuda
