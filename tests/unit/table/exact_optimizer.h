#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "config/table_config.h"

namespace simurgh {

// The formulas of update_rules.h in double precision, each state in a separate vector.
class ExactOptimizer {
 public:
  ExactOptimizer(const SparseOptimizerConfig& config, float weight_bound,
                 const std::vector<float>& begin)
      : config_(config),
        bound_(weight_bound),
        weights_(begin.begin(), begin.end()),
        first_(begin.size(), 0.0),
        second_(begin.size(), UsesAccumulator() ? config.initial_accumulator : 0.0) {}

  const std::vector<double>& weights() const { return weights_; }
  // adagrad: s (of every element; all the same when row-wise); ftrl: s; adam: v.
  const std::vector<double>& second() const { return second_; }

  void Step(double rate, const std::vector<float>& raw) {
    const std::vector<double> gradient = Prepare(rate, raw);
    switch (config_.kind) {
      case Kind::kSgd:
        return Sgd(rate, gradient);
      case Kind::kAdagrad:
        return Adagrad(rate, gradient);
      case Kind::kAdam:
        return Adam(rate, gradient);
      case Kind::kFtrl:
      case Kind::kGroupFtrl:
        return Ftrl(rate, gradient);
    }
  }

 private:
  using Kind = SparseOptimizerConfig::Kind;

  bool UsesAccumulator() const { return config_.kind != Kind::kSgd && config_.kind != Kind::kAdam; }
  size_t dim() const { return weights_.size(); }

  static double Norm(const auto& values) {
    double sum = 0;
    for (const double value : values) sum += value * value;
    return std::sqrt(sum);
  }

  std::vector<double> Prepare(double rate, const std::vector<float>& raw) {
    std::vector<double> gradient(raw.begin(), raw.end());
    const double norm = Norm(gradient);
    for (size_t i = 0; i < dim(); ++i) {
      if (config_.max_gradient_norm > 0 && norm > config_.max_gradient_norm) {
        gradient[i] *= config_.max_gradient_norm / norm;
      }
      gradient[i] += double{config_.weight_decay} * weights_[i];
      const bool ftrl = config_.kind == Kind::kFtrl || config_.kind == Kind::kGroupFtrl;
      if (!ftrl) weights_[i] -= rate * config_.decoupled_weight_decay * weights_[i];
    }
    return gradient;
  }

  void Set(size_t i, double weight) { weights_[i] = std::clamp(weight, -bound_, bound_); }

  // g * g of an element, or their mean where the state is a row's.
  std::vector<double> Squares(const std::vector<double>& gradient) const {
    std::vector<double> squares;
    for (const double g : gradient) squares.push_back(g * g);
    if (config_.row_wise) {
      const double norm = Norm(gradient);
      std::fill(squares.begin(), squares.end(), norm * norm / static_cast<double>(dim()));
    }
    return squares;
  }

  void Sgd(double rate, const std::vector<double>& gradient) {
    for (size_t i = 0; i < dim(); ++i) {
      first_[i] = config_.momentum * first_[i] + gradient[i];
      const double ahead = gradient[i] + config_.momentum * first_[i];
      Set(i, weights_[i] - rate * (config_.nesterov ? ahead : first_[i]));
    }
  }

  void Adagrad(double rate, const std::vector<double>& gradient) {
    const std::vector<double> squares = Squares(gradient);
    for (size_t i = 0; i < dim(); ++i) {
      Set(i, weights_[i] - rate * gradient[i] / std::sqrt(second_[i] + config_.epsilon));
      second_[i] = second_[i] * config_.accumulator_decay + squares[i];
    }
  }

  void Adam(double rate, const std::vector<double>& gradient) {
    ++updates_;
    const std::vector<double> squares = Squares(gradient);
    for (size_t i = 0; i < dim(); ++i) {
      first_[i] = config_.beta1 * first_[i] + (1 - double{config_.beta1}) * gradient[i];
      second_[i] = config_.beta2 * second_[i] + (1 - double{config_.beta2}) * squares[i];
      const double mean = first_[i] / (1 - std::pow(double{config_.beta1}, updates_));
      const double square = second_[i] / (1 - std::pow(double{config_.beta2}, updates_));
      Set(i, weights_[i] - rate * mean / (std::sqrt(square) + config_.epsilon));
    }
  }

  void Ftrl(double rate, const std::vector<double>& gradient) {
    std::vector<double> rest(dim());
    for (size_t i = 0; i < dim(); ++i) {
      const double sum = second_[i] + gradient[i] * gradient[i];
      first_[i] += gradient[i] - (std::sqrt(sum) - std::sqrt(second_[i])) / rate * weights_[i];
      second_[i] = sum;
      first_[i] += rate * config_.decoupled_weight_decay * Strength(rate, i) * weights_[i];
      const double l1 = config_.l1;
      if (std::abs(first_[i]) > l1) rest[i] = first_[i] - std::copysign(l1, first_[i]);
    }
    double share = 1;
    if (config_.kind == Kind::kGroupFtrl) {
      const double threshold = std::sqrt(static_cast<double>(dim())) * config_.group_l1;
      share = threshold == 0 ? 1 : std::max(0.0, 1 - threshold / std::max(Norm(rest), 1e-300));
    }
    for (size_t i = 0; i < dim(); ++i) {
      Set(i, -share * rest[i] / Strength(rate, i));
    }
  }
  double Strength(double rate, size_t i) const {
    return (config_.beta + std::sqrt(second_[i])) / rate + config_.l2;
  }

  SparseOptimizerConfig config_;
  double bound_;
  std::vector<double> weights_;
  std::vector<double> first_;  // sgd: v; adam: m; ftrl: z.
  std::vector<double> second_;
  int updates_ = 0;
};

}  // namespace simurgh
