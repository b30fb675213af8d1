// Metrics of a whole evaluation: several ranks with uneven shares, several labels, against sums
// over pairs and samples.

#include "train/evaluator.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "tests/unit/collective/rank_threads.h"

namespace simurgh::testing {
namespace {

constexpr size_t kTasks = 2;
constexpr size_t kSamples = 16;  // Per batch.
constexpr size_t kWidth = 3;
constexpr size_t kGroupFeature = 1;
constexpr uint64_t kGroups = 5;

// A sample's dense values are what the network predicts for its tasks.
struct Sample {
  std::vector<float> predictions;
  std::vector<float> labels;
  std::optional<uint64_t> group;
  float weight = 1;
};

std::vector<TaskConfig> Tasks() { return std::vector<TaskConfig>(kTasks); }

// Few different predictions, so that some are tied; a fifth is in no group.
std::vector<Sample> DrawSamples(size_t count, uint64_t seed) {
  Random random(seed);
  const auto below = [&](uint64_t limit) {
    return static_cast<uint64_t>(random.Uniform() * static_cast<double>(limit));
  };
  std::vector<Sample> samples(count);
  for (Sample& sample : samples) {
    for (size_t task = 0; task < kTasks; ++task) {
      sample.predictions.push_back(static_cast<float>(1 + below(20)) / 32.0F);
      sample.labels.push_back(below(3) == 0 ? 1.0F : 0.0F);
    }
    if (below(5) > 0) sample.group = 100 + below(kGroups);
    sample.weight = static_cast<float>(below(4)) / 2.0F;
  }
  return samples;
}

// Feature 0 is unrelated to groups. Feature kGroupFeature has the group's id, followed by another
// id.
std::shared_ptr<const CompactBatch> SparseOf(std::span<const Sample> samples) {
  auto batch = std::make_shared<CompactBatch>();
  batch->batch_size = static_cast<uint32_t>(samples.size());
  batch->ids = {7};
  batch->unique_ends = {1};
  batch->offsets = {0};
  for (size_t i = 0; i < samples.size(); ++i) {
    batch->occurrences.push_back(0);
    batch->offsets.push_back(static_cast<uint32_t>(batch->occurrences.size()));
  }
  for (const uint64_t id : {104, 103, 102, 101, 100, 9}) batch->ids.push_back(id);
  batch->unique_ends.push_back(static_cast<uint32_t>(batch->ids.size()));
  for (const Sample& sample : samples) {
    if (sample.group) {
      batch->occurrences.push_back(static_cast<uint32_t>(104 - *sample.group));
      batch->occurrences.push_back(5);
    }
    batch->offsets.push_back(static_cast<uint32_t>(batch->occurrences.size()));
  }
  return batch;
}

class Samples final : public BatchReader {
 public:
  explicit Samples(std::span<const Sample> samples, bool weighted = false)
      : left_(samples), weighted_(weighted) {}

  StatusOr<std::optional<Batch>> Next() override {
    if (left_.empty()) return std::nullopt;
    const auto own = left_.first(std::min(kSamples, left_.size()));
    left_ = left_.subspan(own.size());
    Batch batch{.sparse = SparseOf(own),
                .dense = {.batch_size = own.size(), .width = kTasks, .tasks = kTasks}};
    SIMURGH_RETURN_IF_ERROR(batch.sparse->Validate());
    for (const Sample& sample : own) {
      DenseBatch& dense = batch.dense;
      dense.values.insert(dense.values.end(), sample.predictions.begin(), sample.predictions.end());
      dense.labels.insert(dense.labels.end(), sample.labels.begin(), sample.labels.end());
    }
    for (size_t i = 0; weighted_ && i < own.size(); ++i) {
      batch.dense.labels.push_back(own[i].weight);
    }
    return batch;
  }
  uint64_t skipped_rows() const override { return 0; }

 private:
  std::span<const Sample> left_;
  const bool weighted_;
};

class Port final : public EmbeddingPort {
 public:
  void Submit(SubmittedIds /*ids*/, const SubmitOptions& /*options*/,
              std::function<void(StatusOr<BatchReference>)> done) override {
    done(BatchReference());
  }
  void Pull(BatchReference /*batch*/, const PullOptions& /*options*/,
            EmbeddingBuffer /*embeddings*/,
            std::function<void(StatusOr<PullAnswer>)> done) override {
    done(PullAnswer());
  }
  void Push(BatchReference /*batch*/, StepId /*step_id*/, GradientBuffer /*gradients*/,
            std::function<void(Status)> done) override {
    done(absl::InternalError("an evaluation pushes nothing"));
  }
};

// Predicts its dense input: for a regression the output, else the probability.
class Oracle final : public DenseNetwork {
 public:
  explicit Oracle(std::vector<TaskConfig> tasks = Tasks()) : tasks_(std::move(tasks)) {}

