#include "nn/cpu/loss.h"

#include <cmath>
#include <cstddef>

#include "nn/formulas.h"

namespace simurgh::cpu {

double Loss(std::span<const TaskConfig> tasks, std::span<const float> logits,
            std::span<const float> labels, std::span<float> probabilities,
            uint64_t gradient_divisor, std::span<float> gradient) {
  const auto divisor = static_cast<double>(gradient_divisor);
  const size_t samples = logits.size() / tasks.size();
  double sum = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const TaskConfig& task = tasks[i % tasks.size()];
    const LossConfig& config = task.loss;
    const bool focal = config.kind == LossConfig::Kind::kFocal;
    const double z = logits[i];
    const double y = labels[i];
    const double decay = std::exp(-std::abs(z));
    const double p = Probability(z, decay);
    const LossPoint point =
        focal ? Focal(z, y, p, decay, double{config.gamma}) : CrossEntropy(z, y, p, decay);
    const double weight = double{task.weight} * (y == 1.0 ? double{config.positive_weight} : 1.0);
    sum += weight * point.loss;
    probabilities[i] = static_cast<float>(p);
    gradient[i] = static_cast<float>(weight * point.slope / divisor);
  }
  return sum / static_cast<double>(samples);
}

void Probabilities(std::span<const float> logits, std::span<float> probabilities) {
  for (size_t i = 0; i < logits.size(); ++i) {
    const double z = logits[i];
    probabilities[i] = static_cast<float>(Probability(z, std::exp(-std::abs(z))));
  }
}

}  // namespace simurgh::cpu
