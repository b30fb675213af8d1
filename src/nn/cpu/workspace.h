#pragma once

#include <cstddef>

#include "nn/model_plan.h"
#include "simurgh/base/aligned_buffer.h"
#include "simurgh/tensor/matrix_view.h"

namespace simurgh::cpu {

// Activations of one batch and, for training, their gradients: a matrix (B, width) for each tower
// input and layer output of the plan. Every matrix is contiguous and aligned to a cache line.
//
// Threads: one owner.
class Workspace {
 public:
  // width: ModelPlan::activation_width.
  explicit Workspace(size_t width) : width_(width) {}

  // Reserves memory for a batch and sets the number of rows. Contents are lost.
  // Cost: allocates if the batch is larger than all before it.
  void PrepareTraining(size_t rows);
  void PreparePrediction(size_t rows);

  MatrixView<float> Input(const TowerPlan& tower) {
    return View(values_, tower.activation_column, tower.input_width);
  }
  MatrixView<float> Output(const LayerPlan& layer) {
    return View(values_, layer.activation_column, layer.output_width);
  }
  // Products of a cross layer: outer (B, O), inner (B, rank).
  MatrixView<float> OuterProduct(const LayerPlan& layer) {
    return View(values_, layer.scratch_column, layer.output_width);
  }
  MatrixView<float> InnerProduct(const LayerPlan& layer) {
    return View(values_, layer.scratch_column + layer.output_width, layer.config.rank);
  }
  MatrixView<float> OuterProductGradient(const LayerPlan& layer) {
    return View(gradients_, layer.scratch_column, layer.output_width);
  }
  MatrixView<float> InnerProductGradient(const LayerPlan& layer) {
    return View(gradients_, layer.scratch_column + layer.output_width, layer.config.rank);
  }
  // The cross layers' part of the gradient of the tower's input.
  MatrixView<float> OriginGradient(const TowerPlan& tower) {
    return View(gradients_, tower.origin_column, tower.input_width);
  }
  MatrixView<float> InputGradient(const TowerPlan& tower) {
    return View(gradients_, tower.activation_column, tower.input_width);
  }
  MatrixView<float> OutputGradient(const LayerPlan& layer) {
    return View(gradients_, layer.activation_column, layer.output_width);
  }

 private:
  // A matrix starts at its column times the capacity in rows.
  struct Block {
    AlignedBuffer buffer;
    size_t capacity_rows = 0;
  };

  void Reserve(Block& block) const;
  MatrixView<float> View(const Block& block, size_t column, size_t width) const;

  size_t width_;
  size_t rows_ = 0;
  Block values_;
  Block gradients_;
};

}  // namespace simurgh::cpu
