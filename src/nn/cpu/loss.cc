#include "nn/cpu/loss.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace simurgh::cpu {
namespace {

// decay = exp(-|logit|)
double Probability(double logit, double decay) {
  return logit >= 0 ? 1.0 / (1.0 + decay) : decay / (1.0 + decay);
}

}  // namespace

double BinaryCrossEntropy(std::span<const float> logits, std::span<const float> labels,
                          std::span<float> probabilities, std::span<float> gradient) {
  const auto count = static_cast<double>(logits.size());
  double sum = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double z = logits[i];
    const double y = labels[i];
    const double decay = std::exp(-std::abs(z));
    const double p = Probability(z, decay);
    sum += std::max(z, 0.0) - z * y + std::log1p(decay);
    probabilities[i] = static_cast<float>(p);
    gradient[i] = static_cast<float>((p - y) / count);
  }
  return sum / count;
}

void Probabilities(std::span<const float> logits, std::span<float> probabilities) {
  for (size_t i = 0; i < logits.size(); ++i) {
    const double z = logits[i];
    probabilities[i] = static_cast<float>(Probability(z, std::exp(-std::abs(z))));
  }
}

}  // namespace simurgh::cpu
