#pragma once

#include <cmath>

#include "config/model_config.h"
#include "nn/host_device.h"

// Formulas of all backends, so that they agree to the bit.
namespace simurgh {

// An activation's value, and the gradient of its input. saved: the input of gelu and silu, the
// output of the others. dy: the gradient of the output.

// max(x, 0). NaN stays NaN, which makes the loss NaN.
struct ReluFormula {
  SIMURGH_HOST_DEVICE static float Value(float x) { return x < 0.0F ? 0.0F : x; }
  SIMURGH_HOST_DEVICE static float Gradient(float saved, float dy) {
    return saved > 0.0F ? dy : 0.0F;
  }
};

// A relu and a dropout behind it, whose output is `saved`.
struct DroppedReluFormula {
  float scale = 1.0F;  // DropoutMask::scale

  SIMURGH_HOST_DEVICE float Gradient(float saved, float dy) const {
    return ReluFormula::Gradient(saved, dy * scale);
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

// x sigmoid(x). Source: Ramachandran et al., "Searching for Activation Functions", 2017.
struct SiluFormula {
  SIMURGH_HOST_DEVICE static float Value(float x) { return x * SigmoidFormula::Value(x); }
  SIMURGH_HOST_DEVICE static float Gradient(float saved, float dy) {
    const float gate = SigmoidFormula::Value(saved);
    return dy * (gate + saved * gate * (1.0F - gate));
  }
};

struct TanhFormula {
  SIMURGH_HOST_DEVICE static float Value(float x) { return std::tanh(x); }
  SIMURGH_HOST_DEVICE static float Gradient(float saved, float dy) {
    return dy * (1.0F - saved * saved);
  }
};

// 2 sigmoid(x), which is 1 at 0. Source: Chang et al., "PEPNet", KDD 2023, equation 2.
struct GateFormula {
  SIMURGH_HOST_DEVICE static float Value(float x) { return 2.0F * SigmoidFormula::Value(x); }
  SIMURGH_HOST_DEVICE static float Gradient(float saved, float dy) {
    return dy * (saved * (1.0F - 0.5F * saved));
  }
};

// max(x, 0) + slope min(x, 0).
// Source: He et al., "Delving Deep into Rectifiers", ICCV 2015, equation 1.
struct PreluFormula {
  SIMURGH_HOST_DEVICE static float Value(float x, float slope) { return x < 0.0F ? slope * x : x; }
  SIMURGH_HOST_DEVICE static float Gradient(float x, float slope, float dy) {
    return x > 0.0F ? dy : slope * dy;
  }
  // The term of the slope's gradient.
  SIMURGH_HOST_DEVICE static float SlopeGradient(float x, float dy) {
    return x > 0.0F ? 0.0F : x * dy;
  }
};

// p x + (1 - p) slope x with p = sigmoid(z); z: x, normalised as by batch norm without an affine
// part. Source: Zhou et al., "Deep Interest Network", KDD 2018, equation 3.
struct DiceFormula {
  SIMURGH_HOST_DEVICE static float Value(float x, float z, float slope) {
    return x * Rate(z, slope);
  }
  // The gradient of x without its part by z.
  SIMURGH_HOST_DEVICE static float Gradient(float z, float slope, float dy) {
    return dy * Rate(z, slope);
  }
  SIMURGH_HOST_DEVICE static float NormalisedGradient(float x, float z, float slope, float dy) {
    const float p = SigmoidFormula::Value(z);
    return dy * (x * (1.0F - slope) * (p * (1.0F - p)));
  }
  // The term of the slope's gradient.
  SIMURGH_HOST_DEVICE static float SlopeGradient(float x, float z, float dy) {
    return dy * (x * (1.0F - SigmoidFormula::Value(z)));
  }

 private:
  SIMURGH_HOST_DEVICE static float Rate(float z, float slope) {
    const float p = SigmoidFormula::Value(z);
    return p + (1.0F - p) * slope;
  }
};

// The logit of the product of some probabilities, given their logits.
// Source: Ma et al., "Entire Space Multi-Task Model", SIGIR 2018, equation 1.
struct JointFormula {
  // The logarithm of sigmoid(z), which is a term of `sum`.
  SIMURGH_HOST_DEVICE static double Term(double z) {
    return (z < 0 ? z : 0.0) - std::log1p(std::exp(-std::abs(z)));
  }
  SIMURGH_HOST_DEVICE static double Value(double sum) { return sum - std::log(Other(sum)); }
  SIMURGH_HOST_DEVICE static double Gradient(double sum, double z, double dy) {
    const double decay = std::exp(-std::abs(z));
    return dy / Other(sum) * ((z < 0 ? 1.0 : decay) / (1.0 + decay));
  }

 private:
  // 1 less the product. Its floor bounds the result if all probabilities are 1.
  SIMURGH_HOST_DEVICE static double Other(double sum) {
    constexpr double kLeast = 1e-300;
    const double other = -std::expm1(sum);
    return other < kLeast ? kLeast : other;
  }
};

SIMURGH_HOST_DEVICE inline float InverseDeviation(float variance, float epsilon) {
  return static_cast<float>(
      1.0 / std::sqrt(static_cast<double>(variance) + static_cast<double>(epsilon)));
}

// A row divided by max(its Euclidean norm, 1e-12), as torch.nn.functional.normalize divides it.
// squares: the sum of the row's squares, in f64, so that no f32 row overflows.
struct L2NormFormula {
  static constexpr double kLeastNorm = 1e-12;

  // The factor of the row.
  SIMURGH_HOST_DEVICE static double Inverse(double squares) {
    const double norm = std::sqrt(squares);
    return 1.0 / (norm < kLeastNorm ? kLeastNorm : norm);  // NaN stays NaN.
  }
  // The factor of the gradient. A shorter row has no direction to change: its gradient is 0, where
  // PyTorch returns 1e12 times that of the output.
  SIMURGH_HOST_DEVICE static double GradientFactor(double squares) {
    return std::sqrt(squares) < kLeastNorm ? 0.0 : Inverse(squares);
  }
  // The gradient of x. factor: GradientFactor. slope: the sum of dy times the output.
  SIMURGH_HOST_DEVICE static float Gradient(double x, double dy, double factor, double slope) {
    return static_cast<float>(factor * (dy - x * factor * slope));
  }
};

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
  if (kind == LossConfig::Kind::kSquaredError || kind == LossConfig::Kind::kInBatchSoftmax) {
    return z;
  }
  if (kind == LossConfig::Kind::kPoisson) return std::exp(z);
  return Probability(z, std::exp(-std::abs(z)));
}

// The loss of a task. A sample alone has none of in_batch_softmax: NaN.
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
    if (kind == LossConfig::Kind::kInBatchSoftmax) return {NAN, NAN};
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
