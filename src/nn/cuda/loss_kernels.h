#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "nn/cuda/bfloat16.h"
#include "nn/cuda/matrix.h"

// The loss and its gradient in one pass, with the formulas of the CPU backend (nn/cpu/loss.cc), in
// f64 as there.
namespace simurgh::cuda {

struct LossPoint {
  double loss;
  double slope;  // d loss / d logit.
};

// decay = exp(-|logit|)
SIMURGH_HOST_DEVICE inline double Probability(double logit, double decay) {
  return logit >= 0 ? 1.0 / (1.0 + decay) : decay / (1.0 + decay);
}

SIMURGH_HOST_DEVICE inline LossPoint CrossEntropy(double z, double y, double p, double decay) {
  // Written so that NaN stays NaN, which fmax would drop.
  return {(z < 0 ? 0.0 : z) - z * y + std::log1p(decay), p - y};
}

SIMURGH_HOST_DEVICE inline LossPoint Focal(double z, double y, double p, double decay,
                                           double gamma) {
  const double entropy = CrossEntropy(z, y, p, decay).loss;
  const double own = y == 1.0 ? p : Probability(-z, decay);
  const double other = y == 1.0 ? Probability(-z, decay) : p;
  const double factor = std::pow(other, gamma);
  const double slope = -factor * (other + gamma * own * entropy);
  return {factor * entropy, y == 1.0 ? slope : -slope};
}

struct LossFormula {
  bool focal;
  double positive_weight;
  double gamma;

  SIMURGH_HOST_DEVICE LossPoint operator()(double z, double y, double p, double decay) const {
    const LossPoint point = focal ? Focal(z, y, p, decay, gamma) : CrossEntropy(z, y, p, decay);
    const double weight = y == 1.0 ? positive_weight : 1.0;
    return {weight * point.loss, weight * point.slope};
  }
};

// Called for each row.
template <typename T>
struct LossRow {
  LossFormula formula;
  Matrix<const float> logits;  // (B, 1)
  const float* labels;
  double* losses;  // Not yet divided by B.
  float* probabilities;
  double samples;      // That the mean is over.
  Matrix<T> gradient;  // (B, 1), of the mean.

  SIMURGH_HOST_DEVICE void operator()(size_t row) const {
    const double z = logits(row, 0);
    const double decay = std::exp(-std::abs(z));
    const double p = Probability(z, decay);
    const LossPoint point = formula(z, labels[row], p, decay);
    losses[row] = point.loss;
    probabilities[row] = static_cast<float>(p);
    Assign(gradient(row, 0), static_cast<float>(point.slope / samples));
  }
};

// Called for each row.
struct ProbabilityRow {
  Matrix<const float> logits;
  float* probabilities;

  SIMURGH_HOST_DEVICE void operator()(size_t row) const {
    const double z = logits(row, 0);
    probabilities[row] = static_cast<float>(Probability(z, std::exp(-std::abs(z))));
  }
};

// What a training step tells the host.
struct StepReport {
  double loss;
  uint32_t not_finite;  // 1 where a gradient is NaN or infinite.
  uint32_t unused;
};

// Called once, before anything looks for values that are not finite.
struct BeginReport {
  StepReport* report;

  SIMURGH_HOST_DEVICE void operator()(size_t) const {
    report->loss = 0;
    report->not_finite = 0;
  }
};

// Called once.
struct ReportLoss {
  const double* sum;
  double rows;
  StepReport* report;

  SIMURGH_HOST_DEVICE void operator()(size_t) const { report->loss = *sum / rows; }
};

}  // namespace simurgh::cuda
