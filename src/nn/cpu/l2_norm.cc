#include "nn/cpu/l2_norm.h"

#include <functional>
#include <numeric>
#include <span>

#include "nn/cpu/compute_threads.h"
#include "nn/formulas.h"

namespace simurgh::cpu {
namespace {

double Product(std::span<const float> a, std::span<const float> b) {
  return std::transform_reduce(a.begin(), a.end(), b.begin(), 0.0, std::plus<>(),
                               [](double x, double y) { return x * y; });
}

}  // namespace

void L2NormForward(MatrixView<const float> input, MatrixView<float> output) {
  ForEachRow(input.rows(), input.columns(), [=](size_t r) {
    const std::span<const float> x = input.row(r);
    float* y = output.row(r).data();
    const double inverse = L2NormFormula::Inverse(Product(x, x));
    for (size_t c = 0; c < x.size(); ++c) {
      y[c] = static_cast<float>(static_cast<double>(x[c]) * inverse);
    }
  });
}

void L2NormBackward(MatrixView<const float> input, MatrixView<const float> output_gradient,
                    MatrixView<float> input_gradient) {
  ForEachRow(input.rows(), input.columns(), [=](size_t r) {
    const std::span<const float> x = input.row(r);
    const std::span<const float> dy = output_gradient.row(r);
    float* dx = input_gradient.row(r).data();
    const double factor = L2NormFormula::GradientFactor(Product(x, x));
    const double slope = Product(x, dy) * factor;
    for (size_t c = 0; c < x.size(); ++c)
      dx[c] = L2NormFormula::Gradient(x[c], dy[c], factor, slope);
  });
}

}  // namespace simurgh::cpu
