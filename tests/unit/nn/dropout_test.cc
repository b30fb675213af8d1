// Dropout on every backend: which values are dropped, and that only training drops them.

#include "nn/dropout.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include <catch2/catch.hpp>

#include "nn/dense_network.h"
#include "nn/model_plan.h"
#include "tests/unit/nn/test_backend.h"
#include "tests/unit/nn/test_models.h"

namespace simurgh::testing {
namespace {

constexpr size_t kDense = 3;
constexpr size_t kEmbeddings = kTestFeatures * kTestDim;

ModelConfig Deep(float rate) {
  return {.towers = {{.name = "deep",
                      .inputs = {"dense", "embeddings"},
                      .layers = {Dropout(rate / 2), Linear(16), Relu(), Dropout(rate), Linear(8),
                                 Sigmoid(), Dropout(rate)}},
                     {.name = "top",
                      .inputs = {"deep", "embeddings"},
                      .layers = {Linear(6), Gelu(), Dropout(rate), Relu(), Dropout(rate),
                                 BatchNorm(), Linear(1)}}}};
}

struct Trained {
  std::vector<float> probabilities;
  std::vector<float> gradients;
  std::vector<float> embedding_gradient;

  bool operator==(const Trained&) const = default;
};

Trained Train(DenseNetwork& network, const TestBatch& batch, const RankStep& step) {
  Trained result{.probabilities = std::vector<float>(batch.rows),
                 .embedding_gradient = std::vector<float>(batch.rows * kEmbeddings)};
  const auto done = ComputeGradients(network, batch.dense(), batch.embeddings(), batch.labels,
                                     {result.embedding_gradient.data(), batch.rows, kEmbeddings},
                                     result.probabilities, step);
  REQUIRE(done.ok());
  CHECK(done->finite);
  result.gradients.assign(network.gradients().begin(), network.gradients().end());
  return result;
}

std::unique_ptr<DenseNetwork> MakeNetwork(const ModelConfig& model, uint64_t seed = 1,
                                          uint32_t threads = 1,
                                          ComputePrecision precision = ComputePrecision::kF32) {
  auto network = CreateTestNetwork(
      model,
      {.inputs = TestInputs(kDense), .threads = threads, .seed = seed, .precision = precision});
  REQUIRE(network.ok());
  return *std::move(network);
}

// Expects equal numbers but for rounding: the layers around a dropout use other products.
void CheckNear(const Trained& a, const Trained& b) {
  const auto check = [](const std::vector<float>& some, const std::vector<float>& others) {
    REQUIRE(some.size() == others.size());
    for (size_t i = 0; i < some.size(); ++i) {
      CHECK(some[i] == Approx(others[i]).epsilon(1e-4).margin(1e-6));
    }
  };
  check(a.probabilities, b.probabilities);
  check(a.gradients, b.gradients);
  check(a.embedding_gradient, b.embedding_gradient);
}

// Expects |count - samples * share| within five standard deviations.
void CheckShare(size_t count, double samples, double share) {
  CAPTURE(count, samples, share);
  CHECK(std::abs(static_cast<double>(count) - samples * share) <
        5 * std::sqrt(samples * share * (1 - share)));
}

TEST_CASE("dropped values are the share of the rate, and independent of each other") {
  constexpr size_t kRows = 2'000;
  constexpr uint32_t kColumns = 100;
  const float rate = GENERATE(0.02F, 0.2F, 0.5F, 0.9F);
  const uint64_t layer = DropoutLayer(/*seed=*/1, /*stream=*/2);
  const auto mask_of = [&](uint64_t other_layer, uint64_t step, uint32_t rank) {
    return DropoutMask::Of(rate, other_layer).At(DropoutStep(step, rank));
  };
  const DropoutMask mask = mask_of(layer, 7, 0);
  CHECK(mask.scale == Approx(1 / (1 - double{rate})));
  const std::vector<DropoutMask> others = {mask_of(layer, 8, 0), mask_of(layer, 7, 1),
                                           mask_of(layer, 8, 1), mask_of(DropoutLayer(1, 3), 7, 0),
                                           mask_of(DropoutLayer(2, 2), 7, 0)};
  const auto is_dropped = [](const DropoutMask& of, size_t row, uint32_t column) {
    return of.Factor(of.RowKey(row), column) == 0.0F;
  };
  size_t dropped = 0;
  std::vector<size_t> by_column(kColumns);
  std::vector<size_t> with_other(others.size());
  size_t with_next_column = 0;
  size_t with_next_row = 0;
  for (size_t row = 0; row < kRows; ++row) {
    size_t in_row = 0;
    for (uint32_t column = 0; column < kColumns; ++column) {
      if (!is_dropped(mask, row, column)) continue;
      ++in_row;
      ++by_column[column];
      if (is_dropped(mask, row, column + 1)) ++with_next_column;
      if (is_dropped(mask, row + 1, column)) ++with_next_row;
      for (size_t i = 0; i < others.size(); ++i) {
        if (is_dropped(others[i], row, column)) ++with_other[i];
      }
    }
    dropped += in_row;
  }
  const double values = double{kRows} * kColumns;
  const auto share = static_cast<double>(rate);
  CheckShare(dropped, values, share);
  for (const size_t count : by_column) CheckShare(count, kRows, share);
  CheckShare(with_next_column, values, share * share);
  CheckShare(with_next_row, values, share * share);
  for (const size_t count : with_other) CheckShare(count, values, share * share);
}

TEST_CASE("a step repeats to the bit; steps, ranks and seeds drop different values") {
  Random random(1);
  const TestBatch batch(40, kDense, kEmbeddings, random);
  const RankStep step{.step = 5, .rank = 1, .ranks = 2, .global_samples = 80};
  const auto network = MakeNetwork(Deep(0.4F));
  const Trained first = Train(*network, batch, step);
  CHECK(Train(*MakeNetwork(Deep(0.4F)), batch, step) == first);
  // Also after other steps, as when a training resumes.
  RankStep other = step;
  other.step = 6;
  CHECK(Train(*network, batch, other).probabilities != first.probabilities);
  CHECK(Train(*network, batch, step) == first);
  other = step;
  other.rank = 0;
  CHECK(Train(*network, batch, other).probabilities != first.probabilities);
  const auto of_seed = MakeNetwork(Deep(0.4F), /*seed=*/2);
  std::ranges::copy(network->parameters(), of_seed->parameters().begin());
  CHECK(Train(*of_seed, batch, step).probabilities != first.probabilities);
}

TEST_CASE("a gradient passes exactly where the mask keeps the value") {
  const auto precision =
      GENERATE(ComputePrecision::kF32, ComputePrecision::kBf16, ComputePrecision::kF16);
  if (!BackendHas(precision)) return;
  const ModelConfig model = Chain({Dropout(0.3F), Linear(1)});
  const RankStep step{.step = 11, .rank = 3};
  Random random(2);
  const TestBatch batch(70, kDense, kEmbeddings, random);
  const Trained one = Train(*MakeNetwork(model, 1, 1, precision), batch, step);
  const Trained many = Train(*MakeNetwork(model, 1, /*threads=*/3, precision), batch, step);
  CHECK(many.embedding_gradient == one.embedding_gradient);
  const auto plan = PlanModel(model, TestInputs(kDense));
  REQUIRE(plan.ok());
  const DropoutMask mask =
      DropoutMask::Of(0.3F, DropoutLayer(/*seed=*/1, plan->top().layers[0].stream))
          .At(DropoutStep(11, 3));
  size_t kept = 0;
  for (size_t row = 0; row < batch.rows; ++row) {
    for (uint32_t column = 0; column < kEmbeddings; ++column) {
      const bool keeps = mask.Factor(mask.RowKey(row), kDense + column) != 0.0F;
      CHECK(keeps == (one.embedding_gradient[row * kEmbeddings + column] != 0.0F));
      if (keeps) ++kept;
    }
  }
  CHECK(kept > 200);
}

TEST_CASE("predictions, and a rate of 0, are those without dropout") {
  Random random(3);
  const TestBatch batch(33, kDense, kEmbeddings, random);
  const auto dropping = MakeNetwork(Deep(0.5F));
  const auto rate_0 = MakeNetwork(Deep(0.0F));
  ModelConfig plain_model = Deep(0.0F);
  for (TowerConfig& tower : plain_model.towers) {
    std::erase_if(tower.layers,
                  [](const LayerConfig& l) { return l.kind == LayerConfig::Kind::kDropout; });
  }
  const auto plain = MakeNetwork(plain_model);
  for (const auto& network : {std::cref(*rate_0), std::cref(*plain)}) {
    std::ranges::copy(dropping->parameters(),
                      const_cast<DenseNetwork&>(network.get()).parameters().begin());
  }
  std::vector<float> expected(batch.rows);
  REQUIRE(OutputsFrom(*plain, batch.dense(), batch.embeddings(), expected).ok());
  for (DenseNetwork* network : {dropping.get(), rate_0.get()}) {
    std::vector<float> outputs(batch.rows);
    REQUIRE(OutputsFrom(*network, batch.dense(), batch.embeddings(), outputs).ok());
    CHECK(outputs == expected);
  }
  CheckNear(Train(*rate_0, batch, {}), Train(*plain, batch, {}));
  CHECK(Train(*dropping, batch, {}).probabilities != Train(*plain, batch, {}).probabilities);
}

TEST_CASE("a value that is not finite stays so, dropped or not") {
  Random random(4);
  TestBatch batch(4, kDense, kEmbeddings, random);
  std::ranges::fill(batch.embedding_values, NAN);
  std::vector<float> gradient(batch.embedding_values.size());
  std::vector<float> probabilities(batch.rows);
  const auto result = ComputeGradients(*MakeNetwork(Chain({Dropout(0.9F), Linear(1)})),
                                       batch.dense(), batch.embeddings(), batch.labels,
                                       {gradient.data(), batch.rows, kEmbeddings}, probabilities);
  REQUIRE(result.ok());
  CHECK_FALSE(result->finite);
}

}  // namespace
}  // namespace simurgh::testing
