#include "bench/micro/nn/layers.h"

#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "bench/micro/nn/random_matrix.h"
#include "nn/cpu/activation.h"
#include "nn/cpu/batch_norm.h"
#include "nn/cpu/cross.h"
#include "nn/cpu/interaction.h"
#include "nn/model_plan.h"

namespace simurgh::bench {
namespace {

using Kind = LayerConfig::Kind;

// A layer's inputs and outputs.
struct Values {
  Values(const LayerPlan& layer, size_t samples)
      : input(samples, layer.input_width),
        output(samples, layer.output_width),
        output_gradient(samples, layer.output_width),
        input_gradient(samples, layer.input_width) {}

  RandomMatrix input;
  RandomMatrix output;
  RandomMatrix output_gradient;
  RandomMatrix input_gradient;
};

void AddDot(const LayerPlan& layer, size_t samples, std::vector<LayerWork>& works) {
  const size_t dim = layer.config.width;
  const size_t vectors = layer.input_width / dim;
  const auto values = std::make_shared<Values>(layer, samples);
  const auto scratch = std::make_shared<RandomMatrix>(1, cpu::DotScratchSize(vectors, dim));
  const double flop = 2.0 * static_cast<double>(samples * layer.output_width * dim);
  works.push_back({absl::StrCat("dot of ", vectors, " forward"), flop, [values, scratch, dim] {
                     cpu::DotForward(values->input.view(), dim, scratch->view().flat(),
                                     values->output.view());
                   }});
  works.push_back({absl::StrCat("dot of ", vectors, " back"), 2 * flop, [values, scratch, dim] {
                     cpu::DotBackward(values->input.view(), dim, values->output_gradient.view(),
                                      scratch->view().flat(), values->input_gradient.view());
                   }});
}

// The cross layer of full rank.
void AddCross(const LayerPlan& layer, size_t samples, std::vector<LayerWork>& works) {
  struct Cross : Values {
    Cross(const LayerPlan& plan, size_t rows)
        : Values(plan, rows),
          origin(rows, plan.input_width),
          origin_gradient(rows, plan.input_width),
          outer(rows, plan.input_width),
          outer_gradient(rows, plan.input_width),
          weight(plan.input_width, plan.input_width),
          weight_gradient(plan.input_width, plan.input_width),
          bias(1, plan.input_width),
          bias_gradient(1, plan.input_width) {}

    cpu::CrossWeights weights() {
      return {.full = weight.view(), .down = {}, .up = {}, .bias = bias.view().flat()};
    }

    RandomMatrix origin, origin_gradient, outer, outer_gradient;
    RandomMatrix weight, weight_gradient, bias, bias_gradient;
  };
  const auto cross = std::make_shared<Cross>(layer, samples);
  const size_t width = layer.input_width;
  const double flop = 2.0 * static_cast<double>(samples * width * width);
  works.push_back({absl::StrCat("cross ", width, " forward"), flop, [cross] {
                     const Status status = cpu::CrossForward(
                         cross->origin.view(), cross->input.view(), cross->weights(),
                         {{}, cross->outer.view()}, cross->output.view());
                     SIMURGH_CHECK(status.ok()) << status.ToString();
                   }});
  works.push_back(
      {absl::StrCat("cross ", width, " back"), 2 * flop, [cross] {
         const cpu::CrossWeights weights = cross->weights();
         const cpu::CrossProducts gradients{{}, cross->outer_gradient.view()};
         const cpu::CrossProducts products{{}, cross->outer.view()};
         Status status = cpu::CrossBackwardProducts(
             cross->origin.view(), weights, products, cross->output_gradient.view(), gradients,
             /*add_to_origin=*/false, cross->origin_gradient.view());
         status.Update(cpu::CrossBackwardInput(weights, cross->output_gradient.view(), gradients,
                                               cross->input_gradient.view()));
         status.Update(cpu::CrossBackwardWeights(
             cross->input.view(), products, gradients,
             {cross->weight_gradient.view(), {}, {}, cross->bias_gradient.view().flat()}));
         SIMURGH_CHECK(status.ok()) << status.ToString();
       }});
}

void AddBatchNorm(const LayerPlan& layer, size_t samples, std::vector<LayerWork>& works) {
  struct Norm : Values {
    Norm(const LayerPlan& plan, size_t rows) : Values(plan, rows), columns(6, plan.input_width) {}

    RandomMatrix columns;  // scale, shift, mean, variance, gradients of scale and shift.
  };
  const auto norm = std::make_shared<Norm>(layer, samples);
  const auto row = [norm](size_t i) { return norm->columns.view().row(i); };
  const float epsilon = layer.config.epsilon;
  const size_t width = layer.input_width;
  const auto forward = [norm, row, epsilon] {
    cpu::BatchNormForward(norm->input.view(), {row(0), row(1)}, epsilon, row(2), row(3),
                          norm->output.view());
  };
  forward();  // Backward uses its statistics.
  works.push_back({absl::StrCat("batch norm ", width, " forward"), 0, forward});
  works.push_back({absl::StrCat("batch norm ", width, " back"), 0, [norm, row, epsilon] {
                     const Status status = cpu::BatchNormBackward(
                         norm->input.view(), norm->output_gradient.view(), row(0), epsilon,
                         {row(2), row(3)}, nullptr, row(4), row(5), norm->input_gradient.view());
                     SIMURGH_CHECK(status.ok()) << status.ToString();
                   }});
}

}  // namespace

std::vector<LayerWork> LayersOf(const Subject& subject, size_t samples) {
  std::vector<LayerWork> works;
  std::set<std::pair<Kind, size_t>> shapes;
  for (const TowerPlan& tower : PlanOf(subject).towers) {
    for (const LayerPlan& layer : tower.layers) {
      if (!shapes.insert({layer.config.kind, layer.input_width}).second) continue;
      if (layer.config.kind == Kind::kDot) AddDot(layer, samples, works);
      if (layer.config.kind == Kind::kCross) AddCross(layer, samples, works);
      if (layer.config.kind == Kind::kBatchNorm) AddBatchNorm(layer, samples, works);
    }
  }
  return works;
}

std::function<void()> Activations(const Subject& subject, size_t samples) {
  struct Layer {
    RandomMatrix values, gradients;
  };
  const auto layers = std::make_shared<std::vector<Layer>>();
  for (const TowerPlan& tower : PlanOf(subject).towers) {
    for (const LayerPlan& layer : tower.layers) {
      if (layer.config.kind != Kind::kRelu) continue;
      const size_t width = layer.output_width;
      layers->push_back({RandomMatrix(samples, width), RandomMatrix(samples, width)});
    }
  }
  return [layers] {
    for (Layer& layer : *layers) {
      const std::span<float> values = layer.values.view().flat();
      const std::span<float> gradients = layer.gradients.view().flat();
      cpu::ActivationForward<ReluFormula>(values, values);
      cpu::ActivationBackward<ReluFormula>(values, gradients, gradients);
    }
  };
}

}  // namespace simurgh::bench
