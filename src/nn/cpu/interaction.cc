// Compiled once for each vector extension.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nn/cpu/interaction.cc"
#include <hwy/foreach_target.h>
// Must follow foreach_target.h.
#include <algorithm>
#include <cmath>
#include <numeric>

#include <hwy/highway.h>

#include "base/check.h"
#include "nn/cpu/interaction.h"

HWY_BEFORE_NAMESPACE();
namespace simurgh::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <size_t kLanes, typename Step>
HWY_INLINE size_t WholeVectors(size_t count, size_t i, const Step& step) {
  const hn::CappedTag<float, kLanes> tag;
  for (; i + hn::Lanes(tag) <= count; i += hn::Lanes(tag)) step(tag, i);
  return i;
}

// Calls `step(tag, i)` for SIMD vectors of elements from i, with shorter ones at the end.
template <typename Step>
HWY_INLINE void ForVectors(size_t count, const Step& step) {
  size_t i = WholeVectors<16>(count, 0, step);
  i = WholeVectors<8>(count, i, step);
  i = WholeVectors<4>(count, i, step);
  WholeVectors<1>(count, i, step);
}

// Row i of the products is the sum over d of x(i, d) times row d of the transposed vectors, so no
// sum crosses SIMD lanes.
void DotForwardImpl(MatrixView<const float> input, size_t dim, std::span<float> scratch,
                    MatrixView<float> output) {
  const size_t vectors = input.columns() / dim;
  float* HWY_RESTRICT transposed = scratch.data();  // (D, V)
  for (size_t row = 0; row < input.rows(); ++row) {
    const float* HWY_RESTRICT x = input.row(row).data();
    float* HWY_RESTRICT products = output.row(row).data();
    for (size_t v = 0; v < vectors; ++v) {
      for (size_t d = 0; d < dim; ++d) transposed[d * vectors + v] = x[v * dim + d];
    }
    for (size_t v = 1; v < vectors; ++v) {
      const float* own = x + v * dim;
      ForVectors(v, [&](auto tag, size_t first) HWY_ATTR {
        auto sum = hn::Mul(hn::Set(tag, own[0]), hn::LoadU(tag, transposed + first));
        for (size_t d = 1; d < dim; ++d) {
          sum = hn::MulAdd(hn::Set(tag, own[d]), hn::LoadU(tag, transposed + d * vectors + first),
                           sum);
        }
        hn::StoreU(sum, tag, products + first);
      });
      products += v;
    }
  }
}

void DotBackwardImpl(MatrixView<const float> input, size_t dim,
                     MatrixView<const float> output_gradient, std::span<float> scratch,
                     MatrixView<float> input_gradient) {
  const size_t vectors = input.columns() / dim;
  float* HWY_RESTRICT factors = scratch.data();  // (V, V), symmetric; the diagonal is 0.
  for (size_t row = 0; row < input.rows(); ++row) {
    const float* HWY_RESTRICT x = input.row(row).data();
    const float* HWY_RESTRICT gradient = output_gradient.row(row).data();
    float* HWY_RESTRICT dx = input_gradient.row(row).data();
    for (size_t v = 0; v < vectors; ++v) {
      factors[v * vectors + v] = 0.0F;
      for (size_t w = 0; w < v; ++w) {
        factors[v * vectors + w] = factors[w * vectors + v] = *gradient++;
      }
    }
    for (size_t v = 0; v < vectors; ++v) {
      const float* own = factors + v * vectors;
      ForVectors(dim, [&](auto tag, size_t first) HWY_ATTR {
        auto sum = hn::Zero(tag);
        for (size_t w = 0; w < vectors; ++w) {
          sum = hn::MulAdd(hn::Set(tag, own[w]), hn::LoadU(tag, x + w * dim + first), sum);
        }
        hn::StoreU(sum, tag, dx + v * dim + first);
      });
    }
  }
}

void FmForwardImpl(MatrixView<const float> input, size_t dim, MatrixView<float> output) {
  const size_t vectors = input.columns() / dim;
  for (size_t row = 0; row < input.rows(); ++row) {
    const float* HWY_RESTRICT x = input.row(row).data();
    float total = 0.0F;
    ForVectors(dim, [&](auto tag, size_t first) HWY_ATTR {
      auto sum = hn::Zero(tag);
      auto squares = hn::Zero(tag);
      for (size_t v = 0; v < vectors; ++v) {
        const auto value = hn::LoadU(tag, x + v * dim + first);
        sum = hn::Add(sum, value);
        squares = hn::MulAdd(value, value, squares);
      }
      total += hn::GetLane(hn::SumOfLanes(tag, hn::MulSub(sum, sum, squares)));
    });
    output(row, 0) = 0.5F * total;
  }
}

