// The loss of retrieval against its definition in f64.

#include "nn/cpu/in_batch_softmax.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "collective/collective.h"
#include "nn/cpu/compute_threads.h"
#include "nn/item_frequency.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/collective/rank_threads.h"
#include "tests/unit/nn/test_models.h"
#include "tests/unit/nn/torch_check.h"
#include "tests/unit/nn/two_tower_run.h"

namespace simurgh::testing {
namespace {

constexpr size_t kDim = 5;

// Samples with vectors of users and items. Each has another user and another item at first.
struct Samples {
  Samples(size_t count, Random& random)
      : vectors(NormalValues(count * 2 * kDim, random)), labels(count, 1.0F) {
    for (size_t i = 0; i < count; ++i) {
      users.push_back(random());
      items.push_back(random());
    }
  }

  size_t count() const { return users.size(); }
  void SetItem(size_t to, size_t from) {
    std::copy_n(&vectors[from * 2 * kDim + kDim], kDim, &vectors[to * 2 * kDim + kDim]);
    items[to] = items[from];
  }
  // Whether item j has no part in the loss of sample i.
  bool IsLeftOut(size_t i, size_t j) const {
    if (i == j) return false;
    if (items[i] == items[j]) return true;
    for (size_t k = 0; k < count() - uniform; ++k) {
      if (users[k] == users[i] && items[k] == items[j] && labels[k] > 0) return true;
    }
    return false;
  }
  // Samples [first, first + size).
  Samples Part(size_t first, size_t size) const {
    Samples part(*this);
    const auto keep = [&](auto& values, size_t width) {
      values.erase(values.begin() + static_cast<ptrdiff_t>((first + size) * width), values.end());
      values.erase(values.begin(), values.begin() + static_cast<ptrdiff_t>(first * width));
    };
    keep(part.vectors, 2 * kDim);
    keep(part.users, 1);
    keep(part.items, 1);
    keep(part.labels, 1);
    return part;
  }

