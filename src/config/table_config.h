#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "config/training_config.h"

namespace simurgh {

// Precision of stored numbers. Arithmetic is f32; results are rounded stochastically, so that small
// steps count on average.
enum class RowPrecision { kF32, kBf16, kF16 };

// Returns the bytes of one number.
constexpr uint32_t SizeOf(RowPrecision precision) {
  return precision == RowPrecision::kF32 ? sizeof(float) : sizeof(uint16_t);
}

// Distribution of a row's initial weights. They depend on seed, table and id only.
struct InitializerConfig {
  enum class Kind {
    kUniform,
    kNormal,
    kTruncatedNormal,
    kGamma,
    kPoisson,
    kInverseSqrtDim,
    kZero,
    kConstant,
  };

  Kind kind = Kind::kUniform;
  float low = -0.01F;  // uniform: in [low, high)
  float high = 0.01F;
  float mean = 0.0F;  // normal, truncated_normal
  float stddev = 0.01F;
  float shape = 1.0F;  // gamma
  float scale = 0.01F;
  float rate = 1.0F;   // poisson
  float value = 0.0F;  // constant
  // inverse_sqrt_dim: uniform in [-1/sqrt(dim), 1/sqrt(dim)); no parameters.
};

// Update of a table's rows; config/README.md has the formulas.
struct SparseOptimizerConfig {
  enum class Kind { kSgd, kAdagrad, kAdam, kFtrl, kGroupFtrl };

  Kind kind = Kind::kAdagrad;
  float learning_rate = 0.01F;  // > 0
  LearningRateSchedule schedule;

  float momentum = 0.0F;  // sgd
  bool nesterov = false;

  float epsilon = 1e-10F;             // adagrad, adam
  float initial_accumulator = 0.01F;  // adagrad, ftrl, group_ftrl
  float accumulator_decay = 1.0F;     // adagrad: s = s * decay + g * g
  bool row_wise = false;              // adagrad, adam: one mean of g * g per row

  float beta1 = 0.9F;  // adam
  float beta2 = 0.999F;

  float beta = 1.0F;  // ftrl, group_ftrl
  float l1 = 0.0F;
  float l2 = 0.0F;
  float group_l1 = 0.0F;  // group_ftrl

  float weight_decay = 0.0F;            // Adds weight_decay * w to the gradient.
  float decoupled_weight_decay = 0.0F;  // Subtracts learning_rate * this * w.

  float max_gradient_norm = 0.0F;  // Longer gradients of a row are scaled to it; 0: no limit.
};

// Ids that get a row in a training pull. Others read as zeros, and their gradients are dropped.
struct AdmissionConfig {
  enum class Kind { kAlways, kProbability, kOccurrences };

  Kind kind = Kind::kAlways;
  float probability = 1.0F;     // probability: share of ids, (0, 1]
  uint32_t occurrences = 2;     // occurrences: number of the request that creates the row, 2 to 255
  uint32_t sketch_width = 256;  // occurrences: counters per hash function, 16 to 65,536
};

// Reaction to a new id in a full table.
enum class WhenFull {
  kEvict,   // Evicts the least recently used row.
  kRefuse,  // The id reads as zeros; its gradients are dropped.
  kStop,    // The pull fails and the server stops.
};

// Reaction to an update whose result is not finite.
enum class WhenNotFinite {
  kReinitialize,  // The row gets its initial weights and optimizer state.
  kRefuse,        // The row keeps its numbers; the gradient is dropped.
};

// Rows evicted from a table with room. Idle steps count from a row's last training pull.
struct EvictionConfig {
  static constexpr uint32_t kMaxIdleSteps = uint32_t{1} << 30;
  static constexpr uint32_t kMaxUseCount = 65'535;  // A row's count of training pulls stops here.

  struct LowUse {
    uint32_t below = 0;  // Training pulls below which a row has low use, to kMaxUseCount; 0: off.
    uint32_t idle_steps = 10'000;
  };
  struct SmallNorm {
    float below = 0;  // Norm of the weights below which a row is small; 0: off.
    uint32_t idle_steps = 10'000;
  };

  uint32_t idle_steps = 0;                 // Evicts rows idle for more steps; 0: off.
  std::chrono::milliseconds idle_time{0};  // Evicts rows idle for more time; 0: off.
  LowUse low_use;
  SmallNorm small_norm;
};

// A table of rows of one layout. YAML section `tables`; an entry with `names` makes several.
struct TableConfig {
  static constexpr uint32_t kMaxDim = 1'024;

  std::string name;
  uint32_t dim = 8;  // 1 to kMaxDim
  // Capacity over all servers. capacity_bytes above 0 replaces capacity_rows.
  uint64_t capacity_rows = 1 << 20;
  // Rows in memory over all servers; the others are in embedding_ps.cold_directory. 0: no limit.
  uint64_t memory_rows = 0;
  uint64_t capacity_bytes = 0;
  WhenFull when_full = WhenFull::kEvict;
  EvictionConfig eviction;
  InitializerConfig initializer;
  std::string initial_rows;  // Tensor file of rows that a new training begins with; empty: none.
  SparseOptimizerConfig optimizer;
  AdmissionConfig admission;
  float weight_bound = 10.0F;  // Weights are clamped to +- this; > 0.
  WhenNotFinite when_not_finite = WhenNotFinite::kReinitialize;
  RowPrecision precision = RowPrecision::kF32;        // Stored weights.
  RowPrecision state_precision = RowPrecision::kF32;  // Optimizer vectors; not kF16.
};

inline bool HasInitialRows(const std::vector<TableConfig>& tables) {
  return std::ranges::any_of(tables, [](const auto& table) { return !table.initial_rows.empty(); });
}

}  // namespace simurgh