void FmBackwardImpl(MatrixView<const float> input, size_t dim,
                    MatrixView<const float> output_gradient, MatrixView<float> input_gradient) {
  const size_t vectors = input.columns() / dim;
  for (size_t row = 0; row < input.rows(); ++row) {
    const float* HWY_RESTRICT x = input.row(row).data();
    float* HWY_RESTRICT dx = input_gradient.row(row).data();
    const float gradient = output_gradient(row, 0);
    ForVectors(dim, [&](auto tag, size_t first) HWY_ATTR {
      auto sum = hn::Zero(tag);
      for (size_t v = 0; v < vectors; ++v) {
        sum = hn::Add(sum, hn::LoadU(tag, x + v * dim + first));
      }
      for (size_t v = 0; v < vectors; ++v) {
        const size_t at = v * dim + first;
        hn::StoreU(hn::Mul(hn::Set(tag, gradient), hn::Sub(sum, hn::LoadU(tag, x + at))), tag,
                   dx + at);
      }
    });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace simurgh::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace simurgh::cpu {

HWY_EXPORT(DotForwardImpl);
HWY_EXPORT(DotBackwardImpl);
HWY_EXPORT(FmForwardImpl);
HWY_EXPORT(FmBackwardImpl);

size_t DotScratchSize(size_t vectors, size_t dim) { return vectors * std::max(vectors, dim); }

void DotForward(MatrixView<const float> input, size_t dim, std::span<float> scratch,
                MatrixView<float> output) {
  SIMURGH_CHECK_LE(DotScratchSize(input.columns() / dim, dim), scratch.size());
  HWY_DYNAMIC_DISPATCH(DotForwardImpl)(input, dim, scratch, output);
}

void DotBackward(MatrixView<const float> input, size_t dim, MatrixView<const float> output_gradient,
                 std::span<float> scratch, MatrixView<float> input_gradient) {
  SIMURGH_CHECK_LE(DotScratchSize(input.columns() / dim, dim), scratch.size());
  HWY_DYNAMIC_DISPATCH(DotBackwardImpl)(input, dim, output_gradient, scratch, input_gradient);
}

void FmForward(MatrixView<const float> input, size_t dim, MatrixView<float> output) {
  HWY_DYNAMIC_DISPATCH(FmForwardImpl)(input, dim, output);
}

void FmBackward(MatrixView<const float> input, size_t dim, MatrixView<const float> output_gradient,
                MatrixView<float> input_gradient) {
  HWY_DYNAMIC_DISPATCH(FmBackwardImpl)(input, dim, output_gradient, input_gradient);
}

void SumForward(MatrixView<const float> input, MatrixView<float> output) {
  for (size_t row = 0; row < input.rows(); ++row) {
    const size_t terms = input.columns() / output.columns();
    for (size_t column = 0; column < output.columns(); ++column) {
      float sum = 0.0F;
      for (const float value : input.row(row).subspan(column * terms, terms)) sum += value;
      output(row, column) = sum;
    }
  }
}

void SumBackward(MatrixView<const float> output_gradient, MatrixView<float> input_gradient) {
  for (size_t row = 0; row < input_gradient.rows(); ++row) {
    const size_t terms = input_gradient.columns() / output_gradient.columns();
    for (size_t column = 0; column < output_gradient.columns(); ++column) {
      std::ranges::fill(input_gradient.row(row).subspan(column * terms, terms),
                        output_gradient(row, column));
    }
  }
}

void SoftmaxForward(MatrixView<const float> input, MatrixView<float> output) {
  for (size_t row = 0; row < input.rows(); ++row) {
    const std::span<const float> x = input.row(row);
    const std::span<float> y = output.row(row);
    const float largest = *std::ranges::max_element(x);
    float sum = 0.0F;
    for (size_t c = 0; c < x.size(); ++c) sum += y[c] = std::exp(x[c] - largest);
    for (float& value : y) value /= sum;
  }
}

void SoftmaxBackward(MatrixView<const float> output, MatrixView<const float> output_gradient,
                     MatrixView<float> input_gradient) {
  for (size_t row = 0; row < output.rows(); ++row) {
    const std::span<const float> y = output.row(row);
    const std::span<const float> dy = output_gradient.row(row);
    const float mean = std::inner_product(y.begin(), y.end(), dy.begin(), 0.0F);
    float* dx = input_gradient.row(row).data();
    for (size_t c = 0; c < y.size(); ++c) dx[c] = y[c] * (dy[c] - mean);
  }
}

void MixForward(MatrixView<const float> input, size_t terms, MatrixView<float> output) {
  const size_t dim = output.columns();
  for (size_t row = 0; row < input.rows(); ++row) {
    const float* gates = input.row(row).data();
    const float* x = gates + terms;
    float* y = output.row(row).data();
    std::fill_n(y, dim, 0.0F);
    for (size_t k = 0; k < terms; ++k, x += dim) {
      for (size_t d = 0; d < dim; ++d) y[d] += gates[k] * x[d];
    }
  }
}

void MixBackward(MatrixView<const float> input, size_t terms,
                 MatrixView<const float> output_gradient, MatrixView<float> input_gradient) {
  const size_t dim = output_gradient.columns();
  for (size_t row = 0; row < input.rows(); ++row) {
    const float* gates = input.row(row).data();
    const float* x = gates + terms;
    const float* dy = output_gradient.row(row).data();
    float* gate_gradients = input_gradient.row(row).data();
    float* dx = gate_gradients + terms;
    for (size_t k = 0; k < terms; ++k, x += dim, dx += dim) {
      gate_gradients[k] = std::inner_product(x, x + dim, dy, 0.0F);
      for (size_t d = 0; d < dim; ++d) dx[d] = gates[k] * dy[d];
    }
  }
}

}  // namespace simurgh::cpu
#endif  // HWY_ONCE
