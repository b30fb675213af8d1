#include "tests/unit/nn/reference_network.h"

#include <cmath>
#include <cstdlib>
#include <functional>
#include <numbers>
#include <numeric>
#include <utility>

namespace simurgh::testing {
namespace {

constexpr double kDifference = 1e-5;

std::vector<std::vector<double>> ToMatrix(MatrixView<const float> view) {
  std::vector<std::vector<double>> matrix(view.rows());
  for (size_t r = 0; r < view.rows(); ++r) matrix[r].assign(view.row(r).begin(), view.row(r).end());
  return matrix;
}

double LogisticOf(double x) { return 1.0 / (1.0 + std::exp(-x)); }

double SumOf(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

// x M, of an M that is stored row by row.
std::vector<double> Product(const std::vector<double>& x, const double* matrix, size_t columns) {
  std::vector<double> y(columns, 0.0);
  for (size_t i = 0; i < x.size(); ++i) {
    for (size_t o = 0; o < columns; ++o) y[o] += x[i] * matrix[i * columns + o];
  }
  return y;
}

std::vector<double> Cross(size_t rank, const std::vector<double>& origin,
                          const std::vector<double>& x, const double* weights) {
  const size_t width = x.size();
  std::vector<double> y;
  const double* bias = weights + width * width;
  if (rank == 0) {
    y = Product(x, weights, width);
  } else {
    y = Product(Product(x, weights, rank), weights + width * rank, width);
    bias = weights + 2 * width * rank;
  }
  for (size_t c = 0; c < width; ++c) y[c] = origin[c] * (y[c] + bias[c]) + x[c];
  return y;
}

std::vector<double> PairProducts(const std::vector<double>& x, size_t dim) {
  std::vector<double> products;
  for (size_t v = 0; v < x.size() / dim; ++v) {
    for (size_t w = 0; w < v; ++w) {
      double sum = 0;
      for (size_t d = 0; d < dim; ++d) sum += x[v * dim + d] * x[w * dim + d];
      products.push_back(sum);
    }
  }
  return products;
}

double GeluOf(double x) {
  return x / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

// affine: scale, then shift.
std::vector<double> LayerNorm(const std::vector<double>& x, double epsilon, const double* affine) {
  const auto columns = static_cast<double>(x.size());
  const double mean = SumOf(x) / columns;
  double variance = 0;
  for (const double value : x) variance += std::pow(value - mean, 2) / columns;
  std::vector<double> y;
  for (size_t c = 0; c < x.size(); ++c) {
    y.push_back((x[c] - mean) / std::sqrt(variance + epsilon) * affine[c] + affine[x.size() + c]);
  }
  return y;
}

// The function of the values of all pieces at each place.
template <typename Function>
std::vector<double> OfPieces(const std::vector<double>& x, size_t pieces,
                             const Function& function) {
  const size_t dim = x.size() / pieces;
  std::vector<double> y;
  for (size_t d = 0; d < dim; ++d) {
    std::vector<double> values;
    for (size_t k = 0; k < pieces; ++k) values.push_back(x[k * dim + d]);
    y.push_back(function(values));
  }
  return y;
}

}  // namespace

ReferenceNetwork::ReferenceNetwork(ModelConfig model, DenseOptimizerConfig optimizer,
                                   std::span<const float> parameters)
    : model_(std::move(model)),
      optimizer_(optimizer),
      parameters_(parameters.begin(), parameters.end()),
      first_moments_(parameters.size(), 0.0),
      second_moments_(parameters.size(), 0.0) {}

void ReferenceNetwork::SetParameters(std::span<const float> parameters) {
  parameters_.assign(parameters.begin(), parameters.end());
}

ReferenceNetwork::Result ReferenceNetwork::ForwardBackward(const TestBatch& batch) {
  const Matrix dense = ToMatrix(batch.dense());
  Matrix embeddings = ToMatrix(batch.embeddings());
  Result result;
  batch_.clear();
  result.probabilities = Predictions(Logits(parameters_, dense, embeddings, &batch_));
  batch_rows_ = batch.rows;
  result.loss = Loss(parameters_, dense, embeddings, batch.labels);

  const auto differentiate = [&](double& variable, const std::vector<double>& parameters) {
    const double original = std::exchange(variable, variable + kDifference);
    const double above = Loss(parameters, dense, embeddings, batch.labels);
    variable = original - kDifference;
    const double below = Loss(parameters, dense, embeddings, batch.labels);
    variable = original;
    return (above - below) / (2 * kDifference);
  };
  std::vector<double> parameters = parameters_;
  for (double& parameter : parameters) {
    result.parameter_gradient.push_back(differentiate(parameter, parameters));
  }
  for (auto& row : embeddings) {
    for (double& value : row) result.embedding_gradient.push_back(differentiate(value, parameters));
  }
  return result;
}

void ReferenceNetwork::ApplyGradients(std::span<const double> gradient) {
  steps_ += 1;
  const double lr = optimizer_.learning_rate;
  const double b1 = optimizer_.beta1;
  const double b2 = optimizer_.beta2;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const double g = gradient[i];
    if (optimizer_.kind == DenseOptimizerConfig::Kind::kSgd) {
      parameters_[i] -= lr * g;
      continue;
    }
    first_moments_[i] = b1 * first_moments_[i] + (1 - b1) * g;
    second_moments_[i] = b2 * second_moments_[i] + (1 - b2) * g * g;
    const double m = first_moments_[i] / (1 - std::pow(b1, steps_));
    const double v = second_moments_[i] / (1 - std::pow(b2, steps_));
    parameters_[i] -= lr * m / (std::sqrt(v) + double{optimizer_.epsilon});
  }

  const auto rows = static_cast<double>(batch_rows_);
  size_t index = 0;
  for (const TowerConfig& tower : model_.towers) {
    for (const LayerConfig& layer : tower.layers) {
      using Kind = LayerConfig::Kind;
      if (layer.kind != Kind::kBatchNorm && layer.kind != Kind::kDice) continue;
      const Statistics& batch = batch_[index];
      if (running_.size() <= index) {
        running_.push_back({std::vector<double>(batch.mean.size(), 0.0),
                            std::vector<double>(batch.mean.size(), 1.0)});
      }
      Statistics& running = running_[index++];
      const double momentum = layer.momentum;
      const double unbias = batch_rows_ > 1 ? rows / (rows - 1) : 1.0;
      for (size_t c = 0; c < batch.mean.size(); ++c) {
        running.mean[c] = (1 - momentum) * running.mean[c] + momentum * batch.mean[c];
        running.variance[c] =
            (1 - momentum) * running.variance[c] + momentum * batch.variance[c] * unbias;
      }
    }
  }
}

std::vector<double> ReferenceNetwork::Predict(const TestBatch& batch) {
  return Predictions(
      Logits(parameters_, ToMatrix(batch.dense()), ToMatrix(batch.embeddings()), nullptr));
}

std::vector<double> ReferenceNetwork::Predictions(std::vector<double> outputs) const {
  const std::vector<TaskConfig> tasks = TasksOf(model_);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const LossConfig::Kind kind = tasks[i % tasks.size()].loss.kind;
    if (kind == LossConfig::Kind::kPoisson) outputs[i] = std::exp(outputs[i]);
    if (!IsRegression(kind)) outputs[i] = LogisticOf(outputs[i]);
  }
  return outputs;
}

std::vector<double> ReferenceNetwork::State() const {
  std::vector<double> state;
  for (const Statistics& statistics : running_) {
    state.insert(state.end(), statistics.mean.begin(), statistics.mean.end());
    state.insert(state.end(), statistics.variance.begin(), statistics.variance.end());
  }
  if (optimizer_.kind == DenseOptimizerConfig::Kind::kAdam) {
    state.push_back(steps_);
    state.insert(state.end(), first_moments_.begin(), first_moments_.end());
    state.insert(state.end(), second_moments_.begin(), second_moments_.end());
  }
  return state;
}

double ReferenceNetwork::Loss(const std::vector<double>& parameters, const Matrix& dense,
                              const Matrix& embeddings, const std::vector<float>& labels) {
  AllStatistics ignored;
  const std::vector<double> logits = Logits(parameters, dense, embeddings, &ignored);
  const std::vector<TaskConfig> tasks = TasksOf(model_);
  double sum = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const TaskConfig& task = tasks[i % tasks.size()];
    const size_t weight = logits.size() + i / tasks.size();
    const double factor = double{task.weight} * (weight < labels.size() ? labels[weight] : 1.0F);
    if (task.loss.kind == LossConfig::Kind::kSquaredError) {
      sum += factor * std::pow(logits[i] - labels[i], 2);
      continue;
    }
    if (task.loss.kind == LossConfig::Kind::kPoisson) {
      sum += factor * (std::exp(logits[i]) - labels[i] * logits[i]);
      continue;
    }
    const double p = LogisticOf(logits[i]);
    const double own = labels[i] == 1.0F ? p : 1 - p;
    const double smoothed = double{task.loss.label_smoothing} / 2;
    double loss = -(1 - smoothed) * std::log(own);
    if (smoothed > 0) loss -= smoothed * std::log(1 - own);
    if (task.loss.kind == LossConfig::Kind::kFocal) {
      loss *= std::pow(1 - own, double{task.loss.gamma});
    }
    if (labels[i] == 1.0F) loss *= double{task.loss.positive_weight};
    sum += factor * loss;
  }
  return sum / static_cast<double>(dense.size());
}

