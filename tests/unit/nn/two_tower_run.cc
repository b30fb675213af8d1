#include "tests/unit/nn/two_tower_run.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <utility>

#include <catch2/catch.hpp>

#include "nn/item_frequency.h"
#include "tests/unit/nn/cuda/training_run.h"

namespace simurgh::testing {
namespace {

constexpr size_t kTwoTowerDense = 5;

void Require(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.ToString());
}

// Predicts a batch after the last step.
void Finish(DenseNetwork& network, const TwoTowerCase& run, TwoTowerRun& result) {
  Random random(7);
  const TwoTowerBatch batch(run, 0, 33, random);
  result.outputs.resize(batch.rows);
  Require(OutputsFrom(network, batch.dense(), batch.embeddings(), result.outputs));
  const auto vectors = network.LastTowerInput();
  Require(vectors.status());
  for (size_t row = 0; row < vectors->rows(); ++row) {
    result.vectors.insert(result.vectors.end(), vectors->row(row).begin(), vectors->row(row).end());
  }
  result.parameters.assign(network.parameters().begin(), network.parameters().end());
  result.state.assign(network.state().begin(), network.state().end());
}

}  // namespace

ModelConfig TwoTowerModel(float temperature) {
  using Kind = LayerConfig::Kind;
  return {
      .towers = {{"user", {"dense", "embeddings.a"}, {Linear(6), Relu(), Linear(4)}},
                 {"item", {"embeddings.b"}, {Linear(67), Relu(), Linear(4), Plain(Kind::kL2Norm)}},
                 {"unit", {"user"}, {Plain(Kind::kL2Norm)}},
                 {"top", {"unit", "item"}, {Dot(4)}}},
      .loss = {.kind = LossConfig::Kind::kInBatchSoftmax, .temperature = temperature}};
}

ModelConfig TwoTowerCase::model() const {
  ModelConfig model = TwoTowerModel(0.3F);
  model.loss.correction = correction;
  return model;
}

DenseNetworkOptions TwoTowerCase::options() const {
  DenseNetworkOptions options{.inputs = TestInputs(kTwoTowerDense), .seed = 5};
  options.inputs.has_sample_weights = has_weights;
  options.optimizer = {.kind = DenseOptimizerConfig::Kind::kAdam, .epsilon = 1e-3F};
  return options;
}