  StatusOr<BatchResult> ForwardBackward(BatchBlock& /*block*/, MatrixView<const float> /*dense*/,
                                        std::span<const float> /*labels*/,
                                        std::span<float> /*probabilities*/,
                                        const RankStep& /*step*/,
                                        const std::function<void()>& /*meanwhile*/) override {
    return absl::InternalError("an evaluation trains nothing");
  }
  Status ApplyGradients(float /*rate*/) override {
    return absl::InternalError("an evaluation trains nothing");
  }
  Status Predict(BatchBlock& /*block*/, MatrixView<const float> dense,
                 std::span<float> outputs) override {
    for (size_t i = 0; i < outputs.size(); ++i) {
      const double p = dense(i / kTasks, i % kTasks);
      const bool is_number = IsRegression(tasks_[i % kTasks].loss.kind);
      outputs[i] = static_cast<float>(is_number ? p : std::log(p) - std::log1p(-p));
    }
    return absl::OkStatus();
  }
  BlockPool& blocks() override { return *blocks_; }
  std::span<float> parameters() override { return {}; }
  std::span<float> gradients() override { return {}; }
  std::span<float> statistics() override { return {}; }
  std::span<const float> state() const override { return {}; }
  std::vector<DenseTensor> tensors() const override { return {}; }
  Status Restore(std::span<const float>, std::span<const float>) override {
    return absl::UnimplementedError("");
  }
  Status CheckFinite() override { return absl::OkStatus(); }

