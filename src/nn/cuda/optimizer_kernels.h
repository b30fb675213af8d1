#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "nn/cuda/float16.h"
#include "nn/cuda/loss_scale.h"
#include "nn/cuda/matrix.h"
#include "nn/host_device.h"

// Optimizer steps over flat buffers, with the CPU backend's formulas (nn/cpu/optimizer.h).
namespace simurgh::cuda {

// The host's values for a step, in pinned memory that the device reads: captured graphs are
// constant.
struct StepRequest {
  float rate = 0;
  double samples = 0;  // Samples in batch norm's statistics.
};

// A step's values, computed on the device.
struct StepScalars {
  uint32_t counts = 1;  // 0: the step changes nothing.
  float rate = 0;
  float keep = 1;             // Factor of the weight: 1 - rate * decoupled decay.
  float correction = 1;       // adam, lamb: bias correction of the first moment.
  float root_correction = 1;  // adam, lamb: bias correction of the second moment's root.
  float average_kept = 0;
  float clip = 1;  // Factor of the gradients.
  double samples = 0;
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
    scalars->samples = request->samples;
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

// Calls the kernel, of cells or of one index, if the step counts.
template <typename Kernel>
struct IfCounted {
  static constexpr size_t kPack = kPackOf<float>;

  const StepScalars* scalars;
  Kernel kernel;

  bool Packs() const { return kernel.Packs(); }

  template <size_t N>
  SIMURGH_HOST_DEVICE void Run(size_t row, size_t i) const {
    if (scalars->counts != 0) kernel.template Run<N>(row, i);
  }
  SIMURGH_HOST_DEVICE void operator()(size_t i) const {
    if (scalars->counts != 0) kernel(i);
  }
};
template <typename Kernel>
IfCounted(const StepScalars*, Kernel) -> IfCounted<Kernel>;

// N adjacent floats, moved at once if they are aligned. The moments and the average lie in the
// state, where at most one of them begins at a pack.
template <size_t N>
SIMURGH_HOST_DEVICE bool IsPack(const float* values) {
  return N == 1 || reinterpret_cast<uintptr_t>(values) % alignof(Pack<float, N>) == 0;
}
template <size_t N>
SIMURGH_HOST_DEVICE Pack<float, N> LoadFloats(const float* from) {
  if (IsPack<N>(from)) return *reinterpret_cast<const Pack<float, N>*>(from);
  Pack<float, N> values;
  for (size_t k = 0; k < N; ++k) values[k] = from[k];
  return values;
}
template <size_t N>
SIMURGH_HOST_DEVICE void StoreFloats(float* to, const Pack<float, N>& values) {
  if (IsPack<N>(to)) {
    *reinterpret_cast<Pack<float, N>*>(to) = values;
  } else {
    for (size_t k = 0; k < N; ++k) to[k] = values[k];
  }
}

// A block of parameters and its copy for products.
struct CopiedBlock {
  uint64_t first = 0;    // First parameter.
  uint64_t offset = 0;   // Offset of the copy in bytes of the weights' memory.
  uint32_t columns = 0;  // 0: no copy.
  uint32_t stride = 0;   // Stride of the copy's rows, in elements.
};

// The places of the products' copies of parameters. T: type of their elements.
template <typename T>
struct WeightCopier {
  const CopiedBlock* blocks = nullptr;  // Ascending; the first one begins at parameter 0.
  uint32_t count = 0;                   // 0: no copies.
  std::byte* memory = nullptr;

  // Copies parameters i to i + N - 1.
  template <size_t N>
  SIMURGH_HOST_DEVICE void Write(size_t i, const Pack<float, N>& values) const {
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
    const size_t at = PlaceOf(block, i);
    if constexpr (N > 1) {
      const bool is_whole = high == count || i + N <= blocks[high].first;
      if (!is_whole || at % N != 0 || PlaceOf(block, i + N - 1) != at + N - 1) {
        for (size_t k = 0; k < N; ++k) Write<1>(i + k, {values[k]});
        return;
      }
    }
    if (block.columns == 0) return;
    Pack<T, N> copies;
    for (size_t k = 0; k < N; ++k) Assign(copies[k], values[k]);
    *reinterpret_cast<Pack<T, N>*>(CopyOf(block) + at) = copies;
  }

