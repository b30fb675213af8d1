#pragma once

#include <span>

#include "nn/cpu/cross.h"
#include "nn/cpu/packed_layers.h"
#include "nn/cpu/workspace.h"
#include "nn/model_plan.h"
#include "simurgh/base/status.h"
#include "simurgh/data/vector_codec.h"
#include "simurgh/tensor/matrix_view.h"

// The forward pass, as far as training and prediction share it.
namespace simurgh::cpu {

struct NetworkInputs {
  MatrixView<const float> dense;       // (B, plan.dense_width)
  MatrixView<const float> embeddings;  // (B, plan.embedding_width)
  const VectorCodec* codec = nullptr;  // Of `encoded`, which takes the place of `embeddings`.
  std::span<const std::byte> encoded = {};
};

// Lifetime: of what it refers to.
struct PredictPass {
  const ModelPlan& plan;
  std::span<const TaskConfig> tasks;
  std::span<const float> weights;        // In the layout of the parameters.
  std::span<const float> statistics;     // Running means and variances.
  Workspace& activations;                // Prepared for the batch.
  std::span<float> scratch;              // InteractionScratchSize() floats.
  const PackedLayers* packed = nullptr;  // The weights as packed layers; null: there are none.
  PackedProducts* products = nullptr;    // Null: sums are in the order of training.
};

// values: in the layout of the parameters.
template <typename T>
CrossParts<T> CrossPartsOf(const LayerPlan& layer, std::span<T> values) {
  CrossParts<T> cross{.bias = layer.Bias(values)};
  if (layer.config.rank == 0) {
    cross.full = layer.Weight(values);
  } else {
    cross.down = layer.Down(values);
    cross.up = layer.Up(values);
  }
  return cross;
}

size_t InteractionScratchSize(const ModelPlan& plan);

void CopyRows(MatrixView<const float> from, MatrixView<float> to);

// Copies the tower's inputs into its input matrix.
void GatherInput(const PredictPass& pass, const NetworkInputs& inputs, const TowerPlan& tower);

// Computes the layer's output. Batch norm uses the running statistics.
Status PredictLayer(const PredictPass& pass, const TowerPlan& tower, const LayerPlan& layer,
                    MatrixView<const float> input);

// All layers. Overwrites probabilities, (B, tasks).
Status PredictBatch(const PredictPass& pass, const NetworkInputs& inputs,
                    std::span<float> probabilities);

}  // namespace simurgh::cpu
