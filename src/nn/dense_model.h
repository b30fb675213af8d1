#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "config/model_config.h"
#include "config/service_config.h"
#include "nn/dense_network.h"
#include "nn/model.h"
#include "tensor/matrix_view.h"

namespace simurgh {

struct ModelPlan;
namespace cpu {
class PackedLayers;
}

// The two towers of a model whose last layer is the dot product of a user's and an item's vector.
enum class TowerSide { kUser, kItem };

// The weights with which the dense network predicts, on the CPU. DensePredictors share them.
//
// Threads: one owner while it is filled, then any.
class DenseModel {
 public:
  // precision: precision of products; others than bf16 compute in f32. All values are 0.
  // Errors: INVALID_ARGUMENT for an inconsistent model; RESOURCE_EXHAUSTED.
  static StatusOr<std::shared_ptr<DenseModel>> Create(const ModelConfig& model,
                                                      const ModelInputs& inputs,
                                                      ComputePrecision precision);
  ~DenseModel();

  // Weights, and running means and variances, as in DenseNetwork.
  std::span<float> parameters() { return parameters_; }
  std::span<float> statistics() { return statistics_; }

  // Makes predictions faster, after the last change of the parameters. Errors: RESOURCE_EXHAUSTED.
  Status Pack();

  uint64_t bytes() const;

  // Returns the width of a user's and an item's vector. 0: the last layer is not their product.
  size_t vector_width() const;

 private:
  friend class DensePredictor;
  DenseModel(std::unique_ptr<const ModelPlan> plan, bool is_bf16);

  const std::unique_ptr<const ModelPlan> plan_;
  const bool is_bf16_;
  std::vector<float> parameters_;
  std::vector<float> statistics_;
  std::unique_ptr<const cpu::PackedLayers> packed_;  // Null: not packed.
};

// Computes predictions on the calling thread. DenseNetwork::Predict of the same weights gives the
// same numbers, but for the order of sums in products.
//
// Threads: one owner.
class DensePredictor {
 public:
  // Predicts with models of the same configuration as this one.
  explicit DensePredictor(const DenseModel& model);
  ~DensePredictor();
  DensePredictor(DensePredictor&&) noexcept;

  // embeddings: (B, embedding_width); dense: (B, dense_width); outputs: (B, tasks), the
  // z of LossConfig.
  // Errors: INTERNAL when oneDNN fails; RESOURCE_EXHAUSTED without memory for the batch.
  Status Predict(const DenseModel& model, MatrixView<const float> embeddings,
                 MatrixView<const float> dense, std::span<float> outputs);

  // Computes the vectors of users or of items, (B, vector_width()), and not those of the others,
  // whose inputs may be anything. The dot product of both is the output of Predict(): vectors of
  // users include the factor 1 / temperature.
  // Requires: vector_width() > 0. Errors: those of Predict().
  Status Vectors(const DenseModel& model, TowerSide side, MatrixView<const float> embeddings,
                 MatrixView<const float> dense, MatrixView<float> vectors);

 private:
  Status Prepare(const DenseModel& model, size_t rows);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace simurgh
