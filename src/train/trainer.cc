#include "simurgh/train/trainer.h"

#include <algorithm>
#include <utility>

#include "simurgh/nn/metrics.h"
#include "train/loader.h"

namespace simurgh {
namespace {

using Clock = std::chrono::steady_clock;

// Predictions kept for the running AUC; more in one interval do not change it visibly.
constexpr size_t kRunningAucSamples = 200'000;

double Seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

TrainObserver& SilentObserver() {
  static TrainObserver observer;
  return observer;
}

}  // namespace

// Sums up what happened since the last report, and since the beginning.
class Trainer::ProgressMeter {
 public:
  explicit ProgressMeter(std::chrono::milliseconds interval) : interval_(interval) {}

  void Add(const TrainObserver::Step& step, std::span<const float> labels,
           std::span<const float> probabilities) {
    ++result.steps;
    result.samples += step.samples;
    result.skipped_steps += step.applied ? 0 : 1;
    ++steps_;
    samples_ += step.samples;
    if (step.applied) {
      loss_ += step.loss * static_cast<double>(step.samples);
      applied_samples_ += step.samples;
    }
    staleness_ += step.staleness;
    if (labels_.size() + labels.size() <= kRunningAucSamples && step.applied) {
      labels_.insert(labels_.end(), labels.begin(), labels.end());
      probabilities_.insert(probabilities_.end(), probabilities.begin(), probabilities.end());
    }
  }

  // Time spent on evaluation does not count.
  void LeaveOut(Clock::duration duration) {
    start_ += duration;
    last_report_ += duration;
  }

  bool due() const { return Clock::now() - last_report_ >= interval_ && steps_ > 0; }

  TrainObserver::Progress Report() {
    const auto now = Clock::now();
    const TrainObserver::Progress progress{
        .steps = result.steps,
        .samples = result.samples,
        .seconds = Seconds(now - start_),
        .loss = loss_ / static_cast<double>(std::max<uint64_t>(applied_samples_, 1)),
        .auc = ExactAuc(labels_, probabilities_),
        .samples_per_second = static_cast<double>(samples_) / Seconds(now - last_report_),
        .staleness = staleness_ / static_cast<double>(std::max<uint64_t>(steps_, 1)),
        .skipped_steps = result.skipped_steps};
    last_report_ = now;
    steps_ = samples_ = applied_samples_ = 0;
    loss_ = staleness_ = 0;
    labels_.clear();
    probabilities_.clear();
    return progress;
  }

  TrainResult Finish() {
    result.seconds = Seconds(Clock::now() - start_);
    return result;
  }

  TrainResult result;

 private:
  const std::chrono::milliseconds interval_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_report_ = start_;
  uint64_t steps_ = 0;
  uint64_t samples_ = 0;
  uint64_t applied_samples_ = 0;
  double loss_ = 0;
  double staleness_ = 0;
  std::vector<float> labels_;
  std::vector<float> probabilities_;
};

Trainer::Trainer(const TrainingConfig& config, uint64_t run, size_t embedding_width,
                 EmbeddingPort& port, DenseNetwork& network, OpenReader open_train,
                 OpenReader open_test, TrainObserver* observer)
    : config_(config),
      run_(run),
      embedding_width_(embedding_width),
      port_(port),
      network_(network),
      open_train_(std::move(open_train)),
      open_test_(std::move(open_test)),
      observer_(observer != nullptr ? *observer : SilentObserver()) {}

Status Trainer::TrainStep(BatchPipeline& pipeline, const PulledBatch& pulled,
                          std::chrono::nanoseconds waited, ProgressMeter& meter) {
  const DenseBatch& dense = pulled.batch->dense;
  probabilities_.resize(dense.batch_size);
  const auto begin = Clock::now();
  SIMURGH_ASSIGN_OR_RETURN(const BatchResult result,
                           network_.ForwardBackward(dense.matrix(), pulled.embeddings, dense.labels,
                                                    pulled.gradients, probabilities_));
  // A step that is left out leaves the rows alone, too.
  if (!result.finite) std::ranges::fill(pulled.gradients.flat(), 0.0F);
  TrainObserver::Step step{.step = pulled.step,
                           .samples = dense.batch_size,
                           .loss = result.loss,
                           .applied = result.finite,
                           .staleness = pulled.staleness,
                           .waited = waited};
  meter.Add(step, dense.labels, probabilities_);
  // The gradients leave before the dense step: their way is the longer one.
  pipeline.Finish();
  if (result.finite) SIMURGH_RETURN_IF_ERROR(network_.ApplyGradients());
  step.computed = Clock::now() - begin;
  observer_.OnStep(step);
  return absl::OkStatus();
}

StatusOr<EvaluationResult> Trainer::EvaluateNow(uint64_t step, const std::stop_token& stop) {
  SIMURGH_ASSIGN_OR_RETURN(
      const EvaluationResult result,
      Evaluate(port_, network_, {.run = run_, .rank = 0, .step = step}, open_test_,
               embedding_width_, config_.keep_negatives, config_.retry_deadline, stop));
  observer_.OnEvaluation(step, result);
  return result;
}

Status Trainer::TrainAll(BatchPipeline& pipeline, ProgressMeter& meter,
                         const std::stop_token& stop) {
  const uint64_t every = open_test_ ? config_.evaluate_every_steps : 0;
  while (true) {
    const auto begin = Clock::now();
    SIMURGH_ASSIGN_OR_RETURN(const PulledBatch* pulled, pipeline.Next());
    if (pulled == nullptr) return pipeline.WaitForPushes();
    SIMURGH_RETURN_IF_ERROR(TrainStep(pipeline, *pulled, Clock::now() - begin, meter));
    if (meter.due()) observer_.OnProgress(meter.Report());
    if (every > 0 && meter.result.steps % every == 0) {
      const auto evaluation_begin = Clock::now();
      SIMURGH_RETURN_IF_ERROR(pipeline.WaitForPushes());
      SIMURGH_RETURN_IF_ERROR(EvaluateNow(meter.result.steps, stop).status());
      meter.LeaveOut(Clock::now() - evaluation_begin);
    }
  }
}

StatusOr<TrainResult> Trainer::Run(std::stop_token stop) {
  BatchPipeline pipeline(port_, {.purpose = PullPurpose::kTrain,
                                 .run = run_,
                                 .staleness = config_.staleness,
                                 .reproducible = config_.reproducible,
                                 .embedding_width = embedding_width_,
                                 .queue_batches = config_.loader_queue_batches,
                                 .retry_deadline = config_.retry_deadline});
  const std::stop_callback stopper(stop, [&pipeline] { pipeline.Stop(); });
  const Loader loader(open_train_,
                      {.passes = config_.passes,
                       .max_batches = config_.max_steps,
                       .drop_last = config_.drop_last,
                       .batch_size = config_.batch_size},
                      pipeline);
  ProgressMeter meter(config_.progress_interval);
  SIMURGH_RETURN_IF_ERROR(TrainAll(pipeline, meter, stop));
  TrainResult result = meter.Finish();
  if (result.steps == 0) {
    return absl::InvalidArgumentError(
        "training: the data has no full batch; lower training.batch_size, set "
        "training.drop_last: false, or check data.train");
  }
  observer_.OnProgress(meter.Report());
  if (open_test_) {
    SIMURGH_ASSIGN_OR_RETURN(result.evaluation, EvaluateNow(result.steps, stop));
  }
  return result;
}

}  // namespace simurgh
