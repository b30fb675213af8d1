#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "config/model_config.h"
#include "config/training_config.h"
#include "tests/unit/nn/test_models.h"

namespace simurgh::testing {

// A slow reference network in f64, straight from the model's description. Gradients are central
// differences of the loss.
class ReferenceNetwork {
 public:
  struct Result {
    double loss = 0;
    std::vector<double> probabilities;
    std::vector<double> parameter_gradient;
    std::vector<double> embedding_gradient;
  };

  // parameters: in the order that DenseNetwork::parameters documents.
  ReferenceNetwork(ModelConfig model, DenseOptimizerConfig optimizer,
                   std::span<const float> parameters);

  Result ForwardBackward(const TestBatch& batch);
  void ApplyGradients(std::span<const double> gradient);
  std::vector<double> Predict(const TestBatch& batch);

  void SetParameters(std::span<const float> parameters);
  const std::vector<double>& parameters() const { return parameters_; }

  // In the order that DenseNetwork::state documents.
  std::vector<double> State() const;

 private:
  using Matrix = std::vector<std::vector<double>>;

  struct Statistics {
    std::vector<double> mean;
    std::vector<double> variance;
  };

  // One for each layer of batch norm or dice, in their order.
  using AllStatistics = std::vector<Statistics>;

  // The logits, sample after sample. batch_statistics: filled, biased; null to use the running
  // ones.
  std::vector<double> Logits(const std::vector<double>& parameters, const Matrix& dense,
                             const Matrix& embeddings, AllStatistics* batch_statistics);
  // Of outputs, sample after sample.
  std::vector<double> Predictions(std::vector<double> outputs) const;
  // labels: followed by the samples' weights, or not.
  double Loss(const std::vector<double>& parameters, const Matrix& dense, const Matrix& embeddings,
              const std::vector<float>& labels);
  // The running statistics of the next layer, or those of the batch, which it appends.
  Statistics StatisticsOf(const Matrix& input, AllStatistics* batch_statistics,
                          size_t& norms) const;
  static Matrix BatchNorm(const LayerConfig& config, const Matrix& input, const double* affine,
                          const Statistics& statistics);

  ModelConfig model_;
  DenseOptimizerConfig optimizer_;
  std::vector<double> parameters_;
  AllStatistics running_;  // Sized at the first batch.
  AllStatistics batch_;
  size_t batch_rows_ = 0;
  double steps_ = 0;
  std::vector<double> first_moments_;
  std::vector<double> second_moments_;
};

}  // namespace simurgh::testing
