// One training step: from the pulled embeddings to the push of their gradients.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "nn/metrics.h"
#include "telemetry/timeline.h"
#include "train/batch_pipeline.h"
#include "train/calibration_choice.h"
#include "train/dense_update.h"
#include "train/learning_rates.h"
#include "train/progress_meter.h"
#include "train/rank_monitor.h"
#include "train/trainer.h"

namespace simurgh {

// Modes and devices differ by what they plug in: `update_` sums dense gradients and applies them,
// `batches` copies batches and pushes the embeddings' gradients.
Status Trainer::TrainStep(StepBatches& batches, const PulledBatch& pulled,
                          std::chrono::nanoseconds waited, ProgressMeter& meter) {
  const DenseBatch& dense = pulled.batch->dense;
  const uint64_t trace = pulled.trace;
  // Samples without the uniform negatives, which count in no metric.
  const size_t samples = dense.batch_size - dense.uniform_negatives;
  probabilities_.resize(dense.batch_size * dense.tasks);
  labels_.batch_size = samples;
  labels_.tasks = dense.tasks;
  labels_.labels.assign(dense.labels.begin(),
                        dense.labels.begin() + static_cast<std::ptrdiff_t>(samples * dense.tasks));
  if (!dense.weights().empty()) {
    const std::span<const float> weights = dense.weights().first(samples);
    labels_.labels.insert(labels_.labels.end(), weights.begin(), weights.end());
  }
  not_finite_.assign(data_.embeddings.features(), 0.0);
  TrainObserver::Step step{
      .step = pulled.step, .samples = samples, .staleness = pulled.staleness, .waited = waited};
  const auto begin = std::chrono::steady_clock::now();

  // The weights of the step.
  const DenseOptimizerConfig& optimizer = config_.dense_optimizer;
  const float rate = LearningRateAt(optimizer.learning_rate, optimizer.schedule, step.step);
  RankStep ranks = RankStepOf(pulled);
  SIMURGH_RETURN_IF_ERROR(update_->BeginStep(step.step, trace, rate, &ranks));
  ReportDensePushes(meter);

  // What an observer wants to know of the batch, which the release ends.
  std::optional<std::vector<FeatureNorms>> norms;
  const auto look = [&] {
    if (observer_.WantsSample()) norms = data_.embeddings.Norms(*pulled.block, step.samples);
  };

  // Forward and backward. Meanwhile: sums of complete gradients, copies of other batches, and the
  // push, which does not wait for the other ranks.
  std::optional<Status> released;  // Set once the network's call has ended `pulled` and `dense`.
  if (pushes_first_) {
    ranks.on_embedding_gradients = [&](bool usable) {
      step.queued = batches.queued();
      // The embeddings can be at fault although their gradients are finite. That shows too late for
      // the first such step, but in the next ones.
      if (!usable || skipped_in_row_ > 0) CountNotFinite(pulled);
      look();
      released = batches.Release(pulled, usable);
    };
  }
  SIMURGH_ASSIGN_OR_RETURN(const BatchResult result, ForwardBackward(batches, pulled, ranks));
  step.loss = result.loss;
  if (released) {
    SIMURGH_RETURN_IF_ERROR(*released);
  } else {
    step.queued = batches.queued();
    look();
  }

  // The last sums. Meanwhile: whether all ranks apply the step, statistics, and a push that is due.
  SIMURGH_RETURN_IF_ERROR(update_->AwaitSums(step.step, trace, [&]() -> Status {
    SIMURGH_RETURN_IF_ERROR(AgreeOnStep(result.finite, &step));
    if (!step.applied && !released) CountNotFinite(pulled);
    if (!step.applied) step.not_finite_features = data_.embeddings.Names(not_finite_);
    probabilities_.resize(labels_.batch_size * labels_.tasks);
    meter.Add(step, labels_, probabilities_);
    if (choice_ != nullptr) choice_->Add(labels_, probabilities_);
    return pushes_first_ && !released ? batches.Release(pulled, step.applied) : absl::OkStatus();
  }));

  // The dense step.
  if (step.applied) {
    const TimelineSpan span("dense step", step.step, trace);
    SIMURGH_RETURN_IF_ERROR(update_->Apply(step.step, rate, step.samples));
  } else {
    update_->DropResiduals();
  }
  if (!pushes_first_) SIMURGH_RETURN_IF_ERROR(batches.Release(pulled, step.applied));

  step.computed = std::chrono::steady_clock::now() - begin;
  observer_.OnStep(step);
  if (norms) {
    std::vector<float> predictions = probabilities_;
    UnscalePredictions(predictions, data_.scales);
    observer_.OnSample(
        {.step = step.step, .predictions = std::move(predictions), .norms = *std::move(norms)});
  }
  skipped_in_row_ = step.applied ? 0 : skipped_in_row_ + 1;
  return skipped_in_row_ < config_.max_skipped_steps ? absl::OkStatus() : SkippedError(step.step);
}

RankStep Trainer::RankStepOf(const PulledBatch& pulled) {
  const Batch& batch = *pulled.batch;
  RankStep ranks{.step = pulled.step,
                 .rank = collective_.rank(),
                 .ranks = collective_.ranks(),
                 .global_samples = batch.global_samples};
  if (ranks.global_samples == 0) {
    ranks.global_samples =
        (batch.dense.batch_size - batch.dense.uniform_negatives) * collective_.ranks();
  }
  // The last batch of an epoch can have a single sample. Divided by itself, its gradient would move
  // the model as far as a full batch does.
  ranks.divisor =
      std::max<uint64_t>(ranks.global_samples, uint64_t{config_.batch_size} * collective_.ranks());
  if (in_step() && config_.sync_batch_norm) {
    ranks.sum = [this](std::span<double> values) {
      return collective_.Sum(Channel::kStep, values);
    };
  }
  ranks.user_keys = batch.dense.user_keys;
  ranks.item_keys = batch.dense.item_keys;
  ranks.uniform_negatives = batch.dense.uniform_negatives;
  if (data_.items > 0) {
    // Without a gather, this rank's batch is all that competes.
    ranks.uniform_rate =
        static_cast<double>(in_step() ? data_.uniform_negatives : batch.dense.uniform_negatives) /
        static_cast<double>(data_.items);
  }
  if (in_step() && data_.two_towers) {
    ranks.gather = [this](std::span<const std::byte> own, std::span<std::byte> all) {
      return collective_.Gather(Channel::kStep, own, all);
    };
    ranks.sum_floats = [this](std::span<float> values) {
      return collective_.Sum(Channel::kStep, values, ReducePrecision::kF32, {});
    };
  }
  return ranks;
}

StatusOr<BatchResult> Trainer::ForwardBackward(StepBatches& batches, const PulledBatch& pulled,
                                               const RankStep& ranks) {
  const DenseBatch& dense = pulled.batch->dense;
  const TimelineSpan span("forward and backward", pulled.step, pulled.trace);
  Status meanwhile = absl::OkStatus();
  StatusOr<BatchResult> result = network_.ForwardBackward(
      *pulled.block, dense.matrix(), dense.labels, probabilities_, ranks, [&] {
        meanwhile = batches.Overlap();
        const PulledBatch* const next = batches.ahead();
        if (next == nullptr || !meanwhile.ok()) return;
        // An evaluation predicts before the next step.
        if (IsEvaluationDue(pulled.step + 1, pulled.batch->ends_epoch)) return;
        update_->StartNext(*next, RankStepOf(*next));
      });
  SIMURGH_RETURN_IF_ERROR(meanwhile);
  return result;
}

Status Trainer::AgreeOnStep(bool finite, TrainObserver::Step* step) {
  step->applied = finite;
  step->ranks_staleness = step->staleness;
  if (!in_step()) {
    if (heartbeat_ != nullptr) step->ranks_staleness = heartbeat_->SumStaleness(step->staleness);
    return absl::OkStatus();
  }
  struct OfRank {
    uint32_t finite = 1;
    uint32_t staleness = 0;
  };
  const OfRank own{.finite = finite ? 1U : 0U, .staleness = step->staleness};
  std::vector<OfRank> each(collective_.ranks());
  SIMURGH_RETURN_IF_ERROR(collective_.Gather(Channel::kStep, std::as_bytes(std::span(&own, 1)),
                                             std::as_writable_bytes(std::span(each))));
  step->ranks_staleness = 0;
  for (const OfRank& one : each) {
    step->applied &= one.finite != 0;
    step->ranks_staleness += one.staleness;
  }
  return absl::OkStatus();
}

void Trainer::CountNotFinite(const PulledBatch& pulled) {
  data_.embeddings.Count(*pulled.block, pulled.batch->dense.batch_size, not_finite_);
}

Status Trainer::SkippedError(uint64_t last_step) {
  if (in_step()) SIMURGH_RETURN_IF_ERROR(collective_.Sum(Channel::kStep, not_finite_));
  const Status weights = network_.CheckFinite();
  std::string cause = data_.embeddings.Problem(not_finite_);
  if (cause.empty()) cause = std::string(weights.message());
  if (cause.empty()) {
    const std::string rate = network_.parameters().empty()  // They are the program's.
                                 ? "the learning rate of the program"
                                 : absl::StrCat("training.dense_optimizer.learning_rate, ",
                                                config_.dense_optimizer.learning_rate, ",");
    cause = absl::StrCat(
        "weights and embeddings are finite but too large; lower ", rate,
        " or those of the tables, and check dense columns and weights of losses for very large "
        "numbers",
        network_.parameters().empty() ? ", and the program's loss for labels that are NaN" : "");
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "training: the last ", skipped_in_row_, " steps (training.max_skipped_steps), up to step ",
      last_step, ", had a loss or gradient that is not finite, or beyond 2^48: ", cause));
}

void Trainer::ReportDensePushes(ProgressMeter& meter) {
  for (const uint64_t gap : update_->TakeGaps()) {
    meter.AddDensePush(gap);
    observer_.OnDensePush(gap);
  }
}

}  // namespace simurgh
