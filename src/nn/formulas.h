#pragma once

#include <cmath>

#include "config/model_config.h"
#include "nn/host_device.h"

// Formulas of all backends, so that they agree to the bit.
namespace simurgh {

// An activation's value, and the gradient of its input. saved: the input of gelu, the output of the
// others. dy: the gradient of the output.

// max(x, 0). NaN stays NaN, which makes the loss NaN.
struct ReluFormula {
  SIMURGH_HOST_DEVICE static float Value(float x) { return x < 0.0F ? 0.0F : x; }
  SIMURGH_HOST_DEVICE static float Gradient(float saved, float dy) {
    return saved > 0.0F ? dy : 0.0F;
  }
};

// x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))).
// Source: Hendrycks and Gimpel, "Gaussian Error Linear Units", arXiv:1606.08415.
struct GeluFormula {
  static constexpr float kRate = 1.5957691216F;  // 2 sqrt(2 / pi)
  static constexpr float kCubic = 0.044715F;

  SIMURGH_HOST_DEVICE static float Value(float x) { return x * Gate(x); }
  SIMURGH_HOST_DEVICE static float Gradient(float saved, float dy) {
    const float gate = Gate(saved);
    const float rate = kRate * (1.0F + 3.0F * kCubic * saved * saved);
    return dy * (gate + saved * gate * (1.0F - gate) * rate);
  }

 private:
  // (1 + tanh(u)) / 2 = 1 / (1 + exp(-2 u)), which is precise where tanh is near -1.
  SIMURGH_HOST_DEVICE static float Gate(float x) {
    return 1.0F / (1.0F + std::exp(-kRate * (x + kCubic * x * x * x)));
  }
};

struct SigmoidFormula {
  SIMURGH_HOST_DEVICE static float Value(float x) { return 1.0F / (1.0F + std::exp(-x)); }
  SIMURGH_HOST_DEVICE static float Gradient(float saved, float dy) {
    return dy * (saved * (1.0F - saved));
  }
};

SIMURGH_HOST_DEVICE inline float InverseDeviation(float variance, float epsilon) {
  return static_cast<float>(
      1.0 / std::sqrt(static_cast<double>(variance) + static_cast<double>(epsilon)));
}

struct LossPoint {
  double loss;
  double slope;  // d loss / d logit.
};

// decay = exp(-|logit|)
SIMURGH_HOST_DEVICE inline double Probability(double logit, double decay) {
  return logit >= 0 ? 1.0 / (1.0 + decay) : decay / (1.0 + decay);
}

SIMURGH_HOST_DEVICE inline LossPoint CrossEntropy(double z, double y, double p, double decay) {
  // fmax would drop NaN.
  return {(z < 0 ? 0.0 : z) - z * y + std::log1p(decay), p - y};
}

// p is the label's probability, q = 1 - p: d/dz q^g log p = y q^g (q - g p log p), y = +-1.
SIMURGH_HOST_DEVICE inline LossPoint Focal(double z, double y, double p, double decay,
                                           double gamma) {
  const double entropy = CrossEntropy(z, y, p, decay).loss;  // -log of the label's probability.
  const double own = y == 1.0 ? p : Probability(-z, decay);
  const double other = y == 1.0 ? Probability(-z, decay) : p;
  const double factor = std::pow(other, gamma);
  const double slope = -factor * (other + gamma * own * entropy);
  return {factor * entropy, y == 1.0 ? slope : -slope};
}

// The prediction for an output, see LossConfig.
SIMURGH_HOST_DEVICE inline double PredictionOf(LossConfig::Kind kind, double z) {
  if (kind == LossConfig::Kind::kSquaredError) return z;
  if (kind == LossConfig::Kind::kPoisson) return std::exp(z);
  return Probability(z, std::exp(-std::abs(z)));
}

// The loss of a task.
struct LossFormula {
  LossConfig::Kind kind;
  double task_weight;
  double positive_weight;
  double gamma;
  double label_smoothing;

  // Returns the loss. y: the label; NaN: it is unknown, and the loss is 0. prediction:
  // PredictionOf(kind, z). weight: weight of the sample. Smoothed labels count in the loss only:
  // positive_weight is that of the true label.
  SIMURGH_HOST_DEVICE LossPoint operator()(double z, double y, double prediction,
                                           double weight) const {
    if (std::isnan(y)) return {0.0, 0.0};
    const LossPoint point = OfKind(z, y, prediction);
    const bool is_positive =
        y == 1.0 && (kind == LossConfig::Kind::kBce || kind == LossConfig::Kind::kFocal);
    const double factor = task_weight * (is_positive ? positive_weight : 1.0) * weight;
    return {factor * point.loss, factor * point.slope};
  }

 private:
  SIMURGH_HOST_DEVICE double Smoothed(double y) const {
    return label_smoothing == 0.0 ? y : y + label_smoothing * (0.5 - y);
  }

  SIMURGH_HOST_DEVICE LossPoint OfKind(double z, double y, double prediction) const {
    if (kind == LossConfig::Kind::kSquaredError) return {(z - y) * (z - y), 2.0 * (z - y)};
    if (kind == LossConfig::Kind::kPoisson) return {prediction - y * z, prediction - y};
    const double decay = std::exp(-std::abs(z));
    return kind == LossConfig::Kind::kFocal ? Focal(z, y, prediction, decay, gamma)
                                            : CrossEntropy(z, Smoothed(y), prediction, decay);
  }
};

inline LossFormula FormulaOf(const TaskConfig& task) {
  return {.kind = task.loss.kind,
          .task_weight = task.weight,
          .positive_weight = task.loss.positive_weight,
          .gamma = task.loss.gamma,
          .label_smoothing = task.loss.label_smoothing};
}

}  // namespace simurgh
