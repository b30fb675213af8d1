#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "config/model_config.h"
#include "nn/model.h"
#include "tensor/matrix_view.h"

namespace simurgh {

// A named part of a layer's parameters.
struct ParameterPlan {
  enum class Initial { kConstant, kUniform };

  std::string name;           // "weight"
  std::vector<size_t> shape;  // Rows and columns of a matrix, or the length of a vector.
  Initial initial = Initial::kConstant;
  float value = 0.0F;  // kConstant
  size_t inputs = 0;   // kUniform: in [-1, 1) / sqrt(inputs).

  size_t count() const { return shape.size() == 1 ? shape[0] : shape[0] * shape[1]; }
};

// A layer and its place in the flat buffers. Offsets are in elements.
struct LayerPlan {
  LayerConfig config;
  size_t input_width = 0;
  size_t output_width = 0;
  // Parts of the parameters, in their order from parameter_offset on.
  std::vector<ParameterPlan> parts = {};
  size_t parameter_offset = 0;
  size_t parameter_count = 0;
  bool has_statistics = false;   // batch_norm, dice: mean (O), variance (O).
  size_t statistics_offset = 0;  // With has_statistics.
  size_t activation_column = 0;  // First column of the output.
  // dropout: its output takes the place of its input, which no backward pass needs.
  bool is_in_place = false;
  uint64_t stream = 0;  // dropout: hash of its place in the model.
  // cross: columns of the product, (O), then of a rank's, (rank).
  // dice: columns of the normalised input, (O). layer_norm: mean and inverse deviation of a row.
  // bilinear: columns of the first half times the weight, (width of a half).
  // attention: columns of the first inner layer's input, (places * width).
  // self_attention: columns of the input, (places * row), of its mixtures, (places * row), and of
  // the weights, (places * heads * places).
  size_t scratch_column = 0;
  // Layers that read sequences: rows of a sample, and columns of a row and of the query.
  size_t places = 0;
  size_t row_width = 0;
  size_t query_width = 0;
  // Layers that compute each row of a sequence. activation_column: first of (places * width)
  // columns. attention: linear layers that give the row's weight, with activations between them. A
  // relu is none of the layers: a linear layer that follows a linear one reads a relu of its
  // output. self_attention: see SelfAttentionLayers.
  std::vector<LayerPlan> inner;

  std::string suffix = {};  // End of the names of an inner layer's tensors.

  // Calls work(layer) for this layer and those inside it, as far as they have statistics.
  template <typename Work>
  void ForStatistics(const Work& work) const {
    for (const LayerPlan& layer : inner) layer.ForStatistics(work);
    if (has_statistics) work(*this);
  }

  // Parts of a buffer with the layout of the parameters.
  template <typename T>
  MatrixView<T> Weight(std::span<T> parameters) const {
    return {parameters.data() + parameter_offset, input_width, output_width};
  }
  template <typename T>
  MatrixView<T> Down(std::span<T> parameters) const {
    return {parameters.data() + parameter_offset, input_width, config.rank};
  }
  template <typename T>
  MatrixView<T> Up(std::span<T> parameters) const {
    return {parameters.data() + parameter_offset + input_width * config.rank, config.rank,
            output_width};
  }
  // linear and cross.
  template <typename T>
  std::span<T> Bias(std::span<T> parameters) const {
    return parameters.subspan(parameter_offset + parameter_count - output_width, output_width);
  }
  template <typename T>
  std::span<T> Scale(std::span<T> parameters) const {
    return parameters.subspan(parameter_offset, output_width);
  }
  template <typename T>
  std::span<T> Shift(std::span<T> parameters) const {
    return parameters.subspan(parameter_offset + output_width, output_width);
  }

  // prelu and dice.
  template <typename T>
  std::span<T> Slope(std::span<T> values) const {
    return values.subspan(parameter_offset, output_width);
  }
  // bilinear: a square block for each head, one above the other.
  template <typename T>
  MatrixView<T> Heads(std::span<T> values) const {
    const size_t half = input_width / 2;
    return {values.data() + parameter_offset, half, half / config.width};
  }

