// The loss of retrieval against its definition in f64.

#include "nn/cpu/in_batch_softmax.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "nn/cpu/compute_threads.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/nn/test_models.h"
#include "tests/unit/nn/torch_check.h"

namespace simurgh::testing {
namespace {

constexpr size_t kDim = 5;

// Samples with vectors of users and items.
struct Samples {
  Samples(size_t count, Random& random)
      : vectors(NormalValues(count * 2 * kDim, random)), labels(count, 1.0F) {}

  size_t count() const { return vectors.size() / (2 * kDim); }
  void SetItem(size_t to, size_t from) {
    std::copy_n(&vectors[from * 2 * kDim + kDim], kDim, &vectors[to * 2 * kDim + kDim]);
  }
  bool IsSameItem(size_t i, size_t j) const {
    return std::equal(&vectors[i * 2 * kDim + kDim], &vectors[i * 2 * kDim] + 2 * kDim,
                      &vectors[j * 2 * kDim + kDim]);
  }

  std::vector<float> vectors;
  std::vector<float> labels;  // Then weights, if any.
};

struct Outcome {
  double loss = 0;
  std::vector<double> predictions;
  std::vector<double> gradient;
};

TaskConfig TaskOf(float temperature, float weight = 1.0F) {
  return {.label = "bought",
          .weight = weight,
          .loss = {.kind = LossConfig::Kind::kInBatchSoftmax, .temperature = temperature}};
}

// The definition, sample by sample.
Outcome Reference(const Samples& samples, const TaskConfig& task, double divisor) {
  const size_t count = samples.count();
  Outcome found{.loss = 0,
                .predictions = std::vector<double>(count),
                .gradient = std::vector<double>(samples.vectors.size(), 0.0)};
  const auto user = [&](size_t i, size_t d) { return double{samples.vectors[i * 2 * kDim + d]}; };
  const auto item = [&](size_t i, size_t d) { return user(i, kDim + d); };
  for (size_t i = 0; i < count; ++i) {
    std::vector<double> shares(count, 0.0);
    double sum = 0;
    for (size_t j = 0; j < count; ++j) {
      double score = 0;
      for (size_t d = 0; d < kDim; ++d) score += user(i, d) * item(j, d);
      score /= double{task.loss.temperature};
      if (i == j) found.predictions[i] = score;
      if (i != j && samples.IsSameItem(i, j)) continue;
      sum += shares[j] = std::exp(score);
    }
    const double label = std::isnan(samples.labels[i]) ? 0.0 : double{samples.labels[i]};
    const double weight = samples.labels.size() > count ? double{samples.labels[count + i]} : 1.0;
    const double factor = double{task.weight} * label * weight;
    found.loss += factor * (std::log(sum) - found.predictions[i]) / static_cast<double>(count);
    for (size_t j = 0; j < count; ++j) {
      const double slope = factor * (shares[j] / sum - (i == j ? 1.0 : 0.0)) /
                           (double{task.loss.temperature} * divisor);
      for (size_t d = 0; d < kDim; ++d) {
        found.gradient[i * 2 * kDim + d] += slope * item(j, d);
        found.gradient[j * 2 * kDim + kDim + d] += slope * user(i, d);
      }
    }
  }
  return found;
}

Outcome Compute(const Samples& samples, const TaskConfig& task, uint64_t divisor,
                size_t block_floats = cpu::kScoreFloats) {
  const size_t count = samples.count();
  std::vector<float> predictions(count, NAN);
  std::vector<float> gradient(samples.vectors.size(), NAN);
  cpu::InBatchSoftmax loss(task, block_floats);
  const MatrixView<const float> vectors(samples.vectors.data(), count, 2 * kDim);
  // In two parts.
  const std::vector<MatrixView<const float>> items = {vectors.Columns(kDim, 2),
                                                      vectors.Columns(kDim + 2, kDim - 2)};
  const auto result = loss.Loss(vectors, items, samples.labels, predictions, divisor,
                                {gradient.data(), count, 2 * kDim});
  REQUIRE(result.ok());
  return {*result, {predictions.begin(), predictions.end()}, {gradient.begin(), gradient.end()}};
}

void CheckSame(const Outcome& found, const Outcome& wanted) {
  CHECK(found.loss == Approx(wanted.loss).epsilon(1e-5).margin(1e-7));
  for (size_t i = 0; i < wanted.predictions.size(); ++i) {
    CHECK(found.predictions[i] == Approx(wanted.predictions[i]).epsilon(1e-5).margin(1e-5));
  }
  double largest = 1e-6;
  for (const double value : wanted.gradient) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < wanted.gradient.size(); ++i) {
    CAPTURE(i, found.gradient[i], wanted.gradient[i]);
    CHECK(std::abs(found.gradient[i] - wanted.gradient[i]) <= 1e-5 * largest);
  }
}

TEST_CASE("The loss of a batch and its gradient are their definitions in f64") {
  Random random(31);
  cpu::SetComputeThreads(GENERATE(1, 3));
  for (const size_t count : {2, 7, 64, 150}) {
    for (const float temperature : {1.0F, 0.3F}) {
      Samples samples(count, random);
      for (size_t i = 0; i + 3 < count; i += 4) samples.SetItem(i + 3, i);
      CAPTURE(count, temperature);
      CheckSame(Compute(samples, TaskOf(temperature), count),
                Reference(samples, TaskOf(temperature), static_cast<double>(count)));
      // Labels of all kinds, weights, and the divisor of another batch.
      for (size_t i = 0; i < count; ++i) {
        samples.labels[i] = i % 5 == 0 ? 0.0F : i % 7 == 3 ? NAN : 0.5F * static_cast<float>(i % 3);
      }
      for (size_t i = 0; i < count; ++i)
        samples.labels.push_back(0.25F * static_cast<float>(i % 6));
      CheckSame(Compute(samples, TaskOf(temperature, 1.5F), 11),
                Reference(samples, TaskOf(temperature, 1.5F), 11));
    }
  }
  cpu::SetComputeThreads(1);
}

TEST_CASE("Blocks of scores of any size give the same loss") {
  Random random(32);
  Samples samples(37, random);
  samples.SetItem(20, 3);
  const Outcome whole = Compute(samples, TaskOf(0.5F), 37);
  for (const size_t block_floats : {size_t{1}, size_t{37}, size_t{5 * 37}, size_t{36 * 37 + 1}}) {
    CAPTURE(block_floats);
    CheckSame(Compute(samples, TaskOf(0.5F), 37, block_floats), whole);
  }
}

TEST_CASE("A batch without another item, or without a positive sample, has nothing to learn") {
  Random random(33);
  const auto check_nothing = [](const Samples& samples) {
    const Outcome found = Compute(samples, TaskOf(0.1F), samples.count());
    CHECK(found.loss == 0);
    CHECK(std::ranges::all_of(found.gradient, [](double value) { return value == 0; }));
    CHECK(std::ranges::none_of(found.predictions, [](double value) { return value == 0; }));
  };
  check_nothing(Samples(1, random));
  Samples one_item(6, random);
  for (size_t i = 1; i < 6; ++i) one_item.SetItem(i, 0);
  check_nothing(one_item);
  Samples no_positive(6, random);
  std::ranges::fill(no_positive.labels, 0.0F);
  check_nothing(no_positive);
}

TEST_CASE("A sample with label 0 has no loss, but its item competes") {
  Random random(34);
  Samples samples(2, random);
  samples.labels[1] = 0.0F;
  const Outcome found = Compute(samples, TaskOf(1.0F), 2);
  CHECK(found.loss > 0);
  const auto is_zero = [&](size_t first) {
    return std::all_of(&found.gradient[first], &found.gradient[first] + kDim,
                       [](double value) { return value == 0; });
  };
  CHECK_FALSE(is_zero(0));
  CHECK(is_zero(2 * kDim));               // The user of the second sample.
  CHECK_FALSE(is_zero(2 * kDim + kDim));  // Its item.
}

TEST_CASE("Large scores have a finite loss") {
  Random random(35);
  Samples samples(8, random);
  for (float& value : samples.vectors) value *= 100.0F;
  const Outcome found = Compute(samples, TaskOf(0.01F), 8);
  CHECK(std::isfinite(found.loss));
  CHECK(std::ranges::all_of(found.gradient, [](double value) { return std::isfinite(value); }));
}

// Towers of a user, from the numbers and feature `a`, and of an item, feature `b`.
ModelConfig TwoTowers(float temperature) {
  using Kind = LayerConfig::Kind;
  return {
      .towers = {{"user", {"dense", "embeddings.a"}, {Linear(6), Relu(), Linear(4)}},
                 {"item", {"embeddings.b"}, {Linear(67), Relu(), Linear(4), Plain(Kind::kL2Norm)}},
                 {"unit", {"user"}, {Plain(Kind::kL2Norm)}},
                 {"top", {"unit", "item"}, {Dot(4)}}},
      .loss = {.kind = LossConfig::Kind::kInBatchSoftmax, .temperature = temperature}};
}

TEST_CASE("Two towers have the loss and the gradients of PyTorch in f64") {
  Random random(36);
  const ModelInputs inputs = TestInputs(5);
  TestBatch batch(40, inputs.dense_width, inputs.embedding_width, random, 1);
  for (size_t row = 0; row < batch.rows; ++row) {
    batch.labels[row] = 0.5F * static_cast<float>(row % 4);
    // Some samples have one item.
    float* const item = &batch.embedding_values[row * batch.embedding_width + kTestDim];
    if (row % 3 == 2) std::copy_n(item - 2 * batch.embedding_width, kTestDim, item);
  }
  const TemporaryFolder folder;
  CheckAgainstTorch(TwoTowers(0.2F), inputs, batch, folder.path());
}

TEST_CASE("Two towers predict the product of their vectors over the temperature") {
  Random random(37);
  const ModelInputs inputs = TestInputs(5);
  const TestBatch batch(9, inputs.dense_width, inputs.embedding_width, random, 1);
  std::vector<std::vector<float>> outputs;
  for (const float temperature : {1.0F, 0.25F}) {
    const auto network = CreateCpuNetwork(TwoTowers(temperature), {.inputs = inputs});
    REQUIRE(network.ok());
    outputs.emplace_back(batch.rows);
    REQUIRE(OutputsFrom(**network, batch.dense(), batch.embeddings(), outputs.back()).ok());
    std::vector<float> predictions(batch.rows);
    REQUIRE(PredictFrom(**network, batch.dense(), batch.embeddings(), predictions,
                        TasksOf(TwoTowers(temperature)))
                .ok());
    CHECK(predictions == outputs.back());
    std::vector<float> trained(batch.rows);
    std::vector<float> gradient(batch.embedding_values.size());
    REQUIRE(ComputeGradients(**network, batch.dense(), batch.embeddings(), batch.labels,
                             {gradient.data(), batch.rows, batch.embedding_width}, trained)
                .ok());
    for (size_t i = 0; i < batch.rows; ++i) {
      CHECK(trained[i] == Approx(predictions[i]).epsilon(1e-5).margin(1e-5));
    }
  }
  for (size_t i = 0; i < batch.rows; ++i) CHECK(outputs[1][i] == 4 * outputs[0][i]);
}

TEST_CASE("Samples of one item are found, wherever they are in the batch") {
  const uint32_t threads = GENERATE(1, 3);
  for (const size_t rows : {2, 5, 97, 150, 1'000}) {
    CAPTURE(threads, rows);
    Random random(38);
    const ModelInputs inputs = TestInputs(5);
    TestBatch batch(rows, inputs.dense_width, inputs.embedding_width, random, 1);
    std::ranges::fill(batch.labels, 1.0F);
    for (size_t row = 1; row < rows; ++row) {
      std::copy_n(&batch.embedding_values[kTestDim], kTestDim,
                  &batch.embedding_values[row * batch.embedding_width + kTestDim]);
    }
    const auto network = CreateCpuNetwork(TwoTowers(0.1F), {.inputs = inputs, .threads = threads});
    REQUIRE(network.ok());
    std::vector<float> predictions(rows);
    std::vector<float> gradient(batch.embedding_values.size());
    const auto result =
        ComputeGradients(**network, batch.dense(), batch.embeddings(), batch.labels,
                         {gradient.data(), rows, batch.embedding_width}, predictions);
    REQUIRE(result.ok());
    CHECK(result->loss == 0);
  }
}

TEST_CASE("Two towers learn which item is a user's") {
  Random random(39);
  const ModelInputs inputs = TestInputs(5);
  TestBatch batch(16, inputs.dense_width, inputs.embedding_width, random, 1);
  std::ranges::fill(batch.labels, 1.0F);
  DenseNetworkOptions options{.inputs = inputs};
  options.optimizer = {.kind = DenseOptimizerConfig::Kind::kAdam};
  const auto network = CreateCpuNetwork(TwoTowers(0.2F), options);
  REQUIRE(network.ok());
  std::vector<float> predictions(batch.rows);
  std::vector<float> gradient(batch.embedding_values.size());
  std::vector<double> losses;
  for (size_t step = 0; step < 300; ++step) {
    const auto result =
        ComputeGradients(**network, batch.dense(), batch.embeddings(), batch.labels,
                         {gradient.data(), batch.rows, batch.embedding_width}, predictions);
    REQUIRE(result.ok());
    losses.push_back(result->loss);
    REQUIRE((*network)->ApplyGradients(0.02F).ok());
  }
  CHECK(losses.front() > std::log(16.0) / 2);
  CHECK(losses.back() < losses.front() / 2);
}

TEST_CASE("Another last tower is refused by the loss in_batch_softmax") {
  const auto error_of = [](const std::vector<LayerConfig>& layers) {
    ModelConfig model = TwoTowers(1.0F);
    model.towers.back().layers = layers;
    const auto network = CreateCpuNetwork(model, {.inputs = TestInputs(5)});
    return std::string(network.status().message());
  };
  const char* const error =
      "model: tower 'top' is not one dot of two vectors; in_batch_softmax needs a user's and an "
      "item's, of one width";
  CHECK(error_of({Dot(4)}).empty());
  CHECK(error_of({Linear(1)}) == error);
  CHECK(error_of({Dot(4), Linear(1)}) == error);
  CHECK(error_of({Dot(2), Sum()}) == error);
}

}  // namespace
}  // namespace simurgh::testing
