#include "bench/micro/nn/networks.h"

#include <algorithm>

#include "base/check.h"

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
  Subject light{.name = "light"};
  light.inputs = {.dense_width = 13, .embedding_width = size_t{26} * 16};
  light.model.towers = {{"top", {"dense", "embeddings"}, Chain({256, 128, 64, 1}, false)}};
  Subject paper{.name = "paper"};
  paper.inputs = light.inputs;
  paper.model.towers = {
      {"top", {"dense", "embeddings"}, Chain({4096, 2048, 1024, 512, 256, 1}, false)}};
  Subject dlrm{.name = "dlrm"};
  dlrm.inputs = {.dense_width = 13, .embedding_width = size_t{26} * 128};
  dlrm.model.towers = {{"bottom", {"dense"}, Chain({512, 256, 128}, true)},
                       {"pairs", {"bottom", "embeddings"}, {{.kind = Kind::kDot, .width = 128}}},
                       {"top", {"bottom", "pairs"}, Chain({1024, 1024, 512, 256, 1}, false)}};
  Subject dcn{.name = "dcn"};
  dcn.inputs = paper.inputs;
  const LayerConfig cross{.kind = Kind::kCross};
  const LayerConfig batch_norm{.kind = Kind::kBatchNorm};
  const LayerConfig relu{.kind = Kind::kRelu};
  dcn.model.towers = {{"cross", {"dense", "embeddings"}, {cross, cross, cross}},
                      {"deep",
                       {"dense", "embeddings"},
                       {{.kind = Kind::kLinear, .width = 1024},
                        batch_norm,
                        relu,
                        {.kind = Kind::kLinear, .width = 512},
                        batch_norm,
                        relu}},
                      {"top", {"cross", "deep"}, Chain({1}, false)}};
  return {light, paper, dlrm, dcn};
}

}  // namespace

const std::vector<Subject>& Subjects() {
  static const std::vector<Subject> subjects = MakeSubjects();
  return subjects;
}

const Subject& SubjectOf(const std::string& name) {
  const auto found = std::ranges::find(Subjects(), name, &Subject::name);
  SIMURGH_CHECK(found != Subjects().end());
  return *found;
}

ModelPlan PlanOf(const Subject& subject) {
  StatusOr<ModelPlan> plan = PlanModel(subject.model, subject.inputs);
  SIMURGH_CHECK(plan.ok());
  return *std::move(plan);
}

double FlopPerSample(const Subject& subject) {
  double flop = 0;
  for (const TowerPlan& tower : PlanOf(subject).towers) {
    for (size_t i = 0; i < tower.layers.size(); ++i) {
      const LayerPlan& layer = tower.layers[i];
      const auto inputs = static_cast<double>(layer.input_width);
      const auto outputs = static_cast<double>(layer.output_width);
      if (layer.config.kind == Kind::kLinear) {
        const bool needs_input_gradient = i > 0 || tower.needs_input_gradient;
        flop += (needs_input_gradient ? 6 : 4) * inputs * outputs;
      } else if (layer.config.kind == Kind::kCross) {
        flop += 6 * inputs * outputs;
      } else if (layer.config.kind == Kind::kDot) {
        flop += 6 * outputs * layer.config.width;
      }
    }
  }
  return flop;
}

}  // namespace simurgh::bench
