#include "nn/dense_model.h"

#include <new>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "nn/cpu/compute_threads.h"
#include "nn/cpu/matmul.h"
#include "nn/cpu/packed_layers.h"
#include "nn/cpu/predict_pass.h"
#include "nn/model_plan.h"

namespace simurgh {

DenseModel::DenseModel(std::unique_ptr<const ModelPlan> plan, bool is_bf16)
    : plan_(std::move(plan)),
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
        new DenseModel(std::make_unique<ModelPlan>(std::move(plan)),
                       precision == ComputePrecision::kBf16 && cpu::HasBf16Products()));
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("dense network: no memory for the weights");
  }
}

Status DenseModel::Pack() {
  if (is_bf16_) return absl::OkStatus();
  SIMURGH_ASSIGN_OR_RETURN(packed_, cpu::PackedLayers::Create(*plan_, parameters_));
  return absl::OkStatus();
}

uint64_t DenseModel::bytes() const {
  return (parameters_.size() + statistics_.size()) * sizeof(float) +
         (packed_ == nullptr ? 0 : packed_->bytes());
}

struct DensePredictor::State {
  explicit State(const ModelPlan& plan)
      : activations(plan.activation_width), scratch(cpu::InteractionScratchSize(plan)) {}

  cpu::Workspace activations;
  std::vector<float> scratch;
  cpu::PackedProducts products;
};

DensePredictor::DensePredictor(const DenseModel& model)
    : state_(std::make_unique<State>(*model.plan_)) {}
DensePredictor::~DensePredictor() = default;
DensePredictor::DensePredictor(DensePredictor&&) noexcept = default;

Status DensePredictor::Predict(const DenseModel& model, MatrixView<const float> embeddings,
                               MatrixView<const float> dense, std::span<float> outputs) {
  const size_t tasks = model.plan_->top().output_width();
  const size_t rows = outputs.size() / tasks;
  SIMURGH_CHECK_EQ(outputs.size(), rows * tasks);
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
                            .scratch = state_->scratch,
                            .packed = model.packed_.get(),
                            .products = &state_->products},
                           {dense, embeddings}, outputs);
}

MatrixView<const float> DensePredictor::LastTowerInput(const DenseModel& model) const {
  return state_->activations.Input(model.plan_->top());
}

}  // namespace simurgh