TwoTowerBatch::TwoTowerBatch(const TwoTowerCase& run, uint64_t step, size_t row_count,
                             Random& random)
    : TestBatch(row_count, kTwoTowerDense, kTestFeatures * kTestDim, random),
      uniform(row_count > run.uniform ? run.uniform : 0) {
  constexpr float kLabels[] = {1.0F, 0.0F, 2.5F, 1.0F, NAN, 1.0F};
  for (size_t row = 0; row < rows; ++row) {
    const bool is_uniform = row + uniform >= rows;
    users.push_back(is_uniform ? 1'000 + row : random.Below(rows));
    items.push_back(random.Below(is_uniform ? 60 : 1 + random.Below(30)));
    labels[row] = is_uniform ? NAN : kLabels[(row + step) % std::size(kLabels)];
    Random of_item(items.back() + 17);
    std::ranges::copy(NormalValues(kTestDim, of_item),
                      &embedding_values[row * embedding_width + kTestDim]);
    Random of_user(users.back() + 1'017);
    std::ranges::copy(NormalValues(kTestDim, of_user), &embedding_values[row * embedding_width]);
    std::ranges::copy(NormalValues(dense_width, of_user), &dense_values[row * dense_width]);
  }
  for (size_t row = 0; run.has_weights && row < rows; ++row) {
    labels.push_back(row + uniform >= rows ? 0.0F : 0.25F * static_cast<float>(row % 5));
  }
}

RankStep TwoTowerBatch::Step(uint64_t step) const {
  return {.step = step,
          .global_samples = rows - uniform,
          .divisor = 50,
          .user_keys = users,
          .item_keys = items,
          .uniform_negatives = uniform,
          .uniform_rate = static_cast<double>(uniform) / 60};
}

size_t TwoTowerRows(uint64_t step) {
  constexpr size_t kRows[] = {40, 24, 40, 40, 9, 40, 1};
  return kRows[step % std::size(kRows)];
}

TwoTowerRun TrainTwoTowers(DenseNetwork& network, const TwoTowerCase& run, uint64_t steps,
                           uint64_t seed, const std::function<void(RankStep&)>& ranks,
                           const std::function<void()>& finish) {
  TwoTowerRun result;
  for (uint64_t step = 0; step < steps; ++step) {
    Random random(100 * seed + step);
    const bool is_empty = ranks && seed > 1 && step % 4 == 2;
    const TwoTowerBatch batch(run, step, is_empty ? 0 : TwoTowerRows(step + seed - 1), random);
    std::vector<float> predictions(batch.rows);
    std::vector<float> gradient(batch.embedding_values.size());
    RankStep ranks_step = batch.Step(step);
    if (ranks) ranks(ranks_step);
    const auto done = ComputeGradients(network, batch.dense(), batch.embeddings(), batch.labels,
                                       {gradient.data(), batch.rows, batch.embedding_width},
                                       predictions, ranks_step);
    Require(done.status());
    if (!done->finite) ++result.skipped;
    result.losses.push_back(done->loss);
    result.predictions.insert(result.predictions.end(), predictions.begin(), predictions.end());
    result.embedding_gradient.insert(result.embedding_gradient.end(), gradient.begin(),
                                     gradient.end());
    if (finish) finish();
    if (step != run.left_out && done->finite) Require(network.ApplyGradients(0.02F));
  }
  Finish(network, run, result);
  return result;
}

TwoTowerRun TrainTwoTowersAhead(DenseNetwork& network, const TwoTowerCase& run, uint64_t steps) {
  struct Ahead {
    TwoTowerBatch batch;
    std::shared_ptr<BatchBlock> block;
  };
  const auto batch_of = [&](uint64_t step) {
    Random random(100 + step);
    Ahead ahead{TwoTowerBatch(run, step, TwoTowerRows(step), random), nullptr};
    ahead.block = network.blocks().Lease(ahead.batch.rows, true);
    std::ranges::copy(ahead.batch.embedding_values, ahead.block->embeddings.flat().begin());
    return std::make_unique<Ahead>(std::move(ahead));
  };
  TwoTowerRun result;
  std::unique_ptr<Ahead> now = batch_of(0);
  for (uint64_t step = 0; step < steps; ++step) {
    std::unique_ptr<Ahead> next;
    network.ApplyNext(0.02F);
    const auto meanwhile = [&] {
      if (step + 1 == steps) return;
      next = batch_of(step + 1);
      const TwoTowerBatch& batch = next->batch;
      network.Load(*next->block, batch.dense(), batch.labels);
      network.StartNext(*next->block, batch.dense(), batch.labels, batch.Step(step + 1));
    };
    std::vector<float> predictions(now->batch.rows);
    const auto done = network.ForwardBackward(*now->block, now->batch.dense(), now->batch.labels,
                                              predictions, now->batch.Step(step), meanwhile);
    Require(done.status());
    if (!done->finite) ++result.skipped;
    Require(network.AwaitGradients(*now->block));
    result.losses.push_back(done->loss);
    result.predictions.insert(result.predictions.end(), predictions.begin(), predictions.end());
    const std::span<const float> gradient = now->block->gradients.flat();
    result.embedding_gradient.insert(result.embedding_gradient.end(), gradient.begin(),
                                     gradient.end());
    now = std::move(next);
  }
  Finish(network, run, result);
  return result;
}

void CheckSameRun(const TwoTowerRun& actual, const TwoTowerRun& expected, double tolerance) {
  REQUIRE(actual.losses.size() == expected.losses.size());
  CHECK(actual.skipped == 0);
  CHECK(expected.skipped == 0);
  for (size_t i = 0; i < expected.losses.size(); ++i) {
    CAPTURE(i);
    CHECK(actual.losses[i] == Approx(expected.losses[i]).epsilon(tolerance).margin(tolerance));
  }
  const auto check = [&](const char* what, const std::vector<float>& a,
                         const std::vector<float>& b) {
    CAPTURE(what);
    REQUIRE(a.size() == b.size());
    CHECK(RelativeError(a, b) < tolerance);
  };
  check("predictions", actual.predictions, expected.predictions);
  check("gradients", actual.embedding_gradient, expected.embedding_gradient);
  check("parameters", actual.parameters, expected.parameters);
  check("outputs", actual.outputs, expected.outputs);
  check("vectors", actual.vectors, expected.vectors);
  const auto moments = [&](const TwoTowerRun& run) {
    return std::span(run.state).first(1 + 2 * run.parameters.size());
  };
  CHECK(RelativeError(moments(actual), moments(expected)) < tolerance);
  const size_t counted = moments(expected).size();
  const size_t counts = std::min(expected.state.size() - counted, ItemFrequency::kStateSize);
  CHECK(SameBits(std::span(actual.state).subspan(counted, counts),
                 std::span(expected.state).subspan(counted, counts)));
}

}  // namespace simurgh::testing
