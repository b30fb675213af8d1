// Names of a network's values, and a network that continues from saved ones, on every backend.

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include <catch2/catch.hpp>

#include "tests/support/skip.h"
#include "tests/unit/nn/cuda/training_run.h"
#include "tests/unit/nn/test_backend.h"
#include "tests/unit/nn/test_models.h"

namespace simurgh::testing {
namespace {

using Kind = DenseOptimizerConfig::Kind;

std::vector<float> Copy(std::span<const float> values) { return {values.begin(), values.end()}; }

constexpr size_t kDense = 3;
constexpr size_t kEmbeddings = kTestFeatures * kTestDim;

// Every layer that has weights.
ModelConfig NamedModel() {
  return {.towers = {
              {"bottom", {"dense"}, {Linear(2), BatchNorm(), Sigmoid()}},
              {"cross", {"dense", "embeddings"}, {Cross(), Cross(2)}},
              {"top", {"bottom", "cross"}, {Linear(1)}},
          }};
}

DenseNetworkOptions NamedOptions(const DenseOptimizerConfig& optimizer) {
  DenseNetworkOptions options;
  options.inputs = TestInputs(kDense);
  options.optimizer = optimizer;
  return options;
}

std::unique_ptr<DenseNetwork> Create(const ModelConfig& model, const DenseNetworkOptions& options) {
  auto network = CreateTestNetwork(model, options);
  REQUIRE(network.ok());
  return *std::move(network);
}

std::vector<std::string> Describe(const DenseNetwork& network) {
  std::vector<std::string> lines;
  for (const DenseTensor& tensor : network.tensors()) {
    lines.push_back(absl::StrCat(tensor.name, " (", absl::StrJoin(tensor.shape, ", "), ") ",
                                 tensor.in_state ? "state " : "", tensor.offset));
  }
  return lines;
}

std::vector<std::string> StateNames(const DenseOptimizerConfig& optimizer) {
  std::vector<std::string> names;
  for (const DenseTensor& tensor : Create(NamedModel(), NamedOptions(optimizer))->tensors()) {
    if (tensor.in_state && !tensor.name.starts_with("bottom.")) names.push_back(tensor.name);
  }
  return names;
}

using Names = std::vector<std::string>;

TEST_CASE("each weight and value of the state has a name, a shape and a place") {
  const auto network =
      Create(NamedModel(), NamedOptions({.kind = Kind::kAdam, .average_decay = 0.9F}));
  CHECK(Describe(*network) == Names{
                                  "bottom.1.weight (3, 2) 0",
                                  "bottom.1.bias (2) 6",
                                  "bottom.2.scale (2) 8",
                                  "bottom.2.shift (2) 10",
                                  "cross.1.weight (9, 9) 12",
                                  "cross.1.bias (9) 93",
                                  "cross.2.down (9, 2) 102",
                                  "cross.2.up (2, 9) 120",
                                  "cross.2.bias (9) 138",
                                  "top.1.weight (11, 1) 147",
                                  "top.1.bias (1) 158",
                                  "bottom.2.running_mean (2) state 0",
                                  "bottom.2.running_variance (2) state 2",
                                  "optimizer.steps (1) state 4",
                                  "optimizer.m (159) state 5",
                                  "optimizer.v (159) state 164",
                                  "average.steps (1) state 323",
                                  "average.weights (159) state 324",
                              });
  CHECK(network->parameters().size() == 159);
  CHECK(network->state().size() == 324 + 159);
}

TEST_CASE("the state's names follow the optimizer") {
  CHECK(StateNames({}).empty());
  CHECK(StateNames({.momentum = 0.9F}) == Names{"optimizer.velocity"});
  CHECK(StateNames({.kind = Kind::kAdagrad, .average_decay = 0.5F}) ==
        Names{"optimizer.sum", "average.steps", "average.weights"});
  CHECK(StateNames({.kind = Kind::kLamb}) ==
        Names{"optimizer.steps", "optimizer.m", "optimizer.v"});
}

TEST_CASE("names, shapes and initial values are the same on all backends") {
  for (const DenseOptimizerConfig& optimizer : RunOptimizers()) {
    const DenseNetworkOptions options = RunOptions(optimizer);
    auto expected = CreateCpuNetwork(EveryLayer(), options);
    REQUIRE(expected.ok());
    const auto network = Create(EveryLayer(), options);
    CHECK(Describe(*network) == Describe(**expected));
    CHECK(SameBits(network->parameters(), (*expected)->parameters()));
    CHECK(SameBits(network->state(), (*expected)->state()));
  }
}

// The prediction for one sample, from values by name.
class NamedReference {
 public:
  NamedReference(const std::vector<DenseTensor>& tensors, std::span<const float> parameters,
                 std::span<const float> state) {
    for (const DenseTensor& tensor : tensors) {
      const float* values = (tensor.in_state ? state : parameters).data() + tensor.offset;
      tensors_[tensor.name] = {values, tensor.shape.back()};
    }
  }