  SIMURGH_HOST_DEVICE T* CopyOf(const CopiedBlock& block) const {
    return reinterpret_cast<T*>(memory + block.offset);
  }
  // Returns the place of parameter i in the copy.
  SIMURGH_HOST_DEVICE static size_t PlaceOf(const CopiedBlock& block, size_t i) {
    const size_t at = i - block.first;
    if (block.columns == block.stride) return at;
    return at / block.columns * block.stride + at % block.columns;
  }
};

// The steps and the copy are kernels of cells, for one row of all parameters.

template <typename T>
struct CopyWeight {
  static constexpr size_t kPack = kPackOf<float>;

  const float* weights;
  WeightCopier<T> copier = {};

  static bool Packs() { return true; }

  template <size_t N>
  SIMURGH_HOST_DEVICE void Run(size_t, size_t i) const {
    copier.Write(i, LoadFloats<N>(weights + i));
  }
};

// The parameters of a step, their average and their copies.
template <typename T>
struct StepInputs {
  const StepScalars* scalars;
  float weight_decay;
  float* weights;
  const float* gradients;
  float* average = nullptr;  // Null without an average.
  WeightCopier<T> copier = {};

  template <size_t N>
  SIMURGH_HOST_DEVICE Pack<float, N> Weights(size_t i) const {
    return LoadFloats<N>(weights + i);
  }
  template <size_t N>
  SIMURGH_HOST_DEVICE Pack<float, N> Gradients(size_t i, const Pack<float, N>& w) const {
    auto g = LoadFloats<N>(gradients + i);
    const float clip = scalars->clip;
    for (size_t k = 0; k < N; ++k) g[k] = clip * g[k] + weight_decay * w[k];
    return g;
  }
  // w: the weights. changes: include the learning rate.
  template <size_t N>
  SIMURGH_HOST_DEVICE void Move(size_t i, Pack<float, N> w, const Pack<float, N>& changes) const {
    const float keep = scalars->keep;
    for (size_t k = 0; k < N; ++k) w[k] = keep * w[k] - changes[k];
    Set(i, w);
  }
  template <size_t N>
  SIMURGH_HOST_DEVICE void Set(size_t i, const Pack<float, N>& w) const {
    const float kept = scalars->average_kept;
    StoreFloats(weights + i, w);
    copier.Write(i, w);
    if (average == nullptr) return;
    auto means = LoadFloats<N>(average + i);
    for (size_t k = 0; k < N; ++k) means[k] = kept * means[k] + (1.0F - kept) * w[k];
    StoreFloats(average + i, means);
  }
};

template <typename T>
struct SgdStep {
  static constexpr size_t kPack = kPackOf<float>;

  StepInputs<T> in;

  static bool Packs() { return true; }

  template <size_t N>
  SIMURGH_HOST_DEVICE void Run(size_t, size_t i) const {
    const auto w = in.template Weights<N>(i);
    auto changes = in.Gradients(i, w);
    for (size_t k = 0; k < N; ++k) changes[k] = in.scalars->rate * changes[k];
    in.Move(i, w, changes);
  }
};

template <typename T>
struct MomentumStep {
  static constexpr size_t kPack = kPackOf<float>;

  StepInputs<T> in;
  float momentum;
  bool nesterov;
  float* velocities;

  static bool Packs() { return true; }

  template <size_t N>
  SIMURGH_HOST_DEVICE void Run(size_t, size_t i) const {
    const auto w = in.template Weights<N>(i);
    auto changes = in.Gradients(i, w);
    auto v = LoadFloats<N>(velocities + i);
    for (size_t k = 0; k < N; ++k) {
      const float g = changes[k];
      v[k] = momentum * v[k] + g;
      changes[k] = in.scalars->rate * (nesterov ? g + momentum * v[k] : v[k]);
    }
    StoreFloats(velocities + i, v);
    in.Move(i, w, changes);
  }
};

template <typename T>
struct AdagradStep {
  static constexpr size_t kPack = kPackOf<float>;

