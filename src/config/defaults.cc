#include "config/defaults.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace simurgh {
namespace {

// Few rows need small batches for enough steps, and their AUC is uncertain. With large rates, the
// first epochs can already be too many.
constexpr Course kCourses[] = {{200, 8, 50, 10, 10, 1, 0.003, false, false},
                               {2'000, 32, 30, 5, 5, 1, 0.003, false, false},
                               {10'000, 128, 20, 2, 2, 0.5, 0.0015, false, true},
                               {50'000, 128, 20, 2, 2, 1, 0.005, true, true},
                               {1'000'000, 128, 20, 2, 2, 1, 0.003, false, false},
                               {10'000'000, 512, 5, 2, 2, 1, 0.003, false, false},
                               {UINT64_MAX, 1'024, 2, 1, 1, 1, 0.003, false, false}};

// Largest number of features with which all rates are as tuned.
constexpr double kManyFeatures = 32;

}  // namespace

float DefaultRate(DenseOptimizerConfig::Kind kind) {
  using Kind = DenseOptimizerConfig::Kind;
  switch (kind) {
    case Kind::kAdam:
    case Kind::kLamb:
      return 0.001F;
    case Kind::kAdagrad:
      return 0.01F;
    case Kind::kSgd:
      return 0.1F;
  }
  return 0;
}

TableConfig DefaultTable() {
  TableConfig table;
  table.initializer.low = -0.05F;
  table.initializer.high = 0.05F;
  table.optimizer.kind = SparseOptimizerConfig::Kind::kAdam;
  table.optimizer.row_wise = true;
  table.optimizer.learning_rate = DefaultRate(table.optimizer.kind);
  return table;
}

double RateFactor(size_t features) {
  return std::min(1.0, kManyFeatures / static_cast<double>(std::max<size_t>(features, 1)));
}

double DeviationFactor(size_t features) { return std::sqrt(RateFactor(features)); }

const Course& CourseFor(uint64_t rows) {
  return *std::ranges::find_if(kCourses, [&](const Course& one) { return rows < one.below; });
}

const Course& UsualCourse() { return CourseFor(100'000); }

SparseOptimizerConfig FirstOrderOptimizer(uint64_t samples, double rate) {
  const auto count = static_cast<double>(samples);
  SparseOptimizerConfig optimizer;
  optimizer.kind = SparseOptimizerConfig::Kind::kFtrl;
  optimizer.learning_rate = static_cast<float>(DefaultRate(optimizer.kind) * rate);
  optimizer.beta = static_cast<float>(1.28 / count);
  optimizer.l2 = static_cast<float>(2.56 / count);
  optimizer.initial_accumulator = 0;
  return optimizer;
}

}  // namespace simurgh
