#include "nn/cpu/predict_pass.h"

#include <algorithm>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"

#include "nn/cpu/activation.h"
#include "nn/cpu/batch_norm.h"
#include "nn/cpu/compute_threads.h"
#include "nn/cpu/interaction.h"
#include "nn/cpu/linear.h"
#include "nn/cpu/loss.h"
#include "nn/cpu/matmul.h"
#include "simurgh/base/check.h"
#include "simurgh/nn/dense_model.h"

namespace simurgh::cpu {

size_t InteractionScratchSize(const ModelPlan& plan) {
  size_t size = 0;
  for (const TowerPlan& tower : plan.towers) {
    for (const LayerPlan& layer : tower.layers) {
      if (layer.config.kind != LayerConfig::Kind::kDot) continue;
      const size_t dim = layer.config.width;
      size = std::max(size, DotScratchSize(layer.input_width / dim, dim));
    }
  }
  return size;
}

void CopyRows(MatrixView<const float> from, MatrixView<float> to) {
  ForEachPart(from.rows(), MinRows(from.columns()), [=](size_t first, size_t end) {
    for (size_t row = first; row < end; ++row)
      std::ranges::copy(from.row(row), to.row(row).begin());
  });
}

void GatherInput(const PredictPass& pass, const NetworkInputs& inputs, const TowerPlan& tower) {
  for (const TowerInput& input : tower.inputs) {
    const MatrixView<float> block =
        pass.activations.Input(tower).Columns(input.column, input.width);
    switch (input.source) {
      case TowerInput::Source::kDense:
        CopyRows(inputs.dense, block);
        break;
      case TowerInput::Source::kEmbeddings:
        CopyRows(inputs.embeddings.Columns(input.source_column, input.width), block);
        break;
      case TowerInput::Source::kTower:
        CopyRows(pass.activations.Output(pass.plan.towers[input.tower].last()), block);
        break;
    }
  }
}

Status PredictLayer(const PredictPass& pass, const TowerPlan& tower, const LayerPlan& layer,
                    MatrixView<const float> input) {
  const std::span<const float> weights = pass.weights;
  Workspace& activations = pass.activations;
  const MatrixView<float> output = activations.Output(layer);
  switch (layer.config.kind) {
    case LayerConfig::Kind::kLinear:
      return LinearForward(input, layer.Weight(weights), layer.Bias(weights), output);
    case LayerConfig::Kind::kBatchNorm:
      BatchNormPredict(input, {layer.Scale(weights), layer.Shift(weights)}, layer.config.epsilon,
                       layer.Mean(pass.statistics), layer.Variance(pass.statistics), output);
      break;
    case LayerConfig::Kind::kRelu:
      ActivationForward<ReluFormula>(input.flat(), output.flat());
      break;
    case LayerConfig::Kind::kGelu:
      ActivationForward<GeluFormula>(input.flat(), output.flat());
      break;
    case LayerConfig::Kind::kSigmoid:
      ActivationForward<SigmoidFormula>(input.flat(), output.flat());
      break;
    case LayerConfig::Kind::kDot:
      DotForward(input, layer.config.width, pass.scratch, output);
      break;
    case LayerConfig::Kind::kCross:
      return CrossForward(activations.Input(tower), input, CrossPartsOf(layer, weights),
                          {activations.InnerProduct(layer), activations.OuterProduct(layer)},
                          output);
    case LayerConfig::Kind::kFm:
      FmForward(input, layer.config.width, output);
      break;
    case LayerConfig::Kind::kSum:
      SumForward(input, output);
      break;
  }
  return absl::OkStatus();
}

Status PredictBatch(const PredictPass& pass, const NetworkInputs& inputs,
                    std::span<float> probabilities) {
  for (const TowerPlan& tower : pass.plan.towers) {
    GatherInput(pass, inputs, tower);
    MatrixView<const float> input = pass.activations.Input(tower);
    for (const LayerPlan& layer : tower.layers) {
      SIMURGH_RETURN_IF_ERROR(PredictLayer(pass, tower, layer, input));
      input = pass.activations.Output(layer);
    }
  }
  Probabilities(pass.activations.Output(pass.plan.top().last()).flat(), probabilities);
  return absl::OkStatus();
}

}  // namespace simurgh::cpu

namespace simurgh {

DenseModel::DenseModel(std::unique_ptr<const ModelPlan> plan, size_t tasks, bool is_bf16)
    : plan_(std::move(plan)),
      tasks_(tasks),
      is_bf16_(is_bf16),
      parameters_(plan_->parameter_count),
      statistics_(plan_->statistics_count) {}
DenseModel::~DenseModel() = default;

StatusOr<std::shared_ptr<DenseModel>> DenseModel::Create(const ModelConfig& model,
                                                         const ModelInputs& inputs,
                                                         ComputePrecision precision) {
  SIMURGH_ASSIGN_OR_RETURN(ModelPlan plan, PlanModel(model, inputs));
  try {
    return std::shared_ptr<DenseModel>(
        new DenseModel(std::make_unique<ModelPlan>(std::move(plan)), TasksOf(model).size(),
                       precision == ComputePrecision::kBf16 && cpu::HasBf16Products()));
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("dense network: no memory for the weights");
  }
}

struct DensePredictor::State {
  explicit State(const ModelPlan& plan)
      : activations(plan.activation_width), scratch(cpu::InteractionScratchSize(plan)) {}

  cpu::Workspace activations;
  std::vector<float> scratch;
};

DensePredictor::DensePredictor(const DenseModel& model)
    : state_(std::make_unique<State>(*model.plan_)) {}
DensePredictor::~DensePredictor() = default;
DensePredictor::DensePredictor(DensePredictor&&) noexcept = default;

Status DensePredictor::Predict(const DenseModel& model, MatrixView<const float> embeddings,
                               MatrixView<const float> dense, std::span<float> probabilities) {
  const size_t rows = probabilities.size() / model.tasks_;
  SIMURGH_CHECK_EQ(probabilities.size(), rows * model.tasks_);
  SIMURGH_CHECK_EQ(embeddings.columns(), model.plan_->embedding_width);
  SIMURGH_CHECK_EQ(dense.columns(), model.plan_->dense_width);
  if (rows == 0) return absl::OkStatus();
  cpu::SetComputeThreads(1);
  cpu::SetProductPrecision(model.is_bf16_ ? cpu::ProductPrecision::kBf16
                                          : cpu::ProductPrecision::kF32);
  try {
    state_->activations.Prepare(rows);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        absl::StrCat("dense network: no memory for a batch of ", rows, " rows"));
  }
  return cpu::PredictBatch({.plan = *model.plan_,
                            .weights = model.parameters_,
                            .statistics = model.statistics_,
                            .activations = state_->activations,
                            .scratch = state_->scratch},
                           {dense, embeddings}, probabilities);
}

}  // namespace simurgh
