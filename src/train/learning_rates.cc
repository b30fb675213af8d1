#include "train/learning_rates.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "absl/strings/str_cat.h"

namespace simurgh {
namespace {

std::vector<SparseOptimizerConfig> OptimizersOf(const std::vector<TableConfig>& tables) {
  std::vector<SparseOptimizerConfig> optimizers;
  optimizers.reserve(tables.size());
  for (const TableConfig& table : tables) optimizers.push_back(table.optimizer);
  return optimizers;
}

}  // namespace

float LearningRateAt(float base_rate, const LearningRateSchedule& schedule, uint64_t step) {
  using Kind = LearningRateSchedule::Kind;
  const double rate = base_rate;
  if (step < schedule.warmup_steps) {
    return static_cast<float>(rate * (static_cast<double>(step) + 1) /
                              static_cast<double>(schedule.warmup_steps));
  }
  const double end = schedule.end_factor;
  const double x = static_cast<double>(step - schedule.warmup_steps) /
                   static_cast<double>(std::max<uint64_t>(schedule.decay_steps, 1));
  double factor = 1;
  switch (schedule.kind) {
    case Kind::kConstant:
      break;
    case Kind::kLinear:
      factor = 1 - (1 - end) * std::min(x, 1.0);
      break;
    case Kind::kExponential:
      factor = std::max(std::pow(double{schedule.decay_factor}, x), end);
      break;
    case Kind::kCosine:
      factor = end + (1 - end) * (1 + std::cos(std::numbers::pi * std::min(x, 1.0))) / 2;
      break;
  }
  return static_cast<float>(rate * factor);
}

LearningRates::LearningRates(const std::vector<TableConfig>& tables)
    : optimizers_(OptimizersOf(tables)) {}

std::vector<float> LearningRates::At(uint64_t step) const {
  const MutexLock lock(mutex_);
  std::vector<float> rates;
  rates.reserve(optimizers_.size());
  for (const SparseOptimizerConfig& optimizer : optimizers_) {
    rates.push_back(LearningRateAt(optimizer.learning_rate, optimizer.schedule, step));
  }
  return rates;
}

Status LearningRates::Change(const std::vector<TableConfig>& tables) {
  const MutexLock lock(mutex_);
  if (tables.size() != optimizers_.size()) {
    return absl::InvalidArgumentError(absl::StrCat("tables: ", tables.size(),
                                                   " entries instead of ", optimizers_.size(),
                                                   "; restart the cluster, or undo the change"));
  }
  optimizers_ = OptimizersOf(tables);
  return absl::OkStatus();
}

}  // namespace simurgh