 private:
  const std::vector<TaskConfig> tasks_;
  const std::unique_ptr<BlockPool> blocks_ = NewBlockPool(kWidth);
};

// The share of pairs in the right order, ties counting half.
double AucByPairs(const std::vector<Sample>& samples, size_t task) {
  uint64_t doubled_wins = 0;
  uint64_t pairs = 0;
  for (const Sample& a : samples) {
    for (const Sample& b : samples) {
      if (a.labels[task] <= b.labels[task]) continue;
      const float better = a.predictions[task] - b.predictions[task];
      doubled_wins += better > 0 ? 2 : better == 0 ? 1 : 0;
      ++pairs;
    }
  }
  return static_cast<double>(doubled_wins) / (2.0 * static_cast<double>(pairs));
}

double LogLossOf(const std::vector<Sample>& samples, size_t task) {
  double loss = 0;
  for (const Sample& sample : samples) {
    const double p = sample.predictions[task];
    loss -= std::log(sample.labels[task] == 1.0F ? p : 1.0 - p);
  }
  return loss / static_cast<double>(samples.size());
}

// Each group's share of pairs in the right order, ties counting half, weighed by its samples.
double GroupAucByPairs(const std::vector<Sample>& samples, size_t task) {
  double sum = 0;
  double weight = 0;
  for (uint64_t group = 100; group < 100 + kGroups; ++group) {
    double right = 0;
    double pairs = 0;
    size_t members = 0;
    for (const Sample& a : samples) {
      if (a.group != group) continue;
      ++members;
      for (const Sample& b : samples) {
        if (b.group != group || a.labels[task] <= b.labels[task]) continue;
        const float better = a.predictions[task] - b.predictions[task];
        right += better > 0 ? 1.0 : better == 0 ? 0.5 : 0.0;
        ++pairs;
      }
    }
    if (pairs == 0) continue;
    sum += static_cast<double>(members) * right / pairs;
    weight += static_cast<double>(members);
  }
  return sum / weight;
}

// The result of each rank, which evaluates its share.
std::vector<EvaluationResult> EvaluateShares(const std::vector<std::vector<Sample>>& shares,
                                             const EvaluationOptions& options) {
  std::vector<EvaluationResult> results(shares.size());
  const auto statuses = RunRanks(
      static_cast<uint32_t>(shares.size()), [&](std::unique_ptr<Collective>& collective) -> Status {
        const uint32_t rank = collective->rank();
        Port port;
        Oracle oracle(options.tasks);
        SIMURGH_ASSIGN_OR_RETURN(
            results[rank],
            Evaluate(
                port, oracle, *collective, {.run = 1, .rank = rank},
                [&] { return std::make_unique<Samples>(shares[rank], options.is_weighted); },
                options, std::stop_token()));
        return absl::OkStatus();
      });
  for (const Status& status : statuses) {
    CAPTURE(status.ToString());
    REQUIRE(status.ok());
  }
  return results;
}

TEST_CASE("An evaluation's metrics are those of all ranks' samples, label by label") {
  const std::vector<std::vector<Sample>> shares{DrawSamples(70, 1), DrawSamples(33, 2),
                                                DrawSamples(5, 3)};
  std::vector<Sample> all;
  for (const auto& share : shares) all.insert(all.end(), share.begin(), share.end());
  const auto results = EvaluateShares(shares, {.tasks = Tasks(), .group_feature = kGroupFeature});
  CHECK(std::abs(GroupAucByPairs(all, 0) - GroupAucByPairs(all, 1)) > 0.01);
  for (const EvaluationResult& result : results) {
    REQUIRE(result.tasks.size() == kTasks);
    for (size_t task = 0; task < kTasks; ++task) {
      CAPTURE(task);
      CHECK(result.tasks[task].samples == all.size());
      CHECK(result.tasks[task].auc == AucByPairs(all, task));
      // The logits of the oracle are rounded to f32.
      CHECK(result.tasks[task].log_loss == Approx(LogLossOf(all, task)).epsilon(1e-7));
      CHECK(result.tasks[task].group_auc == Approx(GroupAucByPairs(all, task)).epsilon(1e-9));
    }
    CHECK(result.group_auc == result.tasks[0].group_auc);
  }
}

// Two ranks: a binary label, and a number.
TEST_CASE("Weights count in all metrics of all ranks, and a number has an error, no AUC") {
  std::vector<TaskConfig> tasks = Tasks();
  tasks[1].loss.kind = LossConfig::Kind::kSquaredError;
  const std::vector<std::vector<Sample>> shares{DrawSamples(70, 1), DrawSamples(33, 2)};
  const auto results =
      EvaluateShares(shares, {.tasks = tasks, .is_weighted = true, .group_feature = kGroupFeature});
  // Samples of weight w / 2, w times.
  std::vector<Sample> all;
  for (const auto& share : shares) {
    for (const Sample& sample : share) {
      all.insert(all.end(), static_cast<size_t>(2 * sample.weight), sample);
    }
  }
  double squares = 0;
  for (const Sample& sample : all) squares += std::pow(sample.predictions[1] - sample.labels[1], 2);
  const double mean = squares / static_cast<double>(all.size());
  for (const EvaluationResult& result : results) {
    CHECK(result.samples == 103);
    CHECK(result.auc == Approx(AucByPairs(all, 0)).epsilon(1e-12));
    CHECK(result.group_auc == Approx(GroupAucByPairs(all, 0)).epsilon(1e-12));
    CHECK(result.log_loss == Approx(LogLossOf(all, 0)).epsilon(1e-7));
    CHECK(result.loss == Approx(result.log_loss).epsilon(1e-6));
    const EvaluationResult& number = result.tasks[1];
    CHECK(number.loss_kind == LossConfig::Kind::kSquaredError);
    CHECK(number.rmse == Approx(std::sqrt(mean)).epsilon(1e-12));
    CHECK(number.loss == Approx(mean).epsilon(1e-12));
    CHECK(std::isnan(number.auc));
    CHECK(std::isnan(number.log_loss));
    CHECK(number.positives == 0);
  }
}

TEST_CASE("An evaluation without rows is refused, on every rank") {
  const auto statuses = RunRanks(2, [](std::unique_ptr<Collective>& collective) -> Status {
    Port port;
    Oracle oracle;
    return Evaluate(
               port, oracle, *collective, {.run = 1, .rank = collective->rank()},
               [] { return std::make_unique<Samples>(std::span<const Sample>()); },
               {.tasks = Tasks()}, std::stop_token())
        .status();
  });
  for (const Status& status : statuses) {
    CHECK(status == absl::InvalidArgumentError("evaluation: the data set has no rows; check "
                                               "data.validation and data.test"));
  }
}

TEST_CASE("An evaluation corrects predictions for the negatives that training left out") {
  const std::vector<Sample> samples = DrawSamples(70, 1);
  constexpr double kKept = 0.125;
  Port port;
  Oracle oracle;
  const std::unique_ptr<Collective> alone = NewLocalCollective();
  const auto result = Evaluate(
      port, oracle, *alone, {.run = 1}, [&] { return std::make_unique<Samples>(samples); },
      {.tasks = Tasks(), .kept_negatives = kKept}, std::stop_token());
  REQUIRE(result.ok());
  for (size_t task = 0; task < kTasks; ++task) {
    double predicted = 0;
    double actual = 0;
    for (const Sample& sample : samples) {
      const double odds = sample.predictions[task] / (1.0 - sample.predictions[task]);
      predicted += odds * kKept / (1.0 + odds * kKept);
      actual += sample.labels[task];
    }
    CHECK(result->tasks[task].calibration == Approx(predicted / actual).epsilon(1e-6));
  }
}

TEST_CASE("All ranks get the calibration of all samples, and metrics without it") {
  const std::vector<std::vector<Sample>> shares{DrawSamples(150, 1), DrawSamples(93, 2), {}};
  std::vector<Sample> all;
  for (const auto& share : shares) all.insert(all.end(), share.begin(), share.end());
  const auto results = EvaluateShares(
      shares,
      {.tasks = Tasks(), .is_weighted = true, .kept_negatives = 0.5, .fits_calibration = true});
  std::vector<Calibration> wanted;
  for (size_t task = 0; task < kTasks; ++task) {
    std::vector<LabelledOutput> samples;
    for (const Sample& sample : all) {
      const double p = sample.predictions[task];
      samples.push_back({static_cast<float>(std::log(p / (1 - p)) + std::log(0.5)),
                         sample.labels[task], sample.weight});
    }
    const auto fitted = FitCalibration(samples, [](std::span<double>) { return absl::OkStatus(); });
    REQUIRE(fitted.ok());
    wanted.push_back(fitted->calibration);
    CHECK(std::abs(wanted.back().low - 1) > 0.1);
  }
  const auto plain =
      EvaluateShares(shares, {.tasks = Tasks(), .is_weighted = true, .kept_negatives = 0.5});
  for (const EvaluationResult& result : results) {
    const std::vector<Calibration> found = CalibrationsOf(result);
    REQUIRE(found.size() == kTasks);
    CHECK(found == CalibrationsOf(results[0]));
    for (size_t task = 0; task < kTasks; ++task) {
      CHECK(found[task].low == Approx(wanted[task].low).epsilon(1e-4));
      CHECK(found[task].high == Approx(wanted[task].high).epsilon(1e-4));
      CHECK(found[task].shift == Approx(wanted[task].shift).epsilon(1e-4));
      CHECK(result.tasks[task].log_loss == plain[0].tasks[task].log_loss);
      CHECK(result.tasks[task].fitted->log_loss < result.tasks[task].log_loss);
    }
    CHECK(CalibrationsOf(plain[0]).empty());
  }
  // What the fit promises is what an evaluation with the calibrations measures.
  const auto calibrated = EvaluateShares(shares, {.tasks = Tasks(),
                                                  .is_weighted = true,
                                                  .kept_negatives = 0.5,
                                                  .calibrations = CalibrationsOf(results[0])});
  for (size_t task = 0; task < kTasks; ++task) {
    CHECK(calibrated[0].tasks[task].log_loss ==
          Approx(results[0].tasks[task].fitted->log_loss).epsilon(1e-5));
    CHECK(calibrated[0].tasks[task].auc == Approx(plain[0].tasks[task].auc).epsilon(1e-12));
  }
}

TEST_CASE("Predictions that separate the labels, and numbers, are not calibrated") {
  std::vector<Sample> samples = DrawSamples(200, 1);
  for (Sample& sample : samples) sample.predictions[0] = sample.labels[0] == 1 ? 0.75F : 0.5F;
  std::vector<TaskConfig> tasks = Tasks();
  tasks[1].loss.kind = LossConfig::Kind::kSquaredError;
  const auto results = EvaluateShares({samples}, {.tasks = tasks, .fits_calibration = true});
  CHECK(CalibrationsOf(results[0]).empty());
  CHECK(results[0].tasks[0].fitted->problem == "the predictions separate the labels");
  CHECK_FALSE(results[0].tasks[1].fitted);
}

// ln(400) * 3 / (2 * 400) = 0.02247.
TEST_CASE("A calibration is replaced if the rows gain more than three numbers by chance") {
  const Calibration old{.low = 0.5, .high = 0.7, .shift = 1};
  const Calibration fitted{.low = 2, .high = 2, .shift = 0};
  const auto result_of = [&](double gain, const char* problem) {
    return EvaluationResult{
        .samples = 400, .log_loss = 0.5, .fitted = FittedCalibration{fitted, 0.5 - gain, problem}};
  };
  EvaluationResult result = result_of(0.023, "");
  result.tasks = {result_of(0.023, ""), result_of(0.022, ""), result_of(0.3, "few"), {}};
  KeepCalibrations(std::vector<Calibration>{old, old, old, old}, result);
  CHECK(result.fitted->calibration == fitted);
  CHECK(CalibrationsOf(result) == std::vector<Calibration>{fitted, old, old, Calibration()});
  CHECK(result.tasks[0].fitted->problem.empty());
  CHECK(result.tasks[1].fitted->problem == "the old numbers are as good for the rows");
  CHECK(result.tasks[2].fitted->problem == "few");
  CHECK(result.tasks[1].fitted->log_loss == 0.5);
  EvaluationResult first = result_of(0.01, "");
  KeepCalibrations({}, first);
  CHECK(CalibrationsOf(first).empty());
}

}  // namespace
}  // namespace simurgh::testing