std::vector<double> ReferenceNetwork::Logits(const std::vector<double>& parameters,
                                             const Matrix& dense, const Matrix& embeddings,
                                             AllStatistics* batch_statistics) {
  std::map<std::string, Matrix> values{{"dense", dense}, {"embeddings", embeddings}};
  for (size_t f = 0; f < kTestFeatures; ++f) {
    Matrix& feature = values[kFeatureInput + TestFeatureName(f)];
    for (const auto& row : embeddings) {
      const auto first = row.begin() + static_cast<std::ptrdiff_t>(f * kTestDim);
      feature.emplace_back(first, first + kTestDim);
    }
  }
  const double* next = parameters.data();
  size_t norms = 0;
  for (const TowerConfig& tower : model_.towers) {
    Matrix x(dense.size());
    for (const std::string& input : tower.inputs) {
      const Matrix& source = values.at(input);
      for (size_t r = 0; r < x.size(); ++r) {
        x[r].insert(x[r].end(), source[r].begin(), source[r].end());
      }
    }
    const Matrix origin = x;
    for (const LayerConfig& layer : tower.layers) {
      const size_t inputs = x[0].size();
      switch (layer.kind) {
        case LayerConfig::Kind::kLinear:
          for (auto& row : x) {
            std::vector<double> y(next + inputs * layer.width, next + (inputs + 1) * layer.width);
            for (size_t i = 0; i < inputs; ++i) {
              for (size_t o = 0; o < layer.width; ++o) y[o] += row[i] * next[i * layer.width + o];
            }
            row = std::move(y);
          }
          next += (inputs + 1) * layer.width;
          break;
        case LayerConfig::Kind::kBatchNorm:
          x = BatchNorm(layer, x, next, StatisticsOf(x, batch_statistics, norms));
          next += 2 * inputs;
          break;
        case LayerConfig::Kind::kRelu:
          for (auto& row : x) {
            for (double& value : row) value = value > 0 ? value : 0;
          }
          break;
        case LayerConfig::Kind::kGelu:
          for (auto& row : x) {
            for (double& value : row) value = GeluOf(value);
          }
          break;
        case LayerConfig::Kind::kSigmoid:
          for (auto& row : x) {
            for (double& value : row) value = LogisticOf(value);
          }
          break;
        case LayerConfig::Kind::kCross:
          for (size_t r = 0; r < x.size(); ++r) x[r] = Cross(layer.rank, origin[r], x[r], next);
          next += (layer.rank == 0 ? inputs * inputs : 2 * inputs * layer.rank) + inputs;
          break;
        case LayerConfig::Kind::kDot:
          for (auto& row : x) row = PairProducts(row, layer.width);
          break;
        case LayerConfig::Kind::kFm:
          for (auto& row : x) row = {SumOf(PairProducts(row, layer.width))};
          break;
        case LayerConfig::Kind::kSum:
          for (auto& row : x) {
            std::vector<double> sums(std::max(layer.width, 1U), 0.0);
            for (size_t c = 0; c < row.size(); ++c) sums[c * sums.size() / row.size()] += row[c];
            row = sums;
          }
          break;
        case LayerConfig::Kind::kSilu:
          for (auto& row : x) {
            for (double& value : row) value *= LogisticOf(value);
          }
          break;
        case LayerConfig::Kind::kTanh:
          for (auto& row : x) {
            for (double& value : row) value = std::tanh(value);
          }
          break;
        case LayerConfig::Kind::kGate:
          for (auto& row : x) {
            for (double& value : row) value = 2 * LogisticOf(value);
          }
          break;
        case LayerConfig::Kind::kPrelu:
          for (auto& row : x) {
            for (size_t c = 0; c < inputs; ++c) row[c] *= row[c] > 0 ? 1 : next[c];
          }
          next += inputs;
          break;
        case LayerConfig::Kind::kDice: {
          std::vector<double> identity(2 * inputs, 0.0);
          std::fill_n(identity.begin(), inputs, 1.0);
          const Matrix normal =
              BatchNorm(layer, x, identity.data(), StatisticsOf(x, batch_statistics, norms));
          for (size_t r = 0; r < x.size(); ++r) {
            for (size_t c = 0; c < inputs; ++c) {
              const double p = LogisticOf(normal[r][c]);
              x[r][c] *= p + (1 - p) * next[c];
            }
          }
          next += inputs;
          break;
        }
        case LayerConfig::Kind::kLayerNorm:
          for (auto& row : x) row = LayerNorm(row, double{layer.epsilon}, next);
          next += 2 * inputs;
          break;
        case LayerConfig::Kind::kProduct:
          for (auto& row : x) {
            row = OfPieces(row, layer.width, [](const std::vector<double>& z) {
              return std::accumulate(z.begin(), z.end(), 1.0, std::multiplies<>());
            });
          }
          break;
        case LayerConfig::Kind::kJoint:
          for (auto& row : x) {
            row = OfPieces(row, layer.width, [](const std::vector<double>& z) {
              double p = 1;
              for (const double logit : z) p *= LogisticOf(logit);
              return std::log(p / (1 - p));
            });
          }
          break;
        case LayerConfig::Kind::kBilinear: {
          const size_t half = inputs / 2;
          const size_t block = half / layer.width;
          for (auto& row : x) {
            double sum = 0;
            for (size_t i = 0; i < half; ++i) {
              for (size_t j = 0; j < block; ++j) {
                sum += row[i] * next[i * block + j] * row[half + i / block * block + j];
              }
            }
            row = {sum};
          }
          next += half * block;
          break;
        }
        case LayerConfig::Kind::kL2Norm:
          for (auto& row : x) {
            double squares = 0;
            for (const double value : row) squares += value * value;
            for (double& value : row) value /= std::max(std::sqrt(squares), 1e-12);
          }
          break;
        case LayerConfig::Kind::kSoftmax:
          for (auto& row : x) {
            for (double& value : row) value = std::exp(value);
            const double sum = SumOf(row);
            for (double& value : row) value /= sum;
          }
          break;
        case LayerConfig::Kind::kMix:
          for (auto& row : x) {
            std::vector<double> sums(inputs / layer.width - 1, 0.0);
            for (size_t c = layer.width; c < inputs; ++c) {
              const size_t place = c - layer.width;
              sums[place % sums.size()] += row[place / sums.size()] * row[c];
            }
            row = sums;
          }
          break;
        case LayerConfig::Kind::kDropout:
        case LayerConfig::Kind::kMean:
        case LayerConfig::Kind::kLast:
        case LayerConfig::Kind::kAttention:
        case LayerConfig::Kind::kSelfAttention:
          std::abort();  // PyTorch is their reference.
      }
    }
    values[tower.name] = std::move(x);
  }
  std::vector<double> logits;
  for (const auto& row : values.at(model_.towers.back().name)) {
    logits.insert(logits.end(), row.begin(), row.end());
  }
  return logits;
}

