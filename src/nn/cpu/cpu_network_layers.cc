// Passes of single layers that only training has.

#include "nn/cpu/activation.h"
#include "nn/cpu/batch_norm.h"
#include "nn/cpu/cpu_network.h"
#include "nn/cpu/cross.h"
#include "nn/cpu/interaction.h"
#include "nn/cpu/linear.h"

namespace simurgh::cpu {
Status CpuNetwork::BatchNormLayerForward(const LayerPlan& layer, MatrixView<const float> input,
                                         const RankStep& rank_step) {
  const std::span<const float> weights = parameters();
  const BatchNormAffine affine{layer.Scale(weights), layer.Shift(weights)};
  const std::span<float> mean = layer.Mean(batch_statistics());
  const std::span<float> variance = layer.Variance(batch_statistics());
  const float epsilon = layer.config.epsilon;
  const MatrixView<float> output =
      input.rows() == 0 ? MatrixView<float>() : activations_.Output(layer);
  if (rank_step.sum) {
    return SyncBatchNormForward(input, affine, epsilon, {rank_step.global_samples, rank_step.sum},
                                mean, variance, output);
  }
  if (input.rows() > 0) BatchNormForward(input, affine, epsilon, mean, variance, output);
  return absl::OkStatus();
}

Status CpuNetwork::LayerBackward(const TowerPlan& tower, const LayerPlan& layer,
                                 MatrixView<const float> input, MatrixView<float> input_gradient,
                                 bool needs_input_gradient, const RankStep& rank_step) {
  const std::span<const float> weights = parameters();
  const MatrixView<const float> output_gradient = activation_gradients_.Output(layer);
  switch (layer.config.kind) {
    case LayerConfig::Kind::kLinear:
      SIMURGH_RETURN_IF_ERROR(LinearBackwardWeight(
          input, output_gradient, layer.Weight(gradients()), layer.Bias(gradients())));
      ReportGradients(layer, rank_step);
      if (!needs_input_gradient) break;
      return LinearBackwardInput(output_gradient, layer.Weight(weights), input_gradient);
    case LayerConfig::Kind::kBatchNorm: {
      const BatchNormStatistics statistics{layer.Mean<const float>(batch_statistics()),
                                           layer.Variance<const float>(batch_statistics())};
      const BatchNormGroup group{rank_step.global_samples, rank_step.sum};
      SIMURGH_RETURN_IF_ERROR(
          BatchNormBackward(input, output_gradient, layer.Scale(weights), layer.config.epsilon,
                            statistics, rank_step.sum ? &group : nullptr, layer.Scale(gradients()),
                            layer.Shift(gradients()), input_gradient));
      ReportGradients(layer, rank_step);
      break;
    }
    case LayerConfig::Kind::kRelu:
      ActivationBackward<ReluFormula>(activations_.Output(layer).flat(), output_gradient.flat(),
                                      input_gradient.flat());
      break;
    case LayerConfig::Kind::kGelu:
      ActivationBackward<GeluFormula>(input.flat(), output_gradient.flat(), input_gradient.flat());
      break;
    case LayerConfig::Kind::kSigmoid:
      ActivationBackward<SigmoidFormula>(activations_.Output(layer).flat(), output_gradient.flat(),
                                         input_gradient.flat());
      break;
    case LayerConfig::Kind::kDot:
      DotBackward(input, layer.config.width, output_gradient, interaction_scratch(),
                  input_gradient);
      break;
    case LayerConfig::Kind::kCross: {
      const CrossWeights cross = CrossPartsOf(layer, weights);
      const CrossProducts product_gradients{activation_gradients_.InnerProduct(layer),
                                            activation_gradients_.OuterProduct(layer)};
      // The backward pass starts at the last layer.
      const bool add_to_origin = &layer != &tower.layers[*tower.last_cross];
      SIMURGH_RETURN_IF_ERROR(
          CrossBackwardWeights(activations_.Input(tower), input, cross,
                               {activations_.InnerProduct(layer), activations_.OuterProduct(layer)},
                               output_gradient, product_gradients, CrossPartsOf(layer, gradients()),
                               add_to_origin, activation_gradients_.Origin(tower)));
      ReportGradients(layer, rank_step);
      if (!needs_input_gradient) break;
      return CrossBackwardInput(cross, output_gradient, product_gradients, input_gradient);
    }
    case LayerConfig::Kind::kFm:
      FmBackward(input, layer.config.width, output_gradient, input_gradient);
      break;
    case LayerConfig::Kind::kSum:
      SumBackward(output_gradient, input_gradient);
      break;
  }
  return absl::OkStatus();
}

}  // namespace simurgh::cpu
