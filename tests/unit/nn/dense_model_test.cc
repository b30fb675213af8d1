// Predictions without a network of training, against those of one with the same weights.

#include "nn/dense_model.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "nn/cpu/packed_layers.h"
#include "nn/model_plan.h"
#include "tests/unit/nn/test_backend.h"
#include "tests/unit/nn/test_models.h"

namespace simurgh::testing {
namespace {

constexpr size_t kDense = 13;
constexpr size_t kEmbeddings = kTestFeatures * kTestDim;

struct Models {
  std::unique_ptr<DenseNetwork> network;
  std::shared_ptr<DenseModel> dense;
};

// Random weights; running variances of about 1.
Models Create(const ModelConfig& model, Random& random) {
  DenseNetworkOptions options;
  options.inputs = TestInputs(kDense);
  Models made{CreateTestNetwork(model, options).value(),
              DenseModel::Create(model, options.inputs, ComputePrecision::kF32).value()};
  const std::vector<float> weights = NormalValues(made.dense->parameters().size(), random);
  std::ranges::transform(weights, made.dense->parameters().begin(),
                         [](float value) { return 0.3F * value; });
  std::ranges::copy(made.dense->parameters(), made.network->parameters().begin());
  const std::vector<float> statistics = NormalValues(made.dense->statistics().size(), random);
  std::ranges::transform(statistics, made.dense->statistics().begin(),
                         [](float value) { return 1.0F + 0.1F * std::abs(value); });
  std::ranges::copy(made.dense->statistics(), made.network->statistics().begin());
  return made;
}

// Sets most columns to those of the first row, as in a request for candidates of one user.
void ShareColumns(std::vector<float>& values, size_t width, size_t shared) {
  for (size_t i = width; i < values.size(); ++i) {
    if (i % width < shared) values[i] = values[i % width];
  }
}

double WorstDifference(Models& models, const TestBatch& batch, size_t tasks) {
  std::vector<float> wanted(batch.rows * tasks);
  std::vector<float> found(batch.rows * tasks);
  DensePredictor predictor(*models.dense);
  REQUIRE(OutputsFrom(*models.network, batch.dense(), batch.embeddings(), wanted).ok());
  REQUIRE(predictor.Predict(*models.dense, batch.embeddings(), batch.dense(), found).ok());
  double worst = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    worst = std::max(worst, static_cast<double>(std::abs(wanted[i] - found[i])));
  }
  return worst;
}

TEST_CASE("Predictions with packed weights and shared columns are those of the network") {
  Random random(11);
  const bool is_packed = GENERATE(false, true);
  const bool is_shared = GENERATE(false, true);
  for (int i = 0; i < 20; ++i) {
    const ModelConfig model = i == 0   ? Chain({Linear(64), Relu(), Linear(16), Relu(), Linear(1)})
                              : i == 1 ? Chain({Linear(40), Gelu(), Linear(33), Relu(), Linear(1)})
                              : i == 2 ? TwoTasks()
                              : i == 3 ? Fusions()
                                       : RandomModel(random);
    const size_t tasks = i == 2 || i == 3 ? 2 : 1;
    Models models = Create(model, random);
    if (is_packed) REQUIRE(models.dense->Pack().ok());
    for (const size_t rows : {1, 15, 16, 64, 100}) {
      TestBatch batch(rows, kDense, kEmbeddings, random, tasks);
      if (is_shared) {
        ShareColumns(batch.dense_values, kDense, rows % 3 == 1 ? kDense : kDense - 2);
        ShareColumns(batch.embedding_values, kEmbeddings, kEmbeddings - 1);
      }
      CAPTURE(i, rows, is_packed, is_shared);
      CHECK(WorstDifference(models, batch, tasks) <= 2e-6);
    }
  }
}

TEST_CASE("Packed weights take memory if this processor has another order of weights") {
  Random random(3);
  Models models = Create(Chain({Linear(64), Relu(), Linear(1)}), random);
  const uint64_t bytes = models.dense->bytes();
  REQUIRE(models.dense->Pack().ok());
  const ModelPlan plan =
      PlanModel(Chain({Linear(64), Relu(), Linear(1)}), TestInputs(kDense)).value();
  const auto packed = cpu::PackedLayers::Create(plan, models.dense->parameters()).value();
  CHECK(models.dense->bytes() == bytes + packed->bytes());
  CHECK_FALSE(cpu::PackedProducts::Has(*packed, plan.top().layers[2]));
}

TEST_CASE("Predictions of two towers are dot products of a user's and an item's vector") {
  Random random(7);
  constexpr size_t kRows = 40;
  constexpr size_t kWidth = 12;
  ModelConfig model;
  model.loss = {.kind = LossConfig::Kind::kInBatchSoftmax, .temperature = 0.25F};
  model.towers = {{"user",
                   {"dense"},
                   {Linear(20), Relu(), Linear(kWidth), {.kind = LayerConfig::Kind::kL2Norm}}},
                  {"item", {"embeddings"}, {Linear(kWidth)}},
                  {"top", {"user", "item"}, {Dot(kWidth)}}};
  const auto dense = DenseModel::Create(model, TestInputs(kDense), ComputePrecision::kF32).value();
  std::ranges::copy(NormalValues(dense->parameters().size(), random), dense->parameters().begin());
  if (GENERATE(false, true)) REQUIRE(dense->Pack().ok());
  REQUIRE(dense->vector_width() == kWidth);
  const TestBatch batch(kRows, kDense, kEmbeddings, random, 1);
  const TestBatch other(kRows, kDense, kEmbeddings, random, 1);
  DensePredictor predictor(*dense);
  std::vector<float> users(kRows * kWidth);
  std::vector<float> items(kRows * kWidth);
  std::vector<float> outputs(kRows);
  // The inputs of the other side do not matter.
  REQUIRE(predictor
              .Vectors(*dense, TowerSide::kUser, other.embeddings(), batch.dense(),
                       {users.data(), kRows, kWidth})
              .ok());
  REQUIRE(predictor
              .Vectors(*dense, TowerSide::kItem, batch.embeddings(), other.dense(),
                       {items.data(), kRows, kWidth})
              .ok());
  REQUIRE(predictor.Predict(*dense, batch.embeddings(), batch.dense(), outputs).ok());
  for (size_t row = 0; row < kRows; ++row) {
    double sum = 0;
    double squares = 0;
    for (size_t i = 0; i < kWidth; ++i) {
      sum += double{users[row * kWidth + i]} * double{items[row * kWidth + i]};
      squares += double{users[row * kWidth + i]} * double{users[row * kWidth + i]};
    }
    CHECK(outputs[row] == Approx(sum).epsilon(1e-5).margin(1e-5));
    CHECK(squares == Approx(16).epsilon(1e-4));  // 1 / 0.25, squared.
  }
  CHECK(DenseModel::Create(TwoTasks(), TestInputs(kDense), ComputePrecision::kF32)
            .value()
            ->vector_width() == 0);
}

}  // namespace
}  // namespace simurgh::testing
