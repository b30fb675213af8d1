// One training step: from the pulled embeddings to the push of their gradients.

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "simurgh/telemetry/timeline.h"
#include "simurgh/train/learning_rates.h"
#include "simurgh/train/trainer.h"
#include "train/dense_exchange.h"
#include "train/gradient_reducer.h"
#include "train/progress_meter.h"
#include "train/rank_heartbeat.h"

namespace simurgh {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

Status Trainer::TrainStep(BatchPipeline& pipeline, const PulledBatch& pulled,
                          std::chrono::nanoseconds waited, ProgressMeter& meter) {
  const DenseBatch& dense = pulled.batch->dense;
  probabilities_.resize(dense.batch_size * dense.tasks);
  const uint64_t trace = pulled.trace;
  const auto begin = Clock::now();
  if (exchange_ != nullptr) {
    const TimelineSpan span("wait for weights", pulled.step, pulled.trace);
    SIMURGH_RETURN_IF_ERROR(exchange_->TakeWeights([this] { return network_.parameters(); }));
    ReportDensePushes(meter);
  }
  const DenseOptimizerConfig& optimizer = config_.dense_optimizer;
  const float rate = LearningRateAt(optimizer.learning_rate, optimizer.schedule, pulled.step);
  const bool network_applies =
      exchange_ == nullptr && reducer_ == nullptr && network_.ApplyNext(rate);
  SIMURGH_ASSIGN_OR_RETURN(const BatchResult result, ComputeStep(pipeline, pulled));
  TrainObserver::Step step{.step = pulled.step,
                           .samples = dense.batch_size,
                           .loss = result.loss,
                           .staleness = pulled.staleness,
                           .queued = pipeline.queued(),
                           .waited = waited};
  const StepStatus own{.finite = result.finite ? 1U : 0U, .staleness = pulled.staleness};
  // The CPU pushes gradients before the dense step, because a push takes longer.
  const bool dense_first =
      network_.overlaps() || config_.mode == TrainingConfig::Mode::kNaiveHybrid;
  SIMURGH_RETURN_IF_ERROR(WaitForAllReduce(step.step, trace, [&]() -> Status {
    SIMURGH_ASSIGN_OR_RETURN(const StepStatus all, GatherStepStatus(own));
    step.applied = all.finite != 0;
    if (!step.applied) {
      not_finite_.assign(data_.embeddings.features(), 0.0);
      data_.embeddings.Count(*pulled.block, dense.batch_size, not_finite_);
      step.not_finite_features = data_.embeddings.Names(not_finite_);
    }
    step.ranks_staleness = heartbeat_ == nullptr || in_step()
                               ? all.staleness
                               : heartbeat_->SumStaleness(pulled.staleness);
    meter.Add(step, dense, probabilities_);
    return dense_first ? absl::OkStatus() : ReleaseBatch(pipeline, pulled, step.applied);
  }));
  // Mode async: an optimizer with momentum would move the weights without gradients, too.
  const bool pushes = exchange_ == nullptr || step.samples > 0;
  if (!network_applies) {
    SIMURGH_RETURN_IF_ERROR(ApplyStep(step.step, trace, rate, step.applied && pushes));
  }
  if (dense_first) SIMURGH_RETURN_IF_ERROR(ReleaseBatch(pipeline, pulled, step.applied));
  step.computed = Clock::now() - begin;
  observer_.OnStep(step);
  return CountSkipped(step);
}

Status Trainer::CountSkipped(const TrainObserver::Step& step) {
  skipped_in_row_ = step.applied ? 0 : skipped_in_row_ + 1;
  return skipped_in_row_ < config_.max_skipped_steps ? absl::OkStatus() : SkippedError(step.step);
}

Status Trainer::SkippedError(uint64_t last_step) {
  if (in_step()) SIMURGH_RETURN_IF_ERROR(collective_.Sum(Channel::kStep, not_finite_));
  const Status weights = network_.CheckFinite();
  std::string cause = data_.embeddings.Problem(not_finite_);
  if (cause.empty()) cause = std::string(weights.message());
  if (cause.empty()) {
    cause = absl::StrCat(
        "weights and embeddings are finite but too large; lower "
        "training.dense_optimizer.learning_rate, ",
        config_.dense_optimizer.learning_rate,
        ", or those of the tables, and check dense columns for very large numbers");
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "training: the last ", skipped_in_row_, " steps (training.max_skipped_steps), up to step ",
      last_step, ", had a loss or gradient that is not finite: ", cause));
}

