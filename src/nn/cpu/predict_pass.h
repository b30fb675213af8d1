#pragma once

#include <cstddef>
#include <span>

#include "base/aligned_buffer.h"
#include "base/status.h"
#include "embedding/vector_codec.h"
#include "nn/cpu/cross.h"
#include "nn/cpu/packed_layers.h"
#include "nn/model_plan.h"
#include "tensor/matrix_view.h"

namespace simurgh::cpu {

// Activations of one batch, or their gradients: a matrix (B, width) for each tower input and layer
// output of the plan. Every matrix is contiguous and aligned to a cache line.
//
// Threads: one owner.
class Workspace {
 public:
  // width: ModelPlan::activation_width.
  explicit Workspace(size_t width) : width_(width) {}

  // Reserves memory for a batch and sets the number of rows. Contents are lost.
  // Cost: allocates if the batch is larger than all before it.
  void Prepare(size_t rows) {
    rows_ = rows;
    if (rows <= capacity_rows_) return;
    constexpr size_t kLine = kBufferAlignment / sizeof(float);
    const size_t capacity_rows = (rows + kLine - 1) / kLine * kLine;
    capacity_rows_ = 0;
    buffer_ = AlignedBuffer();  // Frees the old memory first.
    buffer_ = AlignedBuffer(capacity_rows * width_ * sizeof(float));
    capacity_rows_ = capacity_rows;
  }

  MatrixView<float> Input(const TowerPlan& tower) {
    return View(tower.activation_column, tower.input_width);
  }
  MatrixView<float> Output(const LayerPlan& layer) {
    return View(layer.activation_column, layer.output_width);
  }
  // Products of a cross layer: outer (B, O), inner (B, rank).
  MatrixView<float> OuterProduct(const LayerPlan& layer) {
    return View(layer.scratch_column, layer.output_width);
  }
  MatrixView<float> InnerProduct(const LayerPlan& layer) {
    return View(layer.scratch_column + layer.output_width, layer.config.rank);
  }
  // Matrix (B, width) of a layer for the backward pass; see LayerPlan::scratch_column.
  MatrixView<float> Scratch(const LayerPlan& layer, size_t width) {
    return View(layer.scratch_column, width);
  }
  // A matrix of some rows of the batch's sequences. rows: at most the batch's times the places.
  MatrixView<float> Rows(size_t column, size_t rows, size_t columns) {
    return {View(column, 0).data(), rows, columns};
  }
  // The cross layers' part of the gradient of the tower's input, in a workspace of gradients.
  MatrixView<float> Origin(const TowerPlan& tower) {
    return View(tower.origin_column, tower.input_width);
  }

 private:
  MatrixView<float> View(size_t column, size_t width) {
    return {reinterpret_cast<float*>(buffer_.data()) + column * capacity_rows_, rows_, width};
  }

  const size_t width_;
  size_t rows_ = 0;
  AlignedBuffer buffer_;  // A matrix starts at its column times the capacity in rows.
  size_t capacity_rows_ = 0;
};

}  // namespace simurgh::cpu

// The forward pass, as far as training and prediction share it.
namespace simurgh::cpu {

struct NetworkInputs {
  MatrixView<const float> dense;       // (B, plan.dense_width)
  MatrixView<const float> embeddings;  // (B, plan.embedding_width)
  const VectorCodec* codec = nullptr;  // Codec of `encoded`, which replaces `embeddings`.
  std::span<const std::byte> encoded = {};
};

// Lifetime: that of the memory that it refers to.
struct PredictPass {
  const ModelPlan& plan;
  std::span<const float> weights;        // Same layout as the parameters.
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

// Copies the tower's inputs into its input matrix.
void GatherInput(const PredictPass& pass, const NetworkInputs& inputs, const TowerPlan& tower);

// Returns whether the layer is linear and a relu follows, which its product computes at once.
bool HasRelu(const TowerPlan& tower, size_t layer);

// Computes the layer's output, or only the relu's if the layer HasRelu(). Batch norm uses the
// running statistics.
Status PredictLayer(const PredictPass& pass, const TowerPlan& tower, size_t layer,
                    MatrixView<const float> input);

// Computes all layers. Overwrites outputs, (B, tasks).
Status PredictBatch(const PredictPass& pass, const NetworkInputs& inputs, std::span<float> outputs);

// Computes input number `side` of the last tower, and only the towers that it needs. vectors:
// (B, width of the input), overwritten.
Status PredictVectors(const PredictPass& pass, const NetworkInputs& inputs, size_t side,
                      MatrixView<float> vectors);

}  // namespace simurgh::cpu