  std::vector<float> vectors;
  std::vector<float> labels;  // Then weights, if any.
  std::vector<uint64_t> users;
  std::vector<uint64_t> items;
  size_t uniform = 0;  // The last ones have an item only.
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

// The definition, sample by sample. corrections: log p of each sample's item; empty: 0.
Outcome Reference(const Samples& samples, const TaskConfig& task, double divisor,
                  const std::vector<double>& corrections = {}) {
  const size_t count = samples.count();
  const size_t scored = count - samples.uniform;
  Outcome found{.loss = 0,
                .predictions = std::vector<double>(count),
                .gradient = std::vector<double>(samples.vectors.size(), 0.0)};
  const auto user = [&](size_t i, size_t d) { return double{samples.vectors[i * 2 * kDim + d]}; };
  const auto item = [&](size_t i, size_t d) { return user(i, kDim + d); };
  for (size_t i = 0; i < scored; ++i) {
    std::vector<double> shares(count, 0.0);
    double sum = 0;
    double own = 0;
    for (size_t j = 0; j < count; ++j) {
      double score = 0;
      for (size_t d = 0; d < kDim; ++d) score += user(i, d) * item(j, d);
      score /= double{task.loss.temperature};
      if (i == j) found.predictions[i] = score;
      if (!corrections.empty()) score -= corrections[j];
      if (i == j) own = score;
      if (samples.IsLeftOut(i, j)) continue;
      sum += shares[j] = std::exp(score);
    }
    const double label = std::isnan(samples.labels[i]) ? 0.0 : double{samples.labels[i]};
    const double weight = samples.labels.size() > count ? double{samples.labels[count + i]} : 1.0;
    const double factor = double{task.weight} * label * weight;
    found.loss += factor * (std::log(sum) - own) / static_cast<double>(scored);
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

Outcome Compute(const Samples& samples, cpu::InBatchSoftmax& loss, uint64_t divisor,
                std::span<const float> state = {}, RankStep step = {}) {
  const size_t count = samples.count();
  step.user_keys = samples.users;
  step.item_keys = samples.items;
  step.uniform_negatives = samples.uniform;
  std::vector<float> predictions(count, NAN);
  std::vector<float> gradient(samples.vectors.size(), NAN);
  const MatrixView<const float> vectors(samples.vectors.data(), count, 2 * kDim);
  const auto result = loss.Loss(vectors, samples.labels, step, state, predictions, divisor,
                                {gradient.data(), count, 2 * kDim});
  if (!result.ok()) throw std::runtime_error(result.status().ToString());
  return {*result, {predictions.begin(), predictions.end()}, {gradient.begin(), gradient.end()}};
}

Outcome Compute(const Samples& samples, const TaskConfig& task, uint64_t divisor,
                size_t block_floats = cpu::kScoreFloats) {
  cpu::InBatchSoftmax loss(task, block_floats);
  return Compute(samples, loss, divisor);
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
      // Users with several samples, of which some are positive.
      for (size_t i = 0; i + 5 < count; i += 3) samples.users[i + 5] = samples.users[i];
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

TEST_CASE("Items that a user has elsewhere in the batch are no negatives") {
  Random random(40);
  Samples samples(4, random);
  samples.users[1] = samples.users[0];
  samples.SetItem(2, 1);  // Another user's sample of an item of user 0.
  CHECK(samples.IsLeftOut(0, 1));
  CHECK(samples.IsLeftOut(0, 2));
  CHECK_FALSE(samples.IsLeftOut(2, 0));
  CheckSame(Compute(samples, TaskOf(0.5F), 4), Reference(samples, TaskOf(0.5F), 4));
  samples.labels[1] = 0.0F;  // The user has seen it only.
  CHECK_FALSE(samples.IsLeftOut(0, 1));
  CheckSame(Compute(samples, TaskOf(0.5F), 4), Reference(samples, TaskOf(0.5F), 4));
}

// The estimate by its definition, for items that share no slot.
class Frequencies {
 public:
  void Add(uint64_t step, std::span<const uint64_t> items) {
    for (const uint64_t item : items) {
      Gap& gap = gaps_[item];
      gap.count += 1;
      const double rate = std::max(0.01, 1 / gap.count);
      gap.mean += rate * (static_cast<double>(step + 1) - gap.last - gap.mean);
      gap.last = static_cast<double>(step + 1);
    }
  }
  double Of(uint64_t item) const {
    const auto found = gaps_.find(item);
    return found == gaps_.end() ? 0.0 : 1 / found->second.mean;
  }
  std::vector<double> Corrections(std::span<const uint64_t> items, double rate = 0) const {
    std::vector<double> corrections;
    for (const uint64_t item : items) corrections.push_back(std::log(Of(item) + rate));
    return corrections;
  }

 private:
  struct Gap {
    double mean = 0;
    double last = 0;
    double count = 0;
  };
  std::map<uint64_t, Gap> gaps_;
};

// A batch of a step: few items, of which the first are the most frequent, and few users.
Samples StepOf(size_t count, Random& random) {
  Samples samples(count, random);
  for (size_t i = 0; i < count; ++i) {
    samples.items[i] = random.Below(1 + random.Below(30));
    samples.users[i] = random.Below(50);
    samples.labels[i] = random.Below(4) == 0 ? 0.0F : 1.0F;
    for (size_t j = 0; j < i; ++j) {
      if (samples.items[j] == samples.items[i]) samples.SetItem(i, j);
    }
  }
  return samples;
}

TEST_CASE("Scores are corrected by the estimated frequencies of the items") {
  Random random(41);
  cpu::InBatchSoftmax loss(TaskOf(0.4F));
  std::vector<float> state(ItemFrequency::kStateSize, 0.0F);
  Frequencies frequencies;
  for (uint64_t step = 0; step < 300; ++step) {
    const Samples samples = StepOf(16, random);
    Frequencies next = frequencies;
    next.Add(step, samples.items);
    const bool is_applied = step % 7 != 3;
    CAPTURE(step);
    const auto found = Compute(samples, loss, 16, state, {.step = step});
    CheckSame(found, Reference(samples, TaskOf(0.4F), 16, next.Corrections(samples.items)));
    if (!is_applied) continue;  // The next step replaces it.
    loss.Commit(state);
    frequencies = next;
  }
}

TEST_CASE("Uniform negatives compete, and are no samples") {
  Random random(42);
  const TaskConfig task = TaskOf(0.4F);
  std::vector<float> state(ItemFrequency::kStateSize, 0.0F);
  cpu::InBatchSoftmax loss(task);
  Samples samples = StepOf(20, random);
  samples.uniform = 8;
  samples.items[15] = 1'000;  // No sample has it.
  samples.users[14] = samples.users[0];
  Frequencies frequencies;
  frequencies.Add(0, std::span(samples.items).first(12));
  const double rate = 0.25;
  for (const size_t uniform : {size_t{8}, size_t{20}}) {
    samples.uniform = uniform;
    const bool corrects = uniform == 8;
    const auto found =
        Compute(samples, loss, 12, corrects ? state : std::span<float>(), {.uniform_rate = rate});
    const Outcome wanted =
        Reference(samples, task, 12,
                  corrects ? frequencies.Corrections(samples.items, rate) : std::vector<double>());
    if (corrects) CHECK(found.loss > 0);
    if (corrects) CheckSame(found, wanted);
    CHECK(std::ranges::all_of(std::span(found.predictions).subspan(20 - uniform),
                              [](double value) { return value == 0; }));
    if (!corrects) CHECK(found.loss == 0);
    if (!corrects) {
      CHECK(std::ranges::all_of(found.gradient, [](double value) { return value == 0; }));
    }
  }
}

TEST_CASE("Ranks have the loss of the global batch") {
  const std::vector<size_t> sizes =
      GENERATE(std::vector<size_t>{8, 8}, std::vector<size_t>{9, 0, 4}, std::vector<size_t>{0, 3});
  const TaskConfig task = TaskOf(0.4F);
  Random random(43);
  std::vector<Samples> steps;
  size_t count = 0;
  for (const size_t size : sizes) count += size;
  for (size_t step = 0; step < 5; ++step) steps.push_back(StepOf(count, random));
  std::vector<Outcome> wanted;
  cpu::InBatchSoftmax one(task);
  std::vector<float> state(ItemFrequency::kStateSize, 0.0F);
  for (size_t step = 0; step < steps.size(); ++step) {
    wanted.push_back(Compute(steps[step], one, count, state, {.step = step}));
    one.Commit(state);
  }
  const auto ranks = static_cast<uint32_t>(sizes.size());
  std::vector<std::vector<Outcome>> found(ranks);
  std::vector<std::vector<float>> states(ranks, std::vector<float>(state.size(), 0.0F));
  const auto train = [&](std::unique_ptr<Collective>& collective) -> Status {
    const uint32_t rank = collective->rank();
    cpu::InBatchSoftmax loss(task);
    size_t first = 0;
    for (uint32_t before = 0; before < rank; ++before) first += sizes[before];
    for (size_t step = 0; step < steps.size(); ++step) {
      const RankStep own{.step = step,
                         .rank = rank,
                         .ranks = ranks,
                         .gather =
                             [&](std::span<const std::byte> bytes, std::span<std::byte> all) {
                               return collective->Gather(Channel::kStep, bytes, all);
                             },
                         .sum_floats =
                             [&](std::span<float> values) {
                               return collective->Sum(Channel::kStep, values, ReducePrecision::kF32,
                                                      {});
                             }};
      found[rank].push_back(
          Compute(steps[step].Part(first, sizes[rank]), loss, count, states[rank], own));
      loss.Commit(states[rank]);
    }
    return absl::OkStatus();
  };
  for (const Status& status : RunRanks(ranks, train)) {
    CAPTURE(status.ToString());
    REQUIRE(status.ok());
  }
  for (size_t step = 0; step < steps.size(); ++step) {
    CAPTURE(step);
    Outcome joined;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      const Outcome& own = found[rank][step];
      joined.loss += own.loss * static_cast<double>(sizes[rank]) / static_cast<double>(count);
      joined.predictions.insert(joined.predictions.end(), own.predictions.begin(),
                                own.predictions.end());
      joined.gradient.insert(joined.gradient.end(), own.gradient.begin(), own.gradient.end());
    }
    CheckSame(joined, wanted[step]);
  }
  for (const std::vector<float>& own : states) CHECK(own == state);
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

// Keys of a batch's samples: each its own.
struct Keys {
  explicit Keys(size_t count) {
    for (size_t i = 0; i < count; ++i) {
      users.push_back(i);
      items.push_back(1'000'000 + i);
    }
  }
  RankStep step() const { return {.user_keys = users, .item_keys = items}; }

  std::vector<uint64_t> users;
  std::vector<uint64_t> items;
};

TEST_CASE("Two towers have the loss and the gradients of PyTorch in f64") {
  Random random(36);
  const ModelInputs inputs = TestInputs(5);
  TestBatch batch(40, inputs.dense_width, inputs.embedding_width, random, 1);
  Keys keys(batch.rows);
  for (size_t row = 0; row < batch.rows; ++row) {
    batch.labels[row] = 0.5F * static_cast<float>(row % 4);
    // Some samples have one item.
    float* const item = &batch.embedding_values[row * batch.embedding_width + kTestDim];
    if (row % 3 != 2) continue;
    std::copy_n(item - 2 * batch.embedding_width, kTestDim, item);
    keys.items[row] = keys.items[row - 2];
  }
  for (const auto correction : {LossConfig::Correction::kNone, LossConfig::Correction::kLogQ}) {
    ModelConfig model = TwoTowerModel(0.2F);
    model.loss.correction = correction;
    const TemporaryFolder folder;
    CheckAgainstTorch(model, inputs, batch, folder.path(), keys.step());
  }
}

TEST_CASE("Another last tower is refused by the loss in_batch_softmax") {
  const auto error_of = [](const std::vector<LayerConfig>& layers) {
    ModelConfig model = TwoTowerModel(1.0F);
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