StatusOr<BatchResult> Trainer::ComputeStep(BatchPipeline& pipeline, const PulledBatch& pulled) {
  const DenseBatch& dense = pulled.batch->dense;
  RankStep ranks{.global_samples = pulled.batch->global_samples};
  if (ranks.global_samples == 0) ranks.global_samples = dense.batch_size * collective_.ranks();
  const TimelineSpan span("forward and backward", pulled.step, pulled.trace);
  if (reducer_ != nullptr) {
    reducer_->BeginStep(pulled.step);
    ranks.on_gradients = [this](size_t first, size_t count) {
      reducer_->OnGradients(first, count);
    };
  }
  if (in_step() && config_.sync_batch_norm) {
    ranks.sum = [this](std::span<double> values) {
      return collective_.Sum(Channel::kStep, values);
    };
  }
  // While the device computes: copies the next batch in, and the previous one's gradients out.
  Status meanwhile = absl::OkStatus();
  StatusOr<BatchResult> result = network_.ForwardBackward(*pulled.block, dense.matrix(),
                                                          dense.labels, probabilities_, ranks, [&] {
                                                            Prefetch(pipeline);
                                                            meanwhile = FlushPrevious(pipeline);
                                                          });
  SIMURGH_RETURN_IF_ERROR(meanwhile);
  return result;
}

void Trainer::Prefetch(BatchPipeline& pipeline) {
  if (!network_.overlaps() || ahead_ != nullptr) return;
  ahead_ = pipeline.TakeNext();
  if (ahead_ == nullptr) return;
  const TimelineSpan span("copy in", ahead_->step, ahead_->trace);
  const DenseBatch& dense = ahead_->batch->dense;
  network_.Load(*ahead_->block, dense.matrix(), dense.labels);
}

Status Trainer::ReleaseBatch(BatchPipeline& pipeline, const PulledBatch& pulled, bool finite) {
  SIMURGH_RETURN_IF_ERROR(FlushPrevious(pipeline));
  Prefetch(pipeline);
  last_ = &pulled;
  if (!finite) {
    SIMURGH_RETURN_IF_ERROR(network_.AwaitGradients(*pulled.block));
    std::ranges::fill(pulled.block->encoded_gradients.bytes, std::byte{0});
  } else if (ahead_ != nullptr) {
    return absl::OkStatus();  // The next step pushes the gradients while the device computes.
  }
  return FlushPrevious(pipeline);
}

Status Trainer::FlushPrevious(BatchPipeline& pipeline) {
  if (last_ == nullptr) return absl::OkStatus();
  const PulledBatch& last = *std::exchange(last_, nullptr);
  if (network_.overlaps()) {
    const TimelineSpan span("copy out", last.step, last.trace);
    SIMURGH_RETURN_IF_ERROR(network_.AwaitGradients(*last.block));
  }
  pipeline.Finish();
  return absl::OkStatus();
}

StatusOr<Trainer::StepStatus> Trainer::GatherStepStatus(const StepStatus& own) {
  if (!in_step()) return own;
  std::vector<StepStatus> each(collective_.ranks());
  SIMURGH_RETURN_IF_ERROR(collective_.Gather(Channel::kStep, std::as_bytes(std::span(&own, 1)),
                                             std::as_writable_bytes(std::span(each))));
  StepStatus all;
  for (const StepStatus& one : each) {
    all.finite &= one.finite;
    all.staleness += one.staleness;
  }
  return all;
}

Status Trainer::WaitForAllReduce(uint64_t step, uint64_t trace,
                                 absl::FunctionRef<Status()> meanwhile) {
  if (reducer_ == nullptr) return meanwhile();
  const TimelineSpan span("wait for sums", step, trace);
  Status status = absl::OkStatus();
  SIMURGH_RETURN_IF_ERROR(reducer_->Finish([&] { status = meanwhile(); }));
  return status;
}

Status Trainer::ApplyStep(uint64_t step, uint64_t trace, float rate, bool finite) {
  if (!finite) {
    if (reducer_ != nullptr) reducer_->DropResiduals();
    return absl::OkStatus();
  }
  const TimelineSpan span("dense step", step, trace);
  if (exchange_ == nullptr) return network_.ApplyGradients(rate);
  exchange_->Push(step, rate, network_.gradients());
  // Moves batch norm's running statistics.
  return has_statistics_ ? network_.ApplyGradients(0) : absl::OkStatus();
}

void Trainer::ReportDensePushes(ProgressMeter& meter) {
  if (exchange_ == nullptr) return;
  for (const uint64_t gap : exchange_->TakeGaps()) {
    meter.AddDensePush(gap);
    observer_.OnDensePush(gap);
  }
}

}  // namespace simurgh
