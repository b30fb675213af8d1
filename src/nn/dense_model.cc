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

size_t DenseModel::vector_width() const {
  const TowerPlan& top = plan_->top();
  const bool is_dot_of_two = top.layers.size() == 1 &&
                             top.last().config.kind == LayerConfig::Kind::kDot &&
                             top.inputs.size() == 2 && top.inputs[0].width == top.inputs[1].width &&
                             top.inputs[0].width == top.last().config.width;
  return is_dot_of_two ? top.inputs[0].width : 0;
}

struct DensePredictor::State {
  explicit State(const ModelPlan& plan)
      : activations(plan.activation_width), scratch(cpu::InteractionScratchSize(plan)) {}

  cpu::PredictPass PassOf(const DenseModel& model) {
    return {.plan = *model.plan_,
            .weights = model.parameters_,
            .statistics = model.statistics_,
            .activations = activations,
            .scratch = scratch,
            .packed = model.packed_.get(),
            .products = &products};
  }

  cpu::Workspace activations;
  std::vector<float> scratch;
  cpu::PackedProducts products;
};

DensePredictor::DensePredictor(const DenseModel& model)
    : state_(std::make_unique<State>(*model.plan_)) {}
DensePredictor::~DensePredictor() = default;
DensePredictor::DensePredictor(DensePredictor&&) noexcept = default;

Status DensePredictor::Prepare(const DenseModel& model, size_t rows) {
  cpu::SetComputeThreads(1);
  cpu::SetProductPrecision(model.is_bf16_ ? cpu::ProductPrecision::kBf16
                                          : cpu::ProductPrecision::kF32);
  try {
    state_->activations.Prepare(rows);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        absl::StrCat("dense network: no memory for a batch of ", rows, " rows"));
  }
  return absl::OkStatus();
}

Status DensePredictor::Predict(const DenseModel& model, MatrixView<const float> embeddings,
                               MatrixView<const float> dense, std::span<float> outputs) {
  const size_t tasks = model.plan_->top().output_width();
  const size_t rows = outputs.size() / tasks;
  SIMURGH_CHECK_EQ(outputs.size(), rows * tasks);
  SIMURGH_CHECK_EQ(embeddings.columns(), model.plan_->embedding_width);
  SIMURGH_CHECK_EQ(dense.columns(), model.plan_->dense_width);
  if (rows == 0) return absl::OkStatus();
  SIMURGH_RETURN_IF_ERROR(Prepare(model, rows));
  return cpu::PredictBatch(state_->PassOf(model), {dense, embeddings}, outputs);
}

Status DensePredictor::Vectors(const DenseModel& model, TowerSide side,
                               MatrixView<const float> embeddings, MatrixView<const float> dense,
                               MatrixView<float> vectors) {
  SIMURGH_CHECK_EQ(vectors.columns(), model.vector_width());
  SIMURGH_CHECK_EQ(embeddings.columns(), model.plan_->embedding_width);
  SIMURGH_CHECK_EQ(dense.columns(), model.plan_->dense_width);
  if (vectors.rows() == 0) return absl::OkStatus();
  SIMURGH_RETURN_IF_ERROR(Prepare(model, vectors.rows()));
  SIMURGH_RETURN_IF_ERROR(cpu::PredictVectors(state_->PassOf(model), {dense, embeddings},
                                              side == TowerSide::kUser ? 0 : 1, vectors));
  const float factor = model.plan_->output_factor;
  if (side == TowerSide::kItem || factor == 1.0F) return absl::OkStatus();
  for (size_t row = 0; row < vectors.rows(); ++row) {
    for (float& value : vectors.row(row)) value *= factor;
  }
  return absl::OkStatus();
}

}  // namespace simurgh
