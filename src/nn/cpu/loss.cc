#include "nn/cpu/loss.h"

#include <cstddef>

#include "nn/formulas.h"

namespace simurgh::cpu {

double Loss(std::span<const TaskConfig> tasks, std::span<const float> outputs,
            std::span<const float> labels, std::span<float> predictions, uint64_t gradient_divisor,
            std::span<float> gradient) {
  const auto divisor = static_cast<double>(gradient_divisor);
  const size_t samples = outputs.size() / tasks.size();
  const std::span<const float> weights = labels.subspan(outputs.size());
  double sum = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const LossFormula formula = FormulaOf(tasks[i % tasks.size()]);
    const double z = outputs[i];
    const double prediction = PredictionOf(formula.kind, z);
    const double weight = weights.empty() ? 1.0 : double{weights[i / tasks.size()]};
    const LossPoint point = formula(z, labels[i], prediction, weight);
    sum += point.loss;
    predictions[i] = static_cast<float>(prediction);
    gradient[i] = static_cast<float>(point.slope / divisor);
  }
  return sum / static_cast<double>(samples);
}

}  // namespace simurgh::cpu
