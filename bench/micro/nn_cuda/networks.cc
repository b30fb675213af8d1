#include "bench/micro/nn_cuda/networks.h"

#include "nn/model_plan.h"
#include "simurgh/base/check.h"

namespace simurgh::bench {
namespace {

using Kind = LayerConfig::Kind;

// Linear layers with relu between them.
std::vector<LayerConfig> Chain(const std::vector<uint32_t>& widths, bool last_relu) {
  std::vector<LayerConfig> layers;
  for (size_t i = 0; i < widths.size(); ++i) {
    layers.push_back({.kind = Kind::kLinear, .width = widths[i]});
    if (last_relu || i + 1 < widths.size()) layers.push_back({.kind = Kind::kRelu});
  }
  return layers;
}

std::vector<Subject> MakeSubjects() {
  Subject paper{.name = "paper"};
  paper.inputs = {.dense_width = 13, .embedding_width = 26 * 16};
  paper.model.towers = {
      {"top", {"dense", "embeddings"}, Chain({4096, 2048, 1024, 512, 256, 1}, false)}};
  Subject dlrm{.name = "dlrm"};
  dlrm.inputs = {.dense_width = 13, .embedding_width = 26 * 128};
  dlrm.model.towers = {{"bottom", {"dense"}, Chain({512, 256, 128}, true)},
                       {"pairs", {"bottom", "embeddings"}, {{.kind = Kind::kDot, .width = 128}}},
                       {"top", {"bottom", "pairs"}, Chain({1024, 1024, 512, 256, 1}, false)}};
  return {paper, dlrm};
}

}  // namespace

const std::vector<Subject>& Subjects() {
  static const std::vector<Subject> subjects = MakeSubjects();
  return subjects;
}

double FlopPerSample(const Subject& subject) {
  const StatusOr<ModelPlan> plan = PlanModel(subject.model, subject.inputs);
  SIMURGH_CHECK(plan.ok());
  double flop = 0;
  for (const TowerPlan& tower : plan->towers) {
    for (size_t i = 0; i < tower.layers.size(); ++i) {
      const LayerPlan& layer = tower.layers[i];
      const auto inputs = static_cast<double>(layer.input_width);
      const auto outputs = static_cast<double>(layer.output_width);
      if (layer.config.kind == Kind::kLinear) {
        const bool needs_input_gradient = i > 0 || tower.needs_input_gradient;
        flop += (needs_input_gradient ? 6 : 4) * inputs * outputs;
      } else if (layer.config.kind == Kind::kDot) {
        flop += 6 * outputs * layer.config.width;
      }
    }
  }
  return flop;
}

}  // namespace simurgh::bench
