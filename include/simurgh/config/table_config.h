#pragma once

#include <cstdint>
#include <string>

namespace simurgh {

// How a row's weights begin. The values depend on seed, table and id alone.
struct InitializerConfig {
  enum class Kind { kUniform, kNormal, kConstant, kInverseSqrtDim };

  Kind kind = Kind::kUniform;
  float low = -0.01F;  // uniform: in [low, high)
  float high = 0.01F;
  float mean = 0.0F;  // normal
  float stddev = 0.01F;
  float value = 0.0F;  // constant
  // inverse_sqrt_dim: uniform in [-1/sqrt(dim), 1/sqrt(dim)); no parameters.
};

struct SparseOptimizerConfig {
  enum class Kind { kSgd, kAdagrad };

  Kind kind = Kind::kAdagrad;
  float learning_rate = 0.01F;        // > 0
  float epsilon = 1e-10F;             // adagrad
  float initial_accumulator = 0.01F;  // adagrad
  float accumulator_decay = 1.0F;     // adagrad: s = s * decay + g * g
  bool row_wise = false;              // adagrad: one accumulator a row, fed with mean(g * g)
};

// A table: rows of one layout. YAML section `tables`, one entry a table (or several by `names`).
struct TableConfig {
  std::string name;
  uint32_t dim = 8;  // 1 to 1,024
  // Over all servers; the least recently used rows go when it is reached.
  uint64_t capacity_rows = 1 << 20;
  InitializerConfig initializer;
  SparseOptimizerConfig optimizer;
  float weight_bound = 10.0F;  // Weights are clamped to +- this after each update; > 0.
};

}  // namespace simurgh