  double Predict(std::span<const float> dense, std::span<const float> embeddings) const {
    std::vector<double> bottom =
        Plus(Times({dense.begin(), dense.end()}, "bottom.1.weight"), "bottom.1.bias");
    for (size_t i = 0; i < bottom.size(); ++i) {
      bottom[i] = (bottom[i] - At("bottom.2.running_mean", i)) /
                  std::sqrt(At("bottom.2.running_variance", i) + 1e-5);
      bottom[i] = bottom[i] * At("bottom.2.scale", i) + At("bottom.2.shift", i);
      bottom[i] = 1 / (1 + std::exp(-bottom[i]));
    }
    std::vector<double> origin(dense.begin(), dense.end());
    origin.insert(origin.end(), embeddings.begin(), embeddings.end());
    std::vector<double> cross = origin;
    const auto apply = [&](const std::vector<double>& product) {
      for (size_t i = 0; i < cross.size(); ++i) cross[i] += origin[i] * product[i];
    };
    apply(Plus(Times(cross, "cross.1.weight"), "cross.1.bias"));
    apply(Plus(Times(Times(cross, "cross.2.down"), "cross.2.up"), "cross.2.bias"));
    bottom.insert(bottom.end(), cross.begin(), cross.end());
    const double logit = Plus(Times(bottom, "top.1.weight"), "top.1.bias")[0];
    return 1 / (1 + std::exp(-logit));
  }

 private:
  struct Values {
    const float* values;
    size_t columns;
  };

  double At(const std::string& name, size_t i) const { return tensors_.at(name).values[i]; }

  std::vector<double> Times(const std::vector<double>& x, const std::string& name) const {
    std::vector<double> product(tensors_.at(name).columns);
    for (size_t i = 0; i < x.size(); ++i) {
      for (size_t j = 0; j < product.size(); ++j) {
        product[j] += x[i] * At(name, i * product.size() + j);
      }
    }
    return product;
  }

  std::vector<double> Plus(std::vector<double> sum, const std::string& name) const {
    for (size_t j = 0; j < sum.size(); ++j) sum[j] += At(name, j);
    return sum;
  }

