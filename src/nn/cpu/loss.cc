#include "nn/cpu/loss.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace simurgh::cpu {
namespace {

struct Point {
  double loss;
  double slope;  // d loss / d logit.
};

// decay = exp(-|logit|)
double Probability(double logit, double decay) {
  return logit >= 0 ? 1.0 / (1.0 + decay) : decay / (1.0 + decay);
}

Point CrossEntropy(double z, double y, double p, double decay) {
  return {std::max(z, 0.0) - z * y + std::log1p(decay), p - y};
}

// p is the label's probability, q = 1 - p: d/dz q^g log p = y q^g (q - g p log p), y = +-1.
Point Focal(double z, double y, double p, double decay, double gamma) {
  const double entropy = CrossEntropy(z, y, p, decay).loss;  // -log of the label's probability.
  const double own = y == 1.0 ? p : Probability(-z, decay);
  const double other = y == 1.0 ? Probability(-z, decay) : p;
  const double factor = std::pow(other, gamma);
  const double slope = -factor * (other + gamma * own * entropy);
  return {factor * entropy, y == 1.0 ? slope : -slope};
}

}  // namespace

double Loss(std::span<const TaskConfig> tasks, std::span<const float> logits,
            std::span<const float> labels, std::span<float> probabilities,
            uint64_t gradient_divisor, std::span<float> gradient) {
  const auto divisor = static_cast<double>(gradient_divisor);
  const auto samples = static_cast<double>(logits.size() / tasks.size());
  double sum = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const TaskConfig& task = tasks[i % tasks.size()];
    const LossConfig& config = task.loss;
    const bool focal = config.kind == LossConfig::Kind::kFocal;
    const double z = logits[i];
    const double y = labels[i];
    const double decay = std::exp(-std::abs(z));
    const double p = Probability(z, decay);
    const Point point =
        focal ? Focal(z, y, p, decay, double{config.gamma}) : CrossEntropy(z, y, p, decay);
    const double weight = double{task.weight} * (y == 1.0 ? double{config.positive_weight} : 1.0);
    sum += weight * point.loss;
    probabilities[i] = static_cast<float>(p);
    gradient[i] = static_cast<float>(weight * point.slope / divisor);
  }
  return sum / samples;
}

void Probabilities(std::span<const float> logits, std::span<float> probabilities) {
  for (size_t i = 0; i < logits.size(); ++i) {
    const double z = logits[i];
    probabilities[i] = static_cast<float>(Probability(z, std::exp(-std::abs(z))));
  }
}

}  // namespace simurgh::cpu