ReferenceNetwork::Statistics ReferenceNetwork::StatisticsOf(const Matrix& input,
                                                            AllStatistics* batch_statistics,
                                                            size_t& norms) const {
  if (batch_statistics == nullptr) return running_.at(norms++);
  const auto rows = static_cast<double>(input.size());
  const size_t columns = input[0].size();
  Statistics statistics{std::vector<double>(columns, 0.0), std::vector<double>(columns, 0.0)};
  for (size_t c = 0; c < columns; ++c) {
    for (const auto& row : input) statistics.mean[c] += row[c] / rows;
    for (const auto& row : input) {
      statistics.variance[c] += std::pow(row[c] - statistics.mean[c], 2) / rows;
    }
  }
  batch_statistics->push_back(statistics);
  return statistics;
}

ReferenceNetwork::Matrix ReferenceNetwork::BatchNorm(const LayerConfig& config, const Matrix& input,
                                                     const double* affine,
                                                     const Statistics& statistics) {
  Matrix output = input;
  for (auto& row : output) {
    for (size_t c = 0; c < row.size(); ++c) {
      const double deviation = std::sqrt(statistics.variance[c] + double{config.epsilon});
      row[c] = (row[c] - statistics.mean[c]) / deviation * affine[c] + affine[row.size() + c];
    }
  }
  return output;
}

}  // namespace simurgh::testing