  std::map<std::string, Values> tensors_;
};

TEST_CASE("the layers read the values that the names say") {
  for (const float average_decay : {0.0F, 0.9F}) {
    CAPTURE(average_decay);
    const auto network =
        Create(NamedModel(), NamedOptions({.momentum = 0.9F, .average_decay = average_decay}));
    Random random(11);
    std::vector<float> parameters = NormalValues(network->parameters().size(), random);
    std::vector<float> state = NormalValues(network->state().size(), random);
    for (float& value : parameters) value *= 0.3F;
    for (float& value : state) value = std::abs(0.3F * value);  // Variances are positive.
    REQUIRE(network->Restore(parameters, state).ok());
    // Predictions use the averaged weights.
    const std::vector<DenseTensor> tensors = network->tensors();
    if (average_decay > 0) {
      REQUIRE(tensors.back().name == "average.weights");
      parameters.assign(state.begin() + static_cast<ptrdiff_t>(tensors.back().offset), state.end());
    }
    const NamedReference reference(tensors, parameters, state);
    const TestBatch batch(8, kDense, kEmbeddings, random);
    std::vector<float> predicted(batch.rows);
    REQUIRE(PredictFrom(*network, batch.dense(), batch.embeddings(), predicted).ok());
    for (size_t r = 0; r < batch.rows; ++r) {
      CHECK(
          predicted[r] ==
          Approx(reference.Predict(batch.dense().row(r), batch.embeddings().row(r))).margin(1e-5));
    }
  }
}

void CheckRestoredRun(ComputePrecision precision) {
  for (const DenseOptimizerConfig& optimizer : RunOptimizers()) {
    CAPTURE(static_cast<int>(optimizer.kind), optimizer.momentum, optimizer.average_decay);
    DenseNetworkOptions options = RunOptions(optimizer);
    options.precision = precision;
    const auto network = Create(EveryLayer(), options);
    DenseNetwork& uninterrupted = *network;
    Train(uninterrupted, 10);
    const auto restored = Create(EveryLayer(), options);
    Train(*restored, 3);
    REQUIRE(restored->Restore(Copy(uninterrupted.parameters()), Copy(uninterrupted.state())).ok());
    const TrainingRun expected = Train(uninterrupted, 10);
    const TrainingRun actual = Train(*restored, 10);
    CHECK(actual.losses == expected.losses);
    CHECK(SameBits(actual.parameters, expected.parameters));
    CHECK(SameBits(actual.state, expected.state));
    CHECK(SameBits(actual.embedding_gradient, expected.embedding_gradient));
    CHECK(SameBits(actual.predictions, expected.predictions));
  }
}

TEST_CASE("a restored network trains with the bits of the uninterrupted one") {
  CheckRestoredRun(ComputePrecision::kF32);
}

TEST_CASE("a restored network in bf16 trains with the bits of the uninterrupted one") {
  if (!BackendHas(ComputePrecision::kBf16))
    SIMURGH_SKIP("oneDNN has no products of bf16 for this processor");
  CheckRestoredRun(ComputePrecision::kBf16);
}

TEST_CASE("a restored network in f16 trains with the bits of the uninterrupted one") {
  DenseNetworkOptions options = RunOptions({});
  options.precision = ComputePrecision::kF16;
  if (!CreateTestNetwork(EveryLayer(), options).ok()) SIMURGH_SKIP("this backend has no f16");
  CheckRestoredRun(ComputePrecision::kF16);
}

TEST_CASE("gradients from before a restore are not applied") {
  const auto network = Create(NamedModel(), NamedOptions({}));
  Random random(5);
  const TestBatch batch(8, kDense, kEmbeddings, random);
  std::vector<float> gradient(batch.rows * kEmbeddings);
  std::vector<float> probabilities(batch.rows);
  REQUIRE(ComputeGradients(*network, batch.dense(), batch.embeddings(), batch.labels,
                           {gradient.data(), batch.rows, kEmbeddings}, probabilities)
              .ok());
  REQUIRE(network->Restore(Copy(network->parameters()), Copy(network->state())).ok());
  CHECK(network->ApplyGradients(0.1F).code() == absl::StatusCode::kFailedPrecondition);
}

TEST_CASE("values of another network are refused and change nothing") {
  const auto network = Create(NamedModel(), NamedOptions({.momentum = 0.9F}));
  const std::vector<float> parameters = Copy(network->parameters());
  const std::vector<float> state = Copy(network->state());
  const std::vector<float> other(1'000, 5.0F);
  CHECK(network->Restore(std::span(other).first(158), state) ==
        absl::InvalidArgumentError(
            "dense network: 158 weights and 163 values of state do not fit; this network has 159 "
            "and 163; restore it with the model and dense_optimizer that it was saved with"));
  CHECK(network->Restore(std::span(other).first(159), std::span(other).first(4)).code() ==
        absl::StatusCode::kInvalidArgument);
  CHECK(SameBits(network->parameters(), parameters));
  CHECK(SameBits(network->state(), state));
}

}  // namespace
}  // namespace simurgh::testing
