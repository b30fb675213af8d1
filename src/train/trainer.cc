#include "train/trainer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/hash.h"
#include "train/batch_pipeline.h"
#include "train/calibration_choice.h"
#include "train/dense_update.h"
#include "train/loader.h"
#include "train/progress_meter.h"
#include "train/rank_monitor.h"

namespace simurgh {
namespace {

// Between two words of rank 0 to ranks that wait for it.
constexpr std::chrono::milliseconds kWordInterval{20};

using Clock = std::chrono::steady_clock;
using Mode = TrainingConfig::Mode;

PushOrder OrderOf(const TrainingConfig& config) {
  if (config.mode == Mode::kSync || config.sums_pushes) return PushOrder::kSum;
  return config.reproducible ? PushOrder::kByRank : PushOrder::kUnordered;
}

}  // namespace

Trainer::Trainer(const TrainingConfig& config, uint64_t run, EmbeddingPort& port,
                 DenseNetwork& network, Collective& collective, TrainerData data,
                 TrainObserver& observer, DensePort* dense_port)
    : config_(config),
      run_(run),
      port_(port),
      network_(network),
      collective_(collective),
      update_(MakeDenseUpdate(config, run, network, collective, dense_port)),
      data_(std::move(data)),
      observer_(observer),
      pushes_first_(!network.overlaps() && config.mode != Mode::kNaiveHybrid) {}

Trainer::~Trainer() = default;

Status Trainer::CheckSameWeights() {
  if (collective_.ranks() == 1) return absl::OkStatus();
  const std::span<const std::byte> weights = std::as_bytes(network_.parameters());
  const uint64_t own = HashBytes({reinterpret_cast<const char*>(weights.data()), weights.size()});
  std::vector<uint64_t> each(collective_.ranks());
  SIMURGH_RETURN_IF_ERROR(collective_.Gather(Channel::kStep, std::as_bytes(std::span(&own, 1)),
                                             std::as_writable_bytes(std::span(each))));
  const auto other = std::ranges::find_if(each, [own](uint64_t one) { return one != own; });
  if (other == each.end()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("training: ranks ", other - each.begin(), " and ",
                                          collective_.rank(),
                                          " ended with different dense weights; run the same build "
                                          "on the same kind of processor on all "
                                          "ranks"));
}

Status Trainer::SettleWeights() {
  if (config_.mode != Mode::kAsync) return absl::OkStatus();
  SIMURGH_RETURN_IF_ERROR(update_->WaitForPushes());
  if (heartbeat_ != nullptr) SIMURGH_RETURN_IF_ERROR(heartbeat_->AwaitAll());
  return update_->PullWeights();
}

StatusOr<std::vector<float>> Trainer::GatherStatistics() {
  const std::span<const float> own = network_.statistics();
  if (collective_.ranks() == 1) return std::vector<float>();
  std::vector<float> all(own.size() * collective_.ranks());
  if (all.empty()) return all;
  SIMURGH_RETURN_IF_ERROR(collective_.Gather(Channel::kStep, std::as_bytes(own),
                                             std::as_writable_bytes(std::span(all))));
  return all;
}

StatusOr<TrainState> Trainer::StateAfter(const TrainResult& result) {
  TrainState state{.steps = result.steps,
                   .samples = data_.start.samples,
                   .skipped_steps = result.skipped_steps,
                   .epochs = epochs_,
                   .position = position_,
                   .files = data_.start.files,
                   .stopping = result.state.stopping,
                   .stopped_early = result.stopped_early,
                   .validation = validation_,
                   .calibrations = calibrations_};
  std::vector<uint64_t> own = position_.Numbers();
  own.push_back(result.samples);
  const std::string offsets = OffsetsText(position_.offsets());
  own.push_back(offsets.size());
  std::vector<uint64_t> all(own.size() * collective_.ranks());
  SIMURGH_RETURN_IF_ERROR(collective_.Gather(Channel::kStep, std::as_bytes(std::span(own)),
                                             std::as_writable_bytes(std::span(all))));
  uint64_t longest = 0;
  for (size_t rank = 0; rank < collective_.ranks(); ++rank) {
    const std::span<const uint64_t> one = std::span(all).subspan(rank * own.size(), own.size());
    state.position.Merge(one.first(own.size() - 2));
    state.samples += one[own.size() - 2];
    longest = std::max(longest, one.back());
  }
  if (longest > 0 && collective_.ranks() > 1) {  // The batches were of a stream.
    std::string padded = offsets;
    padded.resize(longest, ' ');
    std::vector<std::byte> texts(longest * collective_.ranks());
    SIMURGH_RETURN_IF_ERROR(
        collective_.Gather(Channel::kStep, std::as_bytes(std::span(padded)), texts));
    for (size_t rank = 0; rank < collective_.ranks(); ++rank) {
      const std::string text(reinterpret_cast<const char*>(texts.data()) + rank * longest,
                             all[(rank + 1) * own.size() - 1]);
      SIMURGH_ASSIGN_OR_RETURN(const StreamOffsets of_rank, OffsetsFromText(text));
      state.position.Merge(of_rank);
    }
  }
  SIMURGH_ASSIGN_OR_RETURN(state.rank_statistics, GatherStatistics());
  if (data_.checkpoints != nullptr) {
    // No rank pushes: the sums above were also a barrier.
    SIMURGH_RETURN_IF_ERROR(update_->PullWeights());
    SIMURGH_ASSIGN_OR_RETURN(state.server_optimizer, update_->OptimizerState());
  }
  return state;
}

Status Trainer::AwaitRankZero(absl::FunctionRef<bool(std::chrono::milliseconds patience)> ready) {
  std::vector<std::byte> all(collective_.ranks());
  // Ranks that wait long must hear of each other.
  while (true) {
    const bool is_ready = collective_.rank() > 0 || ready(kWordInterval);
    SIMURGH_RETURN_IF_ERROR(collective_.Gather(
        Channel::kStep, std::array{is_ready ? std::byte{1} : std::byte{0}}, all));
    if (all[0] == std::byte{1}) return absl::OkStatus();
  }
}

Status Trainer::BeginCheckpoint(BatchPipeline& pipeline, StepBatches& batches,
                                ProgressMeter& meter) {
  const auto begin = Clock::now();
  SIMURGH_RETURN_IF_ERROR(batches.Flush());
  SIMURGH_RETURN_IF_ERROR(pipeline.WaitForPushes());
  SIMURGH_RETURN_IF_ERROR(update_->WaitForPushes());
  update_->DropResiduals();  // The next run has none.
  SIMURGH_ASSIGN_OR_RETURN(const TrainState state, StateAfter(meter.result));
  CheckpointPort* const port = data_.checkpoints;
  // The model of the end follows soon after an interrupt.
  bool saves = false;
  // The wait is also a barrier: all ranks' pushes are acknowledged.
  SIMURGH_RETURN_IF_ERROR(AwaitRankZero([&](std::chrono::milliseconds patience) {
    saves = port != nullptr && !(data_.interrupt != nullptr && *data_.interrupt) &&
            port->IsWanted(state);
    return !saves || port->AwaitIdle(patience);
  }));
  // The save that has ended meanwhile may be of a better one.
  saves = saves && port->IsWanted(state);
  if (saves) {
    SIMURGH_RETURN_IF_ERROR(port->failure());
    port->Begin(state);
  }
  SIMURGH_RETURN_IF_ERROR(AwaitRankZero(
      [&](std::chrono::milliseconds patience) { return !saves || port->AwaitRows(patience); }));
  const auto waited = Clock::now() - begin;
  meter.LeaveOut(waited);
  observer_.OnCheckpoint(waited);
  pipeline.Lift();
  return absl::OkStatus();
}

Status Trainer::AwaitIdle() {
  CheckpointPort* const port = data_.checkpoints;
  const bool waits = port != nullptr && port->keeps_best();
  SIMURGH_RETURN_IF_ERROR(AwaitRankZero([port, waits](std::chrono::milliseconds patience) {
    return !waits || port->AwaitIdle(patience);
  }));
  return waits ? port->failure() : absl::OkStatus();
}

StatusOr<std::optional<uint64_t>> Trainer::RestoreBest(const TrainState& state) {
  CheckpointPort* const port = data_.checkpoints;
  constexpr uint64_t kNone = 0;  // The model of the first step is not saved.
  SIMURGH_RETURN_IF_ERROR(AwaitIdle());
  const bool keeps_best = port != nullptr && port->keeps_best();
  uint64_t best = keeps_best ? port->BestStep(state).value_or(kNone) : kNone;
  const auto is_earlier = [&] { return best != kNone && best != state.steps; };
  if (is_earlier() && port->newest() != state.steps) port->Begin(state);
  SIMURGH_RETURN_IF_ERROR(AwaitIdle());
  // The servers have the only copy of a model that could not be saved.
  if (is_earlier() && port->newest() != state.steps) best = kNone;
  std::vector<uint64_t> all(collective_.ranks());
  SIMURGH_RETURN_IF_ERROR(collective_.Gather(Channel::kStep, std::as_bytes(std::span(&best, 1)),
                                             std::as_writable_bytes(std::span(all))));
  best = all[0];
  if (best == kNone) return std::nullopt;
  if (is_earlier()) {
    if (port != nullptr) port->BeginLoad(best);
    Status restored = AwaitIdle();
    if (restored.ok()) {
      StatusOr<std::vector<Calibration>> calibrations = data_.restore(best);
      restored = calibrations.status();
      if (calibrations.ok()) calibrations_ = *std::move(calibrations);
    }
    // Another start of training would not recover from this loss.
    if (absl::IsDataLoss(restored)) restored = absl::FailedPreconditionError(restored.message());
    SIMURGH_RETURN_IF_ERROR(restored);
    SIMURGH_RETURN_IF_ERROR(AverageStatistics());
  }
  return best;
}

Status Trainer::AverageStatistics() {
  const std::span<float> statistics = network_.statistics();
  if (collective_.ranks() == 1 || statistics.empty()) return absl::OkStatus();
  std::vector<double> sums(statistics.begin(), statistics.end());
  SIMURGH_RETURN_IF_ERROR(collective_.Sum(Channel::kStep, sums));
  std::ranges::transform(sums, statistics.begin(), [this](double sum) {
    return static_cast<float>(sum / collective_.ranks());
  });
  return absl::OkStatus();
}

bool Trainer::IsEvaluationDue(uint64_t steps, bool epoch_ended) const {
  if (!data_.validation && !data_.test) return false;
  const uint64_t every_steps = config_.evaluate_every_steps;
  const uint32_t every_epochs = config_.evaluate_every_epochs;
  const uint32_t epochs = epochs_ + (epoch_ended ? 1 : 0);
  return (every_steps > 0 && steps % every_steps == 0) ||
         (epoch_ended && every_epochs > 0 && epochs % every_epochs == 0);
}

StatusOr<EvaluationResult> Trainer::EvaluateNow(uint64_t step, EvaluationSet set,
                                                const std::stop_token& stop) {
  const bool is_test = set == EvaluationSet::kTest;
  const bool is_first_test = is_test && data_.on_first_test;
  const EvaluationOptions options{
      .tasks = data_.tasks,
      .is_weighted = data_.is_weighted,
      .kept_negatives = config_.keep_negatives,
      .calibrations = is_test ? calibrations_ : std::vector<Calibration>(),
      .fits_calibration = fits_calibration() && (!is_test || is_first_test),
      .scales = data_.scales,
      .group_feature = data_.group_feature,
      .embeddings = data_.embeddings,
      .retry_deadline = config_.retry_deadline};
  const std::span<float> statistics = network_.statistics();
  const std::vector<float> own(statistics.begin(), statistics.end());
  SIMURGH_RETURN_IF_ERROR(AverageStatistics());
  SIMURGH_RETURN_IF_ERROR(network_.CheckFinite());
  // A barrier: all ranks' pushes are acknowledged.
  std::vector<std::byte> all(collective_.ranks());
  SIMURGH_RETURN_IF_ERROR(collective_.Gather(Channel::kStep, std::array{std::byte()}, all));
  const StepId step_id{.run = run_, .rank = collective_.rank(), .step = step};
  SIMURGH_ASSIGN_OR_RETURN(EvaluationResult result,
                           data_.evaluate
                               ? data_.evaluate(step_id, set, options, stop)
                               : Evaluate(port_, network_, collective_, step_id,
                                          is_test ? data_.test : data_.validation, options, stop));
  std::ranges::copy(own, statistics.begin());
  if (is_first_test) KeepCalibrations(calibrations_, result);
  if (options.fits_calibration) calibrations_ = CalibrationsOf(result);
  has_validated_ = has_validated_ || !is_test;
  observer_.OnEvaluation(step, set, result);
  return result;
}

Status Trainer::TrainAll(BatchPipeline& pipeline, ProgressMeter& meter,
                         const std::stop_token& stop) {
  const EvaluationSet set = data_.validation ? EvaluationSet::kValidation : EvaluationSet::kTest;
  EarlyStopping stopping(config_.early_stopping, data_.start.stopping);
  epochs_ = data_.start.epochs;
  position_ = data_.start.position;
  skipped_in_row_ = 0;
  validation_.reset();
  StepBatches batches(pipeline, network_);
  SIMURGH_RETURN_IF_ERROR(update_->Start(data_.start.server_optimizer));
  // Errors: if all steps of the last epoch were left out.
  const auto check_effect = [&] {
    // Only complete epochs are of equal length.
    const uint64_t epochs = config_.max_steps == 0 ? std::max(config_.epochs, 1U) : 1;
    const bool had_effect = skipped_in_row_ * epochs < meter.result.steps;
    return had_effect || skipped_in_row_ == 0 ? absl::OkStatus()
                                              : SkippedError(meter.result.steps - 1);
  };
  while (true) {
    if (data_.checkpoints != nullptr) SIMURGH_RETURN_IF_ERROR(data_.checkpoints->failure());
    const auto begin = Clock::now();
    SIMURGH_ASSIGN_OR_RETURN(const PulledBatch* const pulled, batches.Next());
    if (pulled == nullptr && pipeline.at_mark()) {
      SIMURGH_RETURN_IF_ERROR(BeginCheckpoint(pipeline, batches, meter));
      continue;
    }
    if (pulled == nullptr) {
      SIMURGH_RETURN_IF_ERROR(pipeline.WaitForPushes());
      return check_effect();
    }
    const bool epoch_ended = pulled->batch->ends_epoch;  // The step releases the batch.
    meter.data = pulled->batch->progress;
    position_.Advance(meter.data);
    validation_.reset();
    SIMURGH_RETURN_IF_ERROR(TrainStep(batches, *pulled, Clock::now() - begin, meter));
    if (meter.due()) observer_.OnProgress(meter.Report());
    const bool evaluates = IsEvaluationDue(meter.result.steps, epoch_ended);
    epochs_ += epoch_ended ? 1 : 0;
    if (!evaluates) continue;
    const auto evaluation_begin = Clock::now();
    SIMURGH_RETURN_IF_ERROR(batches.Flush());
    SIMURGH_RETURN_IF_ERROR(pipeline.WaitForPushes());
    SIMURGH_RETURN_IF_ERROR(SettleWeights());
    SIMURGH_ASSIGN_OR_RETURN(const EvaluationResult result,
                             EvaluateNow(meter.result.steps, set, stop));
    meter.LeaveOut(Clock::now() - evaluation_begin);
    if (set == EvaluationSet::kValidation) validation_ = result;
    const bool is_over = stopping.IsOver(result);
    meter.result.state.stopping = stopping.state();
    if (is_over) {
      meter.result.stopped_early = true;
      return check_effect();
    }
  }
}

Status Trainer::TrainEpochs(ProgressMeter& meter, const std::stop_token& stop) {
  BatchPipeline pipeline(
      port_, {.mode = LookupMode::kTrain,
              .run = run_,
              .rank = collective_.rank(),
              .ranks = collective_.ranks(),
              .order = OrderOf(config_),
              .staleness = config_.mode == Mode::kAsync ? data_.async_staleness
                                                        : config_.staleness - config_.row_age_steps,
              .row_age_steps = config_.row_age_steps,
              .reproducible = OrderOf(config_) != PushOrder::kUnordered,
              .one_by_one = config_.mode == Mode::kNaiveHybrid,
              .awaits_pushes = config_.awaits_pushes(),
              .first_step = data_.start.steps,
              .blocks = &network_.blocks(),
              .queue_batches = config_.loader_queue_batches,
              .retry_deadline = config_.retry_deadline});
  const auto stop_waits = [this, &pipeline] {
    pipeline.Stop();
    update_->Stop();
  };
  const std::stop_callback stopper(stop, stop_waits);
  const Loader loader(
      data_.train,
      {.epochs = data_.start.stopped_early ? 0 : config_.epoch_limit(),
       .max_batches = config_.max_steps,
       .checkpoints = data_.checkpoints,
       .evaluate_every_steps = data_.validation ? config_.evaluate_every_steps : 0,
       .evaluate_every_epochs = data_.validation ? config_.evaluate_every_epochs : 0,
       .completed_epochs = data_.start.epochs,
       .first_batch = data_.start.steps,
       .first_epoch = data_.start.position.first().epoch,
       .ends_early = data_.interrupt,
       .drop_last = config_.drop_last,
       .batch_size = config_.batch_size,
       .mark_epoch_ends = config_.evaluate_every_epochs > 0,
       .ranks = collective_.ranks() > 1 && data_.reads_in_step ? &collective_ : nullptr,
       .features = data_.embeddings.features(),
       .dense_width = data_.dense_width,
       .tasks = data_.tasks.size(),
       .two_towers = data_.two_towers ? &*data_.two_towers : nullptr,
       .add_negatives = data_.add_negatives},
      pipeline);
  // Ranks in step that sum on devices already use the channel for their monitor.
  if (collective_.ranks() > 1 && !(in_step() && network_.sums_on_device())) {
    const Channel channel = in_step() ? Channel::kWatch : Channel::kGradients;
    heartbeat_ = std::make_unique<RankHeartbeat>(collective_, channel, stop_waits);
  }
  Status status = TrainAll(pipeline, meter, stop);
  meter.result.interrupted = loader.ended_early();
  const bool is_limited = meter.result.interrupted || meter.result.stopped_early ||
                          (config_.max_steps > 0 && meter.result.steps >= config_.max_steps);
  if (status.ok() && !is_limited)
    epochs_ = std::max(epochs_, config_.epochs);  // All rows are read.
  if (status.ok()) status = SettleWeights();
  if (status.ok() && in_step() && heartbeat_ != nullptr) status = heartbeat_->AwaitAll();
  ReportDensePushes(meter);
  if (heartbeat_ != nullptr && absl::IsCancelled(status) && !stop.stop_requested()) {
    if (Status failure = heartbeat_->TakeFailure(); !failure.ok()) status = std::move(failure);
  }
  if (!status.ok()) {
    collective_.Abort(status);
    // Ends calls that servers hold back until a push arrives, of a lost rank or of the failed step.
    if (!stop.stop_requested() || !absl::IsCancelled(status)) port_.Stop();
  }
  heartbeat_.reset();
  collective_.Close(Channel::kLoading);
  return status;
}

StatusOr<TrainResult> Trainer::TrainAndTest(const std::stop_token& stop) {
  ProgressMeter meter(config_.progress_interval, config_.auc_window_samples, data_.tasks,
                      data_.scales);
  const TrainState& start = data_.start;
  meter.result.steps = start.steps;
  meter.result.skipped_steps = start.skipped_steps;
  meter.result.stopped_early = start.stopped_early;
  meter.result.state.stopping = start.stopping;
  const bool continues = fits_calibration() && !data_.start.calibrations.empty();
  calibrations_ = continues ? data_.start.calibrations : data_.calibration.given;
  if (data_.test && data_.on_first_test) {
    std::vector<Calibration> old = calibrations_;
    SIMURGH_ASSIGN_OR_RETURN(const EvaluationResult result,
                             EvaluateNow(start.steps, EvaluationSet::kTest, stop));
    data_.on_first_test(result);
    if (calibrations_ != old) {
      choice_ = std::make_unique<CalibrationChoice>(data_.tasks, config_.keep_negatives, old,
                                                    std::exchange(calibrations_, old));
    }
  }
  SIMURGH_RETURN_IF_ERROR(TrainEpochs(meter, stop));
  TrainResult result = meter.Finish();
  if (choice_ != nullptr && !result.interrupted) {
    SIMURGH_ASSIGN_OR_RETURN(calibrations_, choice_->Choose(collective_));
  }
  // No evaluation was due while training.
  if (data_.validation && fits_calibration() && !has_validated_ && start.calibrations.empty() &&
      !result.interrupted) {
    SIMURGH_RETURN_IF_ERROR(EvaluateNow(result.steps, EvaluationSet::kValidation, stop).status());
  }
  SIMURGH_ASSIGN_OR_RETURN(result.state, StateAfter(result));
  if (result.steps == 0 && !result.interrupted) {
    return absl::InvalidArgumentError(
        "training: the data has no full batch; lower training.batch_size, set "
        "training.drop_last: false, or check data.train");
  }
  if (meter.has_steps()) observer_.OnProgress(meter.Report());
  SIMURGH_RETURN_IF_ERROR(AverageStatistics());
  SIMURGH_RETURN_IF_ERROR(network_.CheckFinite());
  SIMURGH_RETURN_IF_ERROR(CheckSameWeights());
  if (!result.interrupted) {
    SIMURGH_ASSIGN_OR_RETURN(result.best_step, RestoreBest(result.state));
    if (data_.test && !data_.on_first_test) {
      SIMURGH_ASSIGN_OR_RETURN(
          result.evaluation,
          EvaluateNow(result.best_step.value_or(result.steps), EvaluationSet::kTest, stop));
    }
  }
  return result;
}

StatusOr<TrainResult> Trainer::Run(std::stop_token stop) {
  const std::stop_callback stopper(
      stop, [this] { collective_.Abort(absl::CancelledError("training was stopped")); });
  StatusOr<TrainResult> result = TrainAndTest(stop);
  if (!result.ok()) collective_.Abort(result.status());
  return result;
}

}  // namespace simurgh
