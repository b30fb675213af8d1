#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "simurgh/base/status.h"
#include "simurgh/config/model_config.h"
#include "simurgh/tensor/matrix_view.h"

namespace simurgh {

// A layer and its place in the flat buffers. Offsets are in elements.
struct LayerPlan {
  LayerConfig config;
  size_t input_width = 0;
  size_t output_width = 0;
  size_t parameter_offset =
      0;  // linear: weight (I, O), bias (O). batch_norm: scale (O), shift (O).
  size_t parameter_count = 0;
  size_t statistics_offset = 0;  // batch_norm: mean (O), variance (O).
  size_t activation_column = 0;  // Of the output.

  // The parts of a buffer that is laid out as the parameters are.
  template <typename T>
  MatrixView<T> Weight(std::span<T> parameters) const {
    return {parameters.data() + parameter_offset, input_width, output_width};
  }
  template <typename T>
  std::span<T> Bias(std::span<T> parameters) const {
    return parameters.subspan(parameter_offset + input_width * output_width, output_width);
  }
  template <typename T>
  std::span<T> Scale(std::span<T> parameters) const {
    return parameters.subspan(parameter_offset, output_width);
  }
  template <typename T>
  std::span<T> Shift(std::span<T> parameters) const {
    return parameters.subspan(parameter_offset + output_width, output_width);
  }

  // The parts of a buffer that is laid out as the statistics are.
  template <typename T>
  std::span<T> Mean(std::span<T> statistics) const {
    return statistics.subspan(statistics_offset, output_width);
  }
  template <typename T>
  std::span<T> Variance(std::span<T> statistics) const {
    return statistics.subspan(statistics_offset + output_width, output_width);
  }
};

// What a block of a tower's input columns is copied from.
struct TowerInput {
  enum class Source { kDense, kEmbeddings, kTower };

  Source source = Source::kDense;
  size_t tower = 0;   // kTower: its index.
  size_t column = 0;  // Where the block begins in the input.
  size_t width = 0;
  // No later tower reads the same source: in the backward order its gradient begins here, and the
  // gradients of other readers are added to it.
  bool last_reader = true;
};

struct TowerPlan {
  std::string name;
  std::vector<TowerInput> inputs;
  size_t input_width = 0;
  size_t activation_column = 0;       // Of the input.
  bool needs_input_gradient = false;  // An input is something other than `dense`.
  std::vector<LayerPlan> layers;      // At least one.

  const LayerPlan& last() const { return layers.back(); }
  size_t output_width() const { return last().output_width; }
};

// What every backend needs to know of a model: who reads what, and where things lie in the flat
// buffers of parameters, batch norm statistics and activations. Order everywhere: tower by tower,
// layer by layer.
struct ModelPlan {
  size_t dense_width = 0;
  size_t embedding_width = 0;
  std::vector<TowerPlan> towers;  // Every tower after those it reads.
  bool reads_embeddings = false;
  size_t parameter_count = 0;
  size_t statistics_count = 0;
  size_t activation_width = 0;  // Columns of all tower inputs and layer outputs.

  const TowerPlan& top() const { return towers.back(); }
};

// Errors: as ValidateModel.
StatusOr<ModelPlan> PlanModel(const ModelConfig& model, size_t dense_width, size_t embedding_width);

}  // namespace simurgh
