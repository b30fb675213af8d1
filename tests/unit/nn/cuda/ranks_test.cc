#include <algorithm>
#include <functional>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "nn/cuda/loss_scale.h"
#include "nn/cuda/memory_plan.h"
#include "tests/unit/collective/rank_board.h"
#include "tests/unit/collective/rank_threads.h"
#include "tests/unit/nn/cuda/host_backend.h"
#include "tests/unit/nn/cuda/training_run.h"
#include "tests/unit/nn/two_tower_run.h"

// Networks of several ranks that sum on simulated devices, with a board in place of NCCL.
namespace simurgh::testing {
namespace {

using Precision = AllReduceConfig::Precision;

constexpr uint64_t kSteps = 3;
constexpr size_t kDense = 3;
constexpr size_t kEmbeddings = kTestFeatures * kTestDim;

class BoardSums final : public DeviceSums {
 public:
  BoardSums(RankBoard& board, uint32_t rank) : board_(board), rank_(rank) {}

  uint32_t rank() const override { return rank_; }
  uint32_t ranks() const override { return board_.ranks(); }
  Status Sum(std::span<float> values, void*) override { return Of(board_.Sum(rank_, values)); }
  Status Sum(std::span<double> values, void*) override { return Of(board_.Sum(rank_, values)); }
  Status Exchange(const std::byte* outgoing, std::byte* incoming, size_t part_bytes,
                  void*) override {
    return Of(board_.Exchange(rank_, outgoing, incoming, part_bytes));
  }
  Status Gather(std::span<const std::byte> own, std::byte* all, void*) override {
    return Of(board_.Gather(rank_, own, all));
  }
  void StepEnqueued() override { ++enqueued_; }
  void StepEnded() override { ++ended_; }
  Status Check() override { return Of(!failed_); }
  void GiveUp(const Status& reason) override { given_up_ = reason; }

  uint64_t enqueued_ = 0;
  uint64_t ended_ = 0;
  Status given_up_ = absl::OkStatus();

 private:
  Status Of(bool done) {
    failed_ = failed_ || !done;
    return failed_ ? absl::UnavailableError("rank 1 is gone") : absl::OkStatus();
  }