  StepInputs<T> in;
  float epsilon;
  float* squares;

  static bool Packs() { return true; }

  template <size_t N>
  SIMURGH_HOST_DEVICE void Run(size_t, size_t i) const {
    const auto w = in.template Weights<N>(i);
    auto changes = in.Gradients(i, w);
    auto s = LoadFloats<N>(squares + i);
    for (size_t k = 0; k < N; ++k) {
      const float g = changes[k];
      s[k] = s[k] + g * g;
      changes[k] = in.scalars->rate * g / (std::sqrt(s[k]) + epsilon);
    }
    StoreFloats(squares + i, s);
    in.Move(i, w, changes);
  }
};

struct MomentBuffers {
  float beta1;
  float beta2;
  float epsilon;
  float* first;
  float* second;

  // Updates the moments; returns the directions.
  template <size_t N>
  SIMURGH_HOST_DEVICE Pack<float, N> Update(size_t i, const Pack<float, N>& g,
                                            const StepScalars& scalars) const {
    auto m = LoadFloats<N>(first + i);
    auto v = LoadFloats<N>(second + i);
    Pack<float, N> directions;
    for (size_t k = 0; k < N; ++k) {
      m[k] = beta1 * m[k] + (1.0F - beta1) * g[k];
      v[k] = beta2 * v[k] + (1.0F - beta2) * (g[k] * g[k]);
      directions[k] =
          scalars.correction * m[k] / (std::sqrt(v[k]) * scalars.root_correction + epsilon);
    }
    StoreFloats(first + i, m);
    StoreFloats(second + i, v);
    return directions;
  }
};

template <typename T>
struct AdamStep {
  static constexpr size_t kPack = kPackOf<float>;

  StepInputs<T> in;
  MomentBuffers moments;

  static bool Packs() { return true; }

  template <size_t N>
  SIMURGH_HOST_DEVICE void Run(size_t, size_t i) const {
    const auto w = in.template Weights<N>(i);
    auto changes = moments.Update(i, in.Gradients(i, w), *in.scalars);
    for (size_t k = 0; k < N; ++k) changes[k] = in.scalars->rate * changes[k];
    in.Move(i, w, changes);
  }
};

// Updates the moments and computes each parameter's direction, including decay.
template <typename T>
struct LambDirection {
  static constexpr size_t kPack = kPackOf<float>;

  StepInputs<T> in;
  MomentBuffers moments;
  float decoupled_weight_decay;
  float* directions;

  static bool Packs() { return true; }

  template <size_t N>
  SIMURGH_HOST_DEVICE void Run(size_t, size_t i) const {
    const auto w = in.template Weights<N>(i);
    auto moves = moments.Update(i, in.Gradients(i, w), *in.scalars);
    for (size_t k = 0; k < N; ++k) moves[k] = moves[k] + decoupled_weight_decay * w[k];
    StoreFloats(directions + i, moves);
  }
};

// Runs for the parameters of one block, from `first` on; the sums are its sums of squares.
template <typename T>
struct LambMove {
  static constexpr size_t kPack = kPackOf<float>;

  StepInputs<T> in;
  size_t first;
  const double* weight_squares;
  const double* direction_squares;
  const float* directions;

  bool Packs() const { return first % kPack == 0; }

  template <size_t N>
  SIMURGH_HOST_DEVICE void Run(size_t, size_t column) const {
    const size_t i = first + column;
    const bool scaled = *weight_squares > 0 && *direction_squares > 0;
    const double trust = scaled ? std::sqrt(*weight_squares / *direction_squares) : 1.0;
    const auto rate = static_cast<float>(static_cast<double>(in.scalars->rate) * trust);
    auto w = in.template Weights<N>(i);
    const auto moves = LoadFloats<N>(directions + i);
    for (size_t k = 0; k < N; ++k) w[k] = w[k] - rate * moves[k];
    in.Set(i, w);
  }
};

}  // namespace simurgh::cuda
