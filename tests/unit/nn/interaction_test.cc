#include "nn/cpu/interaction.h"

#include <cmath>
#include <limits>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/unit/nn/test_models.h"

namespace simurgh::testing {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr size_t kRows = 3;

// Numbers of vectors and widths around the lengths of SIMD vectors. Inputs are at odd addresses, in
// columns of a wider matrix.
struct Shape {
  size_t vectors;
  size_t dim;
};

std::vector<Shape> Shapes() {
  std::vector<Shape> shapes;
  for (const size_t vectors : {2, 3, 5, 9, 17, 27, 40}) {
    for (const size_t dim : {1, 2, 4, 7, 8, 13, 16, 17, 31, 64}) shapes.push_back({vectors, dim});
  }
  return shapes;
}

struct Strided {
  explicit Strided(size_t columns)
      : values(1 + kRows * (columns + 5), kNan),
        view(MatrixView<float>(values.data() + 1, kRows, columns + 5).Columns(2, columns)) {}

  std::vector<float> values;
  MatrixView<float> view;
};

void Fill(MatrixView<float> view, Random& random) {
  for (size_t r = 0; r < view.rows(); ++r) {
    for (float& value : view.row(r)) value = static_cast<float>(random.Normal());
  }
}

// magnitude: the sum of the absolute values of the terms.
void CheckSum(float actual, double expected, double magnitude) {
  CAPTURE(actual, expected, magnitude);
  CHECK(std::abs(actual - expected) <= 1e-5 * magnitude + 1e-30);
}

TEST_CASE("dot products and their gradients equal their definition in f64 at every size") {
  for (const auto [vectors, dim] : Shapes()) {
    CAPTURE(vectors, dim);
    Random random(vectors * 100 + dim);
    const size_t pairs = vectors * (vectors - 1) / 2;
    Strided x(vectors * dim);
    Strided y(pairs);
    Strided dy(pairs);
    Strided dx(vectors * dim);
    Fill(x.view, random);
    Fill(dy.view, random);
    std::vector<float> scratch(cpu::DotScratchSize(vectors, dim), kNan);
    cpu::DotForward(x.view, dim, scratch, y.view);
    cpu::DotBackward(x.view, dim, dy.view, scratch, dx.view);
    for (size_t r = 0; r < kRows; ++r) {
      std::vector<double> gradient(vectors * dim, 0.0);
      std::vector<double> magnitude(vectors * dim, 0.0);
      size_t pair = 0;
      for (size_t v = 0; v < vectors; ++v) {
        for (size_t w = 0; w < v; ++w, ++pair) {
          double sum = 0;
          double size = 0;
          const double g = dy.view(r, pair);
          for (size_t d = 0; d < dim; ++d) {
            const double a = x.view(r, v * dim + d);
            const double b = x.view(r, w * dim + d);
            sum += a * b;
            size += std::abs(a * b);
            gradient[v * dim + d] += g * b;
            gradient[w * dim + d] += g * a;
            magnitude[v * dim + d] += std::abs(g * b);
            magnitude[w * dim + d] += std::abs(g * a);
          }
          CheckSum(y.view(r, pair), sum, size);
        }
      }
      for (size_t i = 0; i < gradient.size(); ++i) {
        CheckSum(dx.view(r, i), gradient[i], magnitude[i]);
      }
    }
  }
}

TEST_CASE("the second order of a factorisation machine equals the sum of pairs in f64") {
  for (const auto [vectors, dim] : Shapes()) {
    CAPTURE(vectors, dim);
    Random random(vectors * 100 + dim);
    Strided x(vectors * dim);
    Strided y(1);
    Strided dy(1);
    Strided dx(vectors * dim);
    Fill(x.view, random);
    Fill(dy.view, random);
    cpu::FmForward(x.view, dim, y.view);
    cpu::FmBackward(x.view, dim, dy.view, dx.view);
    for (size_t r = 0; r < kRows; ++r) {
      double sum = 0;
      double size = 0;
      for (size_t d = 0; d < dim; ++d) {
        double total = 0;
        double total_size = 0;
        for (size_t v = 0; v < vectors; ++v) {
          const double a = x.view(r, v * dim + d);
          sum += a * total;
          size += a * a + std::abs(a * total);
          total += a;
          total_size += std::abs(a);
        }
        for (size_t v = 0; v < vectors; ++v) {
          const double g = dy.view(r, 0);
          CheckSum(dx.view(r, v * dim + d), g * (total - x.view(r, v * dim + d)),
                   std::abs(g) * total_size);
        }
      }
      CheckSum(y.view(r, 0), sum, size * static_cast<double>(vectors));
    }
  }
}

TEST_CASE("an interaction writes nothing outside of its output") {
  Strided x(6);
  Strided y(3);
  std::vector<float> scratch(cpu::DotScratchSize(3, 2));
  Random random(1);
  Fill(x.view, random);
  cpu::DotForward(x.view, 2, scratch, y.view);
  for (size_t i = 0; i < y.values.size(); ++i) {
    const bool inside = i > 0 && (i - 1) % 8 >= 2 && (i - 1) % 8 < 5;
    CAPTURE(i);
    CHECK(std::isnan(y.values[i]) == !inside);
  }
}

}  // namespace
}  // namespace simurgh::testing
