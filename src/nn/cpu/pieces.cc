#include "nn/cpu/pieces.h"

#include <algorithm>

#include "nn/cpu/compute_threads.h"
#include "nn/formulas.h"

namespace simurgh::cpu {
namespace {

// Returns the sum of JointFormula::Term over the pieces. x: the first piece's logit.
double JointSum(const float* x, size_t pieces, size_t dim) {
  double sum = 0;
  for (size_t k = 0; k < pieces; ++k) sum += JointFormula::Term(static_cast<double>(x[k * dim]));
  return sum;
}

}  // namespace

void ProductForward(MatrixView<const float> input, MatrixView<float> output) {
  const size_t dim = output.columns();
  ForEachRow(input.rows(), input.columns(), [=](size_t r) {
    const float* x = input.row(r).data();
    const float* end = x + input.columns();
    float* y = output.row(r).data();
    std::copy_n(x, dim, y);
    for (x += dim; x < end; x += dim) {
      for (size_t d = 0; d < dim; ++d) y[d] *= x[d];
    }
  });
}

void ProductBackward(MatrixView<const float> input, MatrixView<const float> output_gradient,
                     MatrixView<float> input_gradient) {
  const size_t dim = output_gradient.columns();
  ForEachRow(input.rows(), input.columns(), [=](size_t r) {
    const float* x = input.row(r).data();
    const float* dy = output_gradient.row(r).data();
    float* dx = input_gradient.row(r).data();
    for (size_t k = 0; k < input.columns(); k += dim) {
      std::copy_n(dy, dim, dx + k);
      for (size_t other = 0; other < input.columns(); other += dim) {
        if (other == k) continue;
        for (size_t d = 0; d < dim; ++d) dx[k + d] *= x[other + d];
      }
    }
  });
}

void JointForward(MatrixView<const float> input, MatrixView<float> output) {
  const size_t dim = output.columns();
  ForEachRow(input.rows(), input.columns(), [=](size_t r) {
    for (size_t d = 0; d < dim; ++d) {
      const double sum = JointSum(input.row(r).data() + d, input.columns() / dim, dim);
      output(r, d) = static_cast<float>(JointFormula::Value(sum));
    }
  });
}

void JointBackward(MatrixView<const float> input, MatrixView<const float> output_gradient,
                   MatrixView<float> input_gradient) {
  const size_t dim = output_gradient.columns();
  ForEachRow(input.rows(), input.columns(), [=](size_t r) {
    for (size_t d = 0; d < dim; ++d) {
      const double sum = JointSum(input.row(r).data() + d, input.columns() / dim, dim);
      const auto dy = static_cast<double>(output_gradient(r, d));
      for (size_t c = d; c < input.columns(); c += dim) {
        input_gradient(r, c) =
            static_cast<float>(JointFormula::Gradient(sum, static_cast<double>(input(r, c)), dy));
      }
    }
  });
}

}  // namespace simurgh::cpu
