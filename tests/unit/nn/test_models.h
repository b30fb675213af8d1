#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/random.h"
#include "config/model_config.h"
#include "nn/dense_network.h"
#include "nn/model.h"
#include "tensor/matrix_view.h"

// Models and batches for the tests of nn.
namespace simurgh::testing {

LayerConfig Linear(uint32_t width);
LayerConfig BatchNorm(float momentum = 0.1F, float epsilon = 1e-5F);
LayerConfig Relu();
LayerConfig Gelu();
LayerConfig Sigmoid();
LayerConfig Dropout(float rate);
LayerConfig Dot(uint32_t width);
LayerConfig Fm(uint32_t width);
LayerConfig Cross(uint32_t rank = 0);
LayerConfig Sum(uint32_t width = 1);
LayerConfig Dice(float momentum = 0.1F, float epsilon = 1e-5F);
LayerConfig LayerNorm(float epsilon = 1e-5F);
// A layer whose only key is its width, or that has none.
LayerConfig Plain(LayerConfig::Kind kind, uint32_t width = 0);

// Inputs of most tests: dense columns and features `a` and `b`.
inline constexpr size_t kTestFeatures = 2;
inline constexpr size_t kTestDim = 3;
std::string TestFeatureName(size_t index);
ModelInputs TestInputs(size_t dense_width);

// A chain over dense and embeddings.
ModelConfig Chain(std::vector<LayerConfig> layers);

// Two bottom towers, a middle one that shares the embeddings, and a top that reads all of them and
// the dense input.
ModelConfig SharedInputs();

// A shared tower and one for each of two tasks, whose losses differ.
ModelConfig TwoTasks();

// Up to four towers, each with a random set of inputs.
ModelConfig RandomModel(Random& random);

// Mean, last and attention over feature `seen`, rows of kTestDim, with two tasks that mix experts.
ModelConfig Sequences();
// Its inputs: two numbers and the mask of `seen`; features `item` and `seen`.
ModelInputs SequenceInputs();
inline constexpr size_t kTestPlaces = 4;

// Activations, norms, products and joint probabilities over TestInputs(); two tasks.
ModelConfig Fusions();

// Towers over histories of several columns: transformer blocks, and attention with each activation.
ModelConfig Histories();
// Its inputs: those of Sequences(), and features `kind`, `kinds` and `gaps`.
ModelInputs HistoryInputs();

// A batch of normally distributed inputs and random labels.
struct TestBatch {
  TestBatch(size_t rows, size_t dense_columns, size_t embedding_columns, Random& random,
            size_t tasks = 1);

  MatrixView<const float> dense() const { return {dense_values.data(), rows, dense_width}; }
  MatrixView<const float> embeddings() const {
    return {embedding_values.data(), rows, embedding_width};
  }

  size_t rows;
  size_t dense_width;
  size_t embedding_width;
  std::vector<float> dense_values;
  std::vector<float> embedding_values;
  std::vector<float> labels;
};

// A batch of inputs with the mask of `seen`. length_of: the number of a sample's rows.
TestBatch SequenceBatch(size_t rows, Random& random, const std::function<size_t(size_t)>& length_of,
                        const ModelInputs& inputs = SequenceInputs());

std::vector<float> NormalValues(size_t count, Random& random);

// ForwardBackward, Predict, and Predict with ToPredictions(), on a new block with these embeddings.
// Requires a wire of f32.
StatusOr<BatchResult> ComputeGradients(DenseNetwork& network, MatrixView<const float> dense,
                                       MatrixView<const float> embeddings,
                                       std::span<const float> labels,
                                       MatrixView<float> embedding_gradient,
                                       std::span<float> probabilities, const RankStep& step = {});
Status OutputsFrom(DenseNetwork& network, MatrixView<const float> dense,
                   MatrixView<const float> embeddings, std::span<float> outputs);
Status PredictFrom(DenseNetwork& network, MatrixView<const float> dense,
                   MatrixView<const float> embeddings, std::span<float> predictions,
                   const std::vector<TaskConfig>& tasks = {TaskConfig()});

}  // namespace simurgh::testing
