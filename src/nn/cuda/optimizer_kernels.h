#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "nn/cuda/float16.h"
#include "nn/cuda/loss_scale.h"
#include "nn/host_device.h"

// Optimizer steps over flat buffers, with the CPU backend's formulas (nn/cpu/optimizer.h). Kernels
// are called for each parameter unless noted.
namespace simurgh::cuda {

// What the host passes to a step, in pinned memory that the device reads: captured graphs are
// constant.
struct StepRequest {
  float rate = 0;
  float unbias = 1;  // Factor of the batch's variance.
};

// A step's values, computed on the device.
struct StepScalars {
  uint32_t counts = 1;  // 0: the step changes nothing.
  float rate = 0;
  float keep = 1;             // Factor of the weight: 1 - rate * decoupled decay.
  float correction = 1;       // adam, lamb: bias correction of the first moment.
  float root_correction = 1;  // adam, lamb: of the second moment's root.
  float average_kept = 0;
  float unbias = 1;
  float clip = 1;  // Factor of the gradients.
};

// Begins a step: decides whether it counts, advances the numbers of steps and computes the scalars.
// Called once.
struct BeginStep {
  const StepRequest* request;
  const StepReport* report;  // Null: the step counts.
  const double* squares;     // Sum of the gradients' squares; null: no limit.
  float max_norm;
  float decoupled_weight_decay;
  float beta1;
  float beta2;
  float average_decay;
  float* steps;          // adam, lamb; else null.
  float* average_steps;  // Null without an average.
  StepScalars* scalars;

  SIMURGH_HOST_DEVICE void operator()(size_t) const {
    scalars->counts = report == nullptr || report->not_finite == 0 ? 1 : 0;
    if (scalars->counts == 0) return;
    scalars->rate = request->rate;
    scalars->unbias = request->unbias;
    scalars->keep = 1.0F - request->rate * decoupled_weight_decay;
    scalars->clip = 1.0F;
    if (squares != nullptr) {
      const double norm = std::sqrt(*squares);
      const auto limit = static_cast<double>(max_norm);
      if (norm > limit) scalars->clip = static_cast<float>(limit / norm);
    }
    if (steps != nullptr) {
      const double now = *steps += 1.0F;
      scalars->correction =
          static_cast<float>(1.0 / (1.0 - std::pow(static_cast<double>(beta1), now)));
      scalars->root_correction =
          static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(static_cast<double>(beta2), now)));
    }
    if (average_steps != nullptr) {
      const float now = *average_steps += 1.0F;
      const float early = (1.0F + now) / (10.0F + now);
      scalars->average_kept = early < average_decay ? early : average_decay;
    }
  }
};

// Calls the kernel if the step counts.
template <typename Kernel>
struct IfCounted {
  const StepScalars* scalars;
  Kernel kernel;

  SIMURGH_HOST_DEVICE void operator()(size_t i) const {
    if (scalars->counts != 0) kernel(i);
  }
};
template <typename Kernel>
IfCounted(const StepScalars*, Kernel) -> IfCounted<Kernel>;

// A block of parameters and its copy for products.
struct CopiedBlock {
  uint64_t first = 0;    // Parameter.
  uint64_t offset = 0;   // Of the copy, in bytes of the weights' memory.
  uint32_t columns = 0;  // 0: no copy.
  uint32_t stride = 0;   // Of the copy's rows, in elements.
};

// Where the products' copies of parameters are. T: their element.
template <typename T>
struct WeightCopier {
  const CopiedBlock* blocks = nullptr;  // Ascending; the first one begins at parameter 0.
  uint32_t count = 0;                   // 0: no copies.
  std::byte* memory = nullptr;

  SIMURGH_HOST_DEVICE void Write(size_t i, float value) const {
    if (count == 0) return;
    uint32_t low = 0;
    uint32_t high = count;
    while (high - low > 1) {
      const uint32_t middle = (low + high) / 2;
      if (blocks[middle].first <= i) {
        low = middle;
      } else {
        high = middle;
      }
    }
    const CopiedBlock& block = blocks[low];
    if (block.columns == 0) return;
    size_t at = i - block.first;
    if (block.columns != block.stride) at = at / block.columns * block.stride + at % block.columns;
    Assign(reinterpret_cast<T*>(memory + block.offset)[at], value);
  }
};

// Copies weights for products.
template <typename T>
struct CopyWeight {
  const float* weights;
  WeightCopier<T> copier;

  SIMURGH_HOST_DEVICE void operator()(size_t i) const { copier.Write(i, weights[i]); }
};

// The parameters of a step, their average and their copies.
template <typename T>
struct StepInputs {
  const StepScalars* scalars;
  float weight_decay;
  float* weights;
  const float* gradients;
  float* average = nullptr;  // Null without an average.
  WeightCopier<T> copier;

  SIMURGH_HOST_DEVICE float Gradient(size_t i) const {
    return scalars->clip * gradients[i] + weight_decay * weights[i];
  }
  // change: includes the learning rate.
  SIMURGH_HOST_DEVICE void Move(size_t i, float change) const {
    Set(i, scalars->keep * weights[i] - change);
  }
  SIMURGH_HOST_DEVICE void Set(size_t i, float weight) const {
    weights[i] = weight;
    copier.Write(i, weight);
    if (average == nullptr) return;
    const float kept = scalars->average_kept;
    average[i] = kept * average[i] + (1.0F - kept) * weight;
  }
};

template <typename T>
struct SgdStep {
  StepInputs<T> in;

  SIMURGH_HOST_DEVICE void operator()(size_t i) const {
    in.Move(i, in.scalars->rate * in.Gradient(i));
  }
};

template <typename T>
struct MomentumStep {
  StepInputs<T> in;
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

template <typename T>
struct AdagradStep {
  StepInputs<T> in;
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

template <typename T>
struct AdamStep {
  StepInputs<T> in;
  MomentBuffers moments;

  SIMURGH_HOST_DEVICE void operator()(size_t i) const {
    moments.Update(i, in.Gradient(i));
    in.Move(i, in.scalars->rate * moments.Direction(i, *in.scalars));
  }
};

// Updates the moments and computes each parameter's direction, including decay.
template <typename T>
struct LambDirection {
  StepInputs<T> in;
  MomentBuffers moments;
  float decoupled_weight_decay;
  float* directions;

  SIMURGH_HOST_DEVICE void operator()(size_t i) const {
    moments.Update(i, in.Gradient(i));
    directions[i] = moments.Direction(i, *in.scalars) + decoupled_weight_decay * in.weights[i];
  }
};

// Called for each parameter of one block, from `first` on; the sums are its sums of squares.
template <typename T>
struct LambMove {
  StepInputs<T> in;
  size_t first;
  const double* weight_squares;
  const double* direction_squares;
  const float* directions;

  SIMURGH_HOST_DEVICE void operator()(size_t k) const {
    const size_t i = first + k;
    const bool scaled = *weight_squares > 0 && *direction_squares > 0;
    const double trust = scaled ? std::sqrt(*weight_squares / *direction_squares) : 1.0;
    in.Set(i, in.weights[i] - static_cast<float>(static_cast<double>(in.scalars->rate) * trust) *
                                  directions[i]);
  }
};

}  // namespace simurgh::cuda
