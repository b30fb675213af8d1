// Several ranks that train one step together, each with its part of the batch.

#include <cmath>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "base/mutex.h"
#include "nn/dense_network.h"
#include "tests/unit/nn/test_backend.h"
#include "tests/unit/nn/test_models.h"

namespace simurgh::testing {
namespace {

constexpr size_t kDense = 5;
constexpr size_t kEmbeddings = kTestFeatures * kTestDim;
constexpr float kRate = 0.1F;

// Sums over threads, in the order of the ranks.
class ThreadSum {
 public:
  explicit ThreadSum(size_t ranks) : parts_(ranks) {}

  Status Sum(size_t rank, std::span<double> values) {
    const MutexLock lock(mutex_);
    parts_[rank].assign(values.begin(), values.end());
    const size_t round = round_;
    if (++arrived_ == parts_.size()) {
      arrived_ = 0;
      ++round_;
      sums_.assign(values.size(), 0.0);
      for (const auto& part : parts_) {
        for (size_t i = 0; i < sums_.size(); ++i) sums_[i] += part.at(i);
      }
      changed_.NotifyAll();
    }
    while (round == round_) changed_.Wait(mutex_);
    std::ranges::copy(sums_, values.begin());
    return absl::OkStatus();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  size_t arrived_ = 0;
  size_t round_ = 0;
  std::vector<std::vector<double>> parts_;
  std::vector<double> sums_;
};

std::unique_ptr<DenseNetwork> MakeNetwork() {
  const ModelConfig model = Chain(
      {Linear(16), BatchNorm(), Relu(), Linear(8), Dice(), Linear(8), BatchNorm(), Linear(1)});
  auto network = CreateTestNetwork(model, {.inputs = TestInputs(kDense), .seed = 3});
  REQUIRE(network.ok());
  return *std::move(network);
}

struct Part {
  std::vector<float> gradients;
  std::vector<float> embedding_gradients;
  std::vector<float> statistics;
  bool ok = false;
};

// Rows [first, first + rows) of the batch, as one of several ranks.
Part TakePart(DenseNetwork& network, const TestBatch& batch, size_t first, size_t rows,
              const RankStep& step) {
  Part part;
  const size_t tasks = batch.labels.size() / batch.rows;
  part.embedding_gradients.resize(rows * batch.embedding_width);
  std::vector<float> probabilities(rows * tasks);
  const auto result = ComputeGradients(
      network, batch.dense().Rows(first, rows), batch.embeddings().Rows(first, rows),
      std::span(batch.labels).subspan(first * tasks, rows * tasks),
      {part.embedding_gradients.data(), rows, batch.embedding_width}, probabilities, step);
  part.gradients.assign(network.gradients().begin(), network.gradients().end());
  part.ok = result.ok() && network.ApplyGradients(kRate).ok();
  part.statistics.assign(network.statistics().begin(), network.statistics().end());
  return part;
}

double LargestDistance(std::span<const float> a, std::span<const float> b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(double{a[i]} - double{b[i]}));
  }
  return largest;
}

TEST_CASE("ranks with parts of a batch and its statistics train as one with the whole batch") {
  const std::vector<size_t> sizes =
      GENERATE(std::vector<size_t>{64, 64}, std::vector<size_t>{100, 28, 0},
               std::vector<size_t>{32, 32, 32, 32}, std::vector<size_t>{1, 127});
  Random random(7);
  const TestBatch batch(128, kDense, kEmbeddings, random);
  const auto whole_network = MakeNetwork();
  const Part whole = TakePart(*whole_network, batch, 0, 128, {});
  REQUIRE(whole.ok);

  ThreadSum sum(sizes.size());
  std::vector<std::unique_ptr<DenseNetwork>> networks;
  for (size_t i = 0; i < sizes.size(); ++i) networks.push_back(MakeNetwork());
  std::vector<Part> parts(sizes.size());
  std::vector<std::thread> threads;
  size_t first = 0;
  for (size_t rank = 0; rank < sizes.size(); ++rank) {
    threads.emplace_back([&, rank, first] {
      const RankStep step{.global_samples = 128, .sum = [&, rank](std::span<double> values) {
                            return sum.Sum(rank, values);
                          }};
      parts[rank] = TakePart(*networks[rank], batch, first, sizes[rank], step);
    });
    first += sizes[rank];
  }
  for (std::thread& thread : threads) thread.join();

  std::vector<float> gradients(whole.gradients.size());
  std::vector<float> embedding_gradients;
  for (const Part& part : parts) {
    REQUIRE(part.ok);
    for (size_t i = 0; i < gradients.size(); ++i) gradients[i] += part.gradients[i];
    embedding_gradients.insert(embedding_gradients.end(), part.embedding_gradients.begin(),
                               part.embedding_gradients.end());
    CHECK(LargestDistance(part.statistics, whole.statistics) < 1e-6);
  }
  CHECK(LargestDistance(gradients, whole.gradients) < 1e-5);
  CHECK(LargestDistance(embedding_gradients, whole.embedding_gradients) < 1e-6);
}

TEST_CASE("ranks share the statistics of dice over the rows of histories") {
  // In one case the second rank has no sample and the third one no row, in the other no rank has a
  // row. Running statistics then keep their values. The third rank computes on the CPU.
  constexpr size_t kFirst[] = {0, 7, 7, 9};
  constexpr size_t kRows = 9;
  const bool has_rows = GENERATE(true, false);
  Random random(4);
  const TestBatch batch = SequenceBatch(
      kRows, random, [&](size_t row) { return has_rows && row < 7 ? row % (kTestPlaces + 1) : 0; },
      HistoryInputs());
  const auto train = [&](size_t first, size_t end, bool on_cpu, const RankStep& step) {
    Part part;
    const DenseNetworkOptions options{.inputs = HistoryInputs()};
    const auto network =
        on_cpu ? CreateCpuNetwork(Histories(), options) : CreateTestNetwork(Histories(), options);
    if (!network.ok()) return part;
    const std::vector<float> before((*network)->statistics().begin(),
                                    (*network)->statistics().end());
    part = TakePart(**network, batch, first, end - first, step);
    if (!has_rows && part.statistics != before) part.ok = false;
    return part;
  };
  const Part wanted = train(0, kRows, false, {});
  REQUIRE(wanted.ok);
  ThreadSum sum(3);
  std::vector<Part> parts(3);
  std::vector<std::thread> ranks;
  for (size_t rank = 0; rank < 3; ++rank) {
    ranks.emplace_back([&, rank] {
      parts[rank] = train(kFirst[rank], kFirst[rank + 1], rank == 2,
                          {.global_samples = kRows, .sum = [&, rank](std::span<double> values) {
                             return sum.Sum(rank, values);
                           }});
    });
  }
  for (std::thread& rank : ranks) rank.join();
  std::vector<float> gradients(wanted.gradients.size());
  for (const Part& part : parts) {
    REQUIRE(part.ok);
    for (size_t i = 0; i < gradients.size(); ++i) gradients[i] += part.gradients[i];
    CHECK(LargestDistance(part.statistics, wanted.statistics) < 1e-6);
  }
  CHECK(LargestDistance(gradients, wanted.gradients) < 1e-6);
}

TEST_CASE("a rank divides its gradients by the samples of all ranks") {
  Random random(8);
  const TestBatch batch(32, kDense, kEmbeddings, random);
  const Part alone = TakePart(*MakeNetwork(), batch, 0, 32, {});
  const Part one_of_four = TakePart(*MakeNetwork(), batch, 0, 32, {.global_samples = 128});
  for (size_t i = 0; i < alone.gradients.size(); ++i) {
    REQUIRE(one_of_four.gradients[i] == Approx(alone.gradients[i] / 4).margin(1e-9));
  }
}

TEST_CASE("the divisor of a batch that is not full leaves its statistics as they are") {
  Random random(8);
  const TestBatch batch(32, kDense, kEmbeddings, random);
  const RankStep shares{.global_samples = 32,
                        .sum = [](std::span<double>) { return absl::OkStatus(); }};
  RankStep short_batch = shares;
  short_batch.divisor = 128;
  const Part full = TakePart(*MakeNetwork(), batch, 0, 32, shares);
  const Part part = TakePart(*MakeNetwork(), batch, 0, 32, short_batch);
  REQUIRE(part.ok);
  CHECK(part.statistics == full.statistics);
  for (size_t i = 0; i < full.gradients.size(); ++i) {
    REQUIRE(part.gradients[i] == Approx(full.gradients[i] / 4).margin(1e-9));
  }
}

TEST_CASE("gradients are reported from the last to the first, with and without samples") {
  Random random(9);
  const TestBatch batch(16, kDense, kEmbeddings, random);
  std::vector<std::vector<std::pair<size_t, size_t>>> told(2);
  for (const size_t i : {0, 1}) {
    const auto network = MakeNetwork();
    std::vector<float> as_told(network->gradients().size(), -1.0F);
    const RankStep step{.global_samples = 16, .on_gradients = [&](size_t first, size_t count) {
                          told[i].emplace_back(first, count);
                          std::ranges::copy(network->gradients().subspan(first, count),
                                            as_told.begin() + static_cast<std::ptrdiff_t>(first));
                        }};
    const Part part = TakePart(*network, batch, 0, i == 0 ? 16 : 0, step);
    REQUIRE(part.ok);
    // Reported gradients are final.
    CHECK(as_told == part.gradients);
    size_t end = as_told.size();
    for (const auto& [first, count] : told[i]) {
      CHECK(first + count == end);
      end = first;
    }
    CHECK(end == 0);
  }
  CHECK(told[0] == told[1]);
}

TEST_CASE("a rank without samples has zero gradients and keeps its statistics") {
  Random random(10);
  const TestBatch batch(1, kDense, kEmbeddings, random);
  const auto network = MakeNetwork();
  const std::vector<float> before(network->statistics().begin(), network->statistics().end());
  const Part part = TakePart(*network, batch, 0, 0, {.global_samples = 64});
  CHECK(part.ok);
  CHECK(part.statistics == before);
  CHECK(std::ranges::all_of(part.gradients, [](float g) { return g == 0.0F; }));
}

TEST_CASE("a failed sum ends the step") {
  Random random(11);
  const TestBatch batch(8, kDense, kEmbeddings, random);
  const RankStep step{.global_samples = 8, .sum = [](std::span<double>) {
                        return absl::UnavailableError("a rank is gone");
                      }};
  CHECK_FALSE(TakePart(*MakeNetwork(), batch, 0, 8, step).ok);
  CHECK_FALSE(TakePart(*MakeNetwork(), batch, 0, 0, step).ok);
}

}  // namespace
}  // namespace simurgh::testing