  // Parts of a buffer with the layout of the statistics.
  template <typename T>
  std::span<T> Mean(std::span<T> statistics) const {
    return statistics.subspan(statistics_offset, output_width);
  }
  template <typename T>
  std::span<T> Variance(std::span<T> statistics) const {
    return statistics.subspan(statistics_offset + output_width, output_width);
  }
};

// Indices of the layers inside self_attention.
enum SelfAttentionLayers : size_t {
  kIn,       // Linear: query, key and value of each row.
  kOut,      // Linear.
  kNorm1,    // Layer norm of the input and kOut.
  kLinear1,  // With a relu.
  kLinear2,
  kNorm2,  // Layer norm of kNorm1 and kLinear2.
};

// The source of a block of a tower's input columns.
struct TowerInput {
  enum class Source { kDense, kEmbeddings, kTower };

  Source source = Source::kDense;
  size_t tower = 0;          // kTower: index of the tower.
  size_t source_column = 0;  // kDense, kEmbeddings: the block's first column there.
  size_t column = 0;         // The block's first column in the tower's input.
  size_t width = 0;
  // One of several sequences: its rows, and the distance between them in the tower's input. Other
  // blocks are contiguous.
  size_t places = 1;
  size_t stride = 0;
  // True if no later tower reads the same block. In the backward pass this tower writes the block's
  // gradient first, and the other readers add theirs.
  bool last_reader = true;
};

// A block of columns.
struct ColumnRange {
  size_t first = 0;
  size_t count = 0;

  bool operator==(const ColumnRange&) const = default;
};

struct TowerPlan {
  std::string name;
  // Any two blocks of the embeddings in the model are equal or disjoint.
  std::vector<TowerInput> inputs;
  size_t input_width = 0;
  size_t activation_column = 0;       // First column of the input.
  bool needs_input_gradient = false;  // False if all inputs are `dense` or masks.
  std::optional<size_t> last_cross;   // Index of the last cross layer.
  size_t origin_column = 0;           // Cross layers' part of the gradient of the input.
  std::vector<LayerPlan> layers;      // At least one.

  const LayerPlan& last() const { return layers.back(); }
  size_t output_width() const { return last().output_width; }
};

// A model's data flow and its layout in the flat buffers of parameters, batch norm statistics and
// activations, for all backends. Order: tower by tower, layer by layer.
struct ModelPlan {
  size_t dense_width = 0;
  size_t embedding_width = 0;
  std::vector<TowerPlan> towers;  // Every tower after those it reads.
  std::vector<ColumnRange> unread_embeddings;
  size_t parameter_count = 0;
  std::vector<ColumnRange> parameter_blocks;  // Every weight, bias, scale and shift, in order.
  size_t statistics_count = 0;
  size_t activation_width = 0;  // Columns of all tower inputs, layer outputs and scratch.
  bool has_sample_weights = false;
  bool drops = false;  // A dropout layer has a rate above 0.
  // Factor of the last layer's output in predictions: 1 / temperature of in_batch_softmax, else 1.
  float output_factor = 1.0F;
  bool is_in_batch = false;   // The loss is in_batch_softmax.
  bool counts_items = false;  // It has the correction log_q.

  const TowerPlan& top() const { return towers.back(); }
  // Values of labels, and then weights, of some samples.
  size_t LabelCount(size_t rows) const {
    return rows * (top().output_width() + (has_sample_weights ? 1 : 0));
  }
  bool IsLogit(size_t tower, size_t layer) const {
    return tower + 1 == towers.size() && layer + 1 == top().layers.size();
  }
};

// Requires that the towers fit together and can read the inputs. An input without a reader is
// allowed, a tower without a reader is not.
// Errors: INVALID_ARGUMENT; names the tower and the layer (counted from 1) and what to change.
StatusOr<ModelPlan> PlanModel(const ModelConfig& model, const ModelInputs& inputs);

// Splits the embedding columns that towers read into blocks, of which any two are equal or
// disjoint. Finds each block's last reader and the columns without a reader. Requires all towers
// with their inputs.
void PlanInputBlocks(ModelPlan& plan);

}  // namespace simurgh