  RankBoard& board_;
  const uint32_t rank_;
  bool failed_ = false;
};

ReducePrecision CollectivePrecision(Precision precision) {
  switch (precision) {
    case Precision::kF32:
      return ReducePrecision::kF32;
    case Precision::kBf16:
      return ReducePrecision::kBf16;
    case Precision::kInt8:
      return ReducePrecision::kInt8;
  }
  return ReducePrecision::kF32;
}

struct Case {
  uint32_t ranks;
  AllReduceConfig allreduce;
  bool overlap;
  bool sync_statistics;
  ComputePrecision compute = ComputePrecision::kF32;
  uint64_t left_out = kSteps;  // A step that is not applied.
  float last_scale = 0;        // The last rank's loss scale in the first step; 0: as the others'.
  bool histories = false;      // Train layers of sequences.
};

struct RankResult {
  Status status = absl::OkStatus();
  std::vector<float> gradients;  // By step.
  std::vector<float> parameters;
  std::vector<float> statistics;
};

ModelConfig RankModel(const Case& c) {
  if (c.histories) return Histories();
  return Chain({Linear(70), BatchNorm(), Relu(), Linear(33), Dice(), Linear(1)});
}

ModelInputs RankInputs(const Case& c) { return c.histories ? HistoryInputs() : TestInputs(kDense); }

// In the second step the last rank has samples, but no rows of sequences.
TestBatch BatchOf(const Case& c, uint64_t step, uint32_t rank, size_t rows) {
  Random random(100 * step + rank);
  if (!c.histories) return TestBatch(rows, kDense, kEmbeddings, random);
  const bool has_rows = step != 1 || rank + 1 < c.ranks;
  return SequenceBatch(
      rows, random, [&](size_t row) { return has_rows ? row % (kTestPlaces + 1) : 0; },
      HistoryInputs());
}

DenseNetworkOptions RankOptions(const Case& c) {
  DenseNetworkOptions options;
  options.inputs = RankInputs(c);
  options.precision = c.compute;
  return options;
}

// Trains kSteps; in the last step the last rank has no samples. finish: sums the gradients of a
// step unless summed already.
RankResult TrainRank(DenseNetwork& network, uint32_t rank, const Case& c,
                     const std::function<Status(DenseNetwork&, bool applied)>& finish,
                     RankStep ranks) {
  RankResult result;
  for (uint64_t step = 0; step < kSteps; ++step) {
    const bool none = step == kSteps - 1 && rank + 1 == c.ranks;
    const size_t rows = none ? 0 : 20 + 3 * rank;
    const TestBatch batch = BatchOf(c, step, rank, rows);
    std::vector<float> embedding_gradient(batch.embedding_values.size());
    std::vector<float> probabilities(batch.labels.size());
    ranks.global_samples = 64;
    const auto done = ComputeGradients(network, batch.dense(), batch.embeddings(), batch.labels,
                                       {embedding_gradient.data(), rows, batch.embedding_width},
                                       probabilities, ranks);
    result.status = done.status();
    if (result.status.ok()) result.status = finish(network, step != c.left_out);
    if (!result.status.ok()) return result;
    const auto gradients = network.gradients();
    result.gradients.insert(result.gradients.end(), gradients.begin(), gradients.end());
    if (step == c.left_out) continue;
    result.status = network.ApplyGradients(0.05F);
    if (!result.status.ok()) return result;
  }
  result.parameters.assign(network.parameters().begin(), network.parameters().end());
  result.statistics.assign(network.statistics().begin(), network.statistics().end());
  return result;
}

std::vector<RankResult> TrainOnDevices(const Case& c) {
  RankBoard board(c.ranks);
  std::vector<RankResult> results(c.ranks);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < c.ranks; ++rank) {
    threads.emplace_back([&, rank] {
      auto network = CreateHostNetwork(RankModel(c), RankOptions(c), {});
      BoardSums sums(board, rank);
      results[rank].status =
          network.ok() ? (*network)->JoinRanks({&sums, c.allreduce, c.overlap}) : network.status();
      if (!results[rank].status.ok()) return;
      if (c.last_scale > 0 && rank + 1 == c.ranks) {
        const std::span<const float> weights = (*network)->parameters();
        const std::vector<float> parameters(weights.begin(), weights.end());
        std::vector<float> state((*network)->state().begin(), (*network)->state().end());
        std::ranges::copy(std::vector<float>{c.last_scale, 1 / c.last_scale, 0}, state.end() - 3);
        results[rank].status = (*network)->Restore(parameters, state);
        if (!results[rank].status.ok()) return;
      }
      RankStep step;
      if (c.sync_statistics) {
        step.sum = [](std::span<double>) { return absl::InternalError("the host was asked"); };
      }
      const auto nothing = [](DenseNetwork&, bool) { return absl::OkStatus(); };
      results[rank] = TrainRank(**network, rank, c, nothing, step);
      (*network)->LeaveRanks();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

// The same with sums on the host, over the network.
std::vector<RankResult> TrainOnHosts(const Case& c) {
  std::vector<RankResult> results(c.ranks);
  const std::vector<Status> ended =
      RunRanks(c.ranks, [&](std::unique_ptr<Collective>& collective) -> Status {
        SIMURGH_ASSIGN_OR_RETURN(const auto network,
                                 CreateHostNetwork(RankModel(c), RankOptions(c), {}));
        SIMURGH_ASSIGN_OR_RETURN(const ModelPlan plan, PlanModel(RankModel(c), RankInputs(c)));
        std::vector<float> residuals(plan.parameter_count);
        RankStep step{.on_gradients = [](size_t, size_t) {}};
        if (c.sync_statistics) {
          step.sum = [&](std::span<double> values) {
            return collective->Sum(Channel::kStep, values);
          };
        }
        const auto finish = [&](DenseNetwork& own, bool applied) -> Status {
          for (const ColumnRange& bucket : cuda::PlanBuckets(plan, c.allreduce.bucket_bytes / 4)) {
            SIMURGH_RETURN_IF_ERROR(collective->Sum(
                Channel::kGradients, own.gradients().subspan(bucket.first, bucket.count),
                CollectivePrecision(c.allreduce.precision),
                std::span(residuals).subspan(bucket.first, bucket.count)));
          }
          if (!applied) std::ranges::fill(residuals, 0.0F);
          return absl::OkStatus();
        };
        RankResult& result = results[collective->rank()];
        result = TrainRank(*network, collective->rank(), c, finish, step);
        return absl::OkStatus();
      });
  for (uint32_t rank = 0; rank < c.ranks; ++rank) {
    if (results[rank].status.ok()) results[rank].status = ended[rank];
  }
  return results;
}

TEST_CASE("sums on devices have the bits of sums on hosts, in every precision") {
  std::vector<Case> cases;
  for (const uint32_t ranks : {1, 2, 3}) {
    for (const Precision precision : {Precision::kF32, Precision::kBf16, Precision::kInt8}) {
      // Buckets of one layer, of several layers, of all layers.
      for (const uint32_t bucket_bytes : {4U, 3'000U, 1U << 20}) {
        cases.push_back({.ranks = ranks,
                         .allreduce = {precision, bucket_bytes},
                         .overlap = bucket_bytes != 3'000U,
                         .sync_statistics = bucket_bytes != 4U});
      }
    }
  }
  cases.push_back({2, {Precision::kBf16, 3'000}, true, true, ComputePrecision::kBf16});
  // Where gradients are scaled, statistics are not.
  cases.push_back({2, {Precision::kF32, 3'000}, true, true, ComputePrecision::kF16});
  for (const ComputePrecision compute : {ComputePrecision::kF32, ComputePrecision::kF16}) {
    for (const bool sync_statistics : {true, false}) {
      cases.push_back({.ranks = 3,
                       .allreduce = {Precision::kF32, 3'000},
                       .overlap = true,
                       .sync_statistics = sync_statistics,
                       .compute = compute,
                       .histories = true});
    }
  }
  for (const Precision precision : {Precision::kF32, Precision::kInt8}) {
    cases.push_back({.ranks = 2,
                     .allreduce = {precision, 3'000},
                     .overlap = true,
                     .sync_statistics = false,
                     .left_out = 1});
  }
  for (const Case& c : cases) {
    CAPTURE(c.histories, c.left_out, c.ranks, static_cast<int>(c.allreduce.precision),
            c.allreduce.bucket_bytes);
    const std::vector<RankResult> actual = TrainOnDevices(c);
    const std::vector<RankResult> expected = c.ranks > 1 ? TrainOnHosts(c) : actual;
    for (uint32_t rank = 0; rank < c.ranks; ++rank) {
      CAPTURE(rank, actual[rank].status.message(), expected[rank].status.message());
      REQUIRE(actual[rank].status.ok());
      REQUIRE(expected[rank].status.ok());
      CHECK(SameBits(actual[rank].gradients, expected[rank].gradients));
      CHECK(SameBits(actual[rank].parameters, actual[0].parameters));
      CHECK(SameBits(actual[rank].parameters, expected[rank].parameters));
      CHECK(SameBits(actual[rank].statistics, expected[rank].statistics));
    }
  }
}

TEST_CASE("ranks with different loss scales sum the gradients of batch norm as with equal ones") {
  Case c{2, {}, true, true, ComputePrecision::kF16};
  const std::vector<RankResult> expected = TrainOnDevices(c);
  c.last_scale = cuda::kFirstLossScale / 8;
  const std::vector<RankResult> actual = TrainOnDevices(c);
  for (uint32_t rank = 0; rank < c.ranks; ++rank) {
    REQUIRE(actual[rank].status.ok());
    REQUIRE(expected[rank].status.ok());
    // The first layer's, which batch norm computes; the scales round in other places.
    const size_t weights = 70 * (kDense + kEmbeddings);
    CHECK(RelativeError(std::span(actual[rank].gradients).first(weights),
                        std::span(expected[rank].gradients).first(weights)) < 0.01);
  }
}

// Where ranks of two towers sum.
enum class TowerSums { kOfCpus, kOfHosts, kOfDevices };

// Trains ranks, whose batches differ. Hosts gather their keys. In some steps the second rank has no
// samples.
std::vector<TwoTowerRun> TrainTowerRanks(const TwoTowerCase& run, uint32_t ranks, TowerSums where,
                                         ComputePrecision precision = ComputePrecision::kF32) {
  RankBoard hosts(ranks);
  RankBoard devices(ranks);
  std::vector<TwoTowerRun> runs(ranks);
  std::vector<std::string> errors(ranks);
  const auto train = [&](uint32_t rank) {
    DenseNetworkOptions options = run.options();
    options.precision = precision;
    auto created = where == TowerSums::kOfCpus
                       ? CreateCpuNetwork(run.model(), options)
                       : CreateHostNetwork(run.model(), options, {.replays = true});
    if (!created.ok()) throw std::runtime_error(created.status().ToString());
    DenseNetwork& network = **created;
    BoardSums sums(devices, rank);
    const bool on_devices = where == TowerSums::kOfDevices;
    if (on_devices && !network.JoinRanks({&sums, {}, true}).ok()) return;
    const auto of = [](bool done) {
      return done ? absl::OkStatus() : absl::UnavailableError("a rank is gone");
    };
    const auto add_ranks = [&](RankStep& step) {
      step.rank = rank;
      step.ranks = ranks;
      uint64_t samples[1] = {step.global_samples};
      hosts.Sum(rank, std::span<uint64_t>(samples));
      step.global_samples = samples[0];
      double rate[1] = {step.uniform_rate};
      hosts.Sum(rank, std::span<double>(rate));
      step.uniform_rate = rate[0];
      step.gather = [&, of](std::span<const std::byte> own, std::span<std::byte> all) {
        return of(hosts.Gather(rank, own, all.data()));
      };
      step.sum_floats = [&, of, on_devices](std::span<float> values) {
        return on_devices ? absl::InternalError("the host was asked") : of(hosts.Sum(rank, values));
      };
      if (!on_devices) step.on_gradients = [](size_t, size_t) {};
    };
    const auto sum_gradients = [&] {
      if (!on_devices) hosts.Sum(rank, network.gradients());
    };
    runs[rank] = TrainTwoTowers(network, run, 9, 1 + rank, add_ranks, sum_gradients);
    network.LeaveRanks();
  };
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        train(rank);
      } catch (const std::exception& error) {
        errors[rank] = error.what();
        hosts.GiveUp();
        devices.GiveUp();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(errors == std::vector<std::string>(ranks));
  return runs;
}

TEST_CASE("Ranks on devices have the loss in_batch_softmax of the global batch, as on CPUs") {
  for (const uint32_t ranks : {1, 2, 3}) {
    for (const TwoTowerCase& run :
         {TwoTowerCase{.correction = LossConfig::Correction::kNone}, {.uniform = 6}}) {
      const auto expected = TrainTowerRanks(run, ranks, TowerSums::kOfCpus);
      for (const TowerSums where : {TowerSums::kOfHosts, TowerSums::kOfDevices}) {
        CAPTURE(ranks, run.uniform, static_cast<int>(where));
        const auto actual = TrainTowerRanks(run, ranks, where);
        for (uint32_t rank = 0; rank < ranks; ++rank) {
          CheckSameRun(actual[rank], expected[rank], 1e-4);
          CHECK(SameBits(actual[rank].parameters, actual[0].parameters));
          CHECK(SameBits(actual[rank].state, actual[0].state));
        }
      }
    }
  }
}

TEST_CASE("Ranks of two towers train in 16 bits") {
  const TwoTowerCase run{.uniform = 6};
  const auto expected = TrainTowerRanks(run, 2, TowerSums::kOfDevices);
  for (const ComputePrecision precision : {ComputePrecision::kBf16, ComputePrecision::kF16}) {
    const auto actual = TrainTowerRanks(run, 2, TowerSums::kOfDevices, precision);
    for (size_t i = 0; i < expected[1].losses.size(); ++i) {
      CHECK(actual[1].losses[i] == Approx(expected[1].losses[i]).epsilon(0.05).margin(0.02));
    }
  }
}

TEST_CASE("a failed sum ends the step with the status that names the rank") {
  RankBoard board(2);
  board.GiveUp();
  BoardSums sums(board, 0);
  const Case c{.ranks = 2, .allreduce = {}, .overlap = true, .sync_statistics = false};
  auto network = CreateHostNetwork(RankModel(c), RankOptions(c), {});
  REQUIRE(network.ok());
  REQUIRE((*network)->JoinRanks({&sums, {}, true}).ok());
  const auto nothing = [](DenseNetwork&, bool) { return absl::OkStatus(); };
  const RankResult result = TrainRank(**network, 0, c, nothing, {});
  CHECK(result.status.code() == absl::StatusCode::kUnavailable);
  CHECK(result.status.message() == "rank 1 is gone");
  CHECK(sums.enqueued_ == 1);
  CHECK(sums.ended_ == 1);
  CHECK(sums.given_up_.message() == "rank 1 is gone");
  // A single rank can continue without sums.
  (*network)->LeaveRanks();
  CHECK(TrainRank(**network, 0, c, nothing, {}).status.ok());
}

TEST_CASE("buckets are whole layers from the last to the first, of a minimum size") {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const auto plan = PlanModel(RandomModel(random), TestInputs(kDense));
    REQUIRE(plan.ok());
    const size_t wanted = 1 + random.Below(400);
    const std::vector<ColumnRange> buckets = cuda::PlanBuckets(*plan, wanted);
    size_t end = plan->parameter_count;
    for (const ColumnRange& bucket : buckets) {
      CHECK(bucket.first + bucket.count == end);
      end = bucket.first;
      if (bucket.first > 0) CHECK(bucket.count >= wanted);
    }
    CHECK(end == 0);
  }
}

TEST_CASE("parts of a bucket cover it and are disjoint") {
  for (const uint32_t ranks : {1, 2, 3, 7, 256}) {
    for (const size_t count : {1, 2, 511, 512, 513, 1024, 100'003}) {
      for (const Precision precision : {Precision::kBf16, Precision::kInt8}) {
        CAPTURE(ranks, count, static_cast<int>(precision));
        const cuda::BucketParts parts = cuda::PlanParts(count, ranks, precision);
        size_t end = 0;
        for (uint32_t rank = 0; rank < ranks; ++rank) {
          if (parts.Count(rank) > 0) CHECK(parts.First(rank) == end);
          end += parts.Count(rank);
        }
        CHECK(end == count);
        CHECK(parts.part_bytes % 16 == 0);
        const size_t heads = (parts.part_floats + 511) / 512 * 8;
        CHECK(parts.part_bytes >=
              (precision == Precision::kBf16 ? 2 * parts.part_floats : parts.part_floats + heads));
      }
    }
  }
}

}  // namespace
}  // namespace simurgh::testing
