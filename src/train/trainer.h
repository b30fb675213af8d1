#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"

#include "base/status.h"
#include "collective/collective.h"
#include "config/training_config.h"
#include "nn/batch_block.h"
#include "nn/dense_network.h"
#include "nn/two_towers.h"
#include "train/batch_pipeline.h"
#include "train/checkpoint_port.h"
#include "train/evaluator.h"
#include "train/ports.h"

namespace simurgh {

class CalibrationChoice;

class DenseUpdate;
class ProgressMeter;
class RankHeartbeat;
class StepBatches;

enum class EvaluationSet { kValidation, kTest };

// Observes a trainer. All members do nothing by default.
//
// Threads: called on the trainer's thread.
class TrainObserver {
 public:
  struct Step {
    uint64_t step = 0;
    size_t samples = 0;
    double loss = 0;
    // False: the dense step was skipped, because loss or a gradient was not finite on some rank.
    bool applied = true;
    // Names of the features of this rank's batch whose embeddings are not finite, separated by
    // commas; set if skipped.
    std::string not_finite_features;
    uint32_t staleness = 0;  // PulledBatch::staleness.
    // Staleness summed over the ranks. Mode async: the sum of the latest reports, which ranks send
    // 20 times a second.
    uint32_t ranks_staleness = 0;
    size_t queued = 0;                    // Batches that have been read and are not pulled yet.
    std::chrono::nanoseconds waited{};    // Wait for the batch's embeddings.
    std::chrono::nanoseconds computed{};  // Time of forward pass, backward pass and step.
  };

  // Progressive validation: metrics of the latest predictions of this rank, each made before its
  // step. They do not depend on the samples if each one is trained on once.
  struct Window {
    // Samples of the last steps that have auc_window_samples of them, or of all steps.
    uint64_t samples = 0;
    double loss = 0;         // Mean loss.
    double auc = 0;          // AUC of the first label.
    double calibration = 0;  // First label: mean prediction over mean label.
  };

  struct Progress {
    // Totals.
    uint64_t steps = 0;
    uint64_t samples = 0;
    double seconds = 0;  // Time without evaluations.
    uint64_t skipped_steps = 0;
    // Means since the last report.
    double loss = 0;
    double samples_per_second = 0;
    double staleness = 0;
    double ranks_staleness = 0;
    double waited = 0;  // Share of the time that was spent waiting for embeddings.
    std::optional<double> dense_staleness;  // Mode async: gap of OnDensePush, if there was a push.
    // Metrics of predictions, each made before its step.
    struct Metrics {
      double auc = 0;   // AUC of the latest auc_window_samples; NaN for a label of numbers.
      double rmse = 0;  // RMSE since the last report; NaN for a binary label.

      bool operator==(const Metrics&) const = default;
    };
    Metrics metrics;
    Window window;
    ShareProgress data;          // Progress of the last step's batch.
    std::vector<Metrics> tasks;  // One per label if there are several; `metrics` is the first.
  };

  virtual ~TrainObserver() = default;
  virtual void OnStep(const Step& step) {}
  // Mode async: a push of dense gradients was applied. gap: see DenseVersions.
  virtual void OnDensePush(uint64_t gap) {}
  virtual void OnProgress(const Progress& progress) {}

  // What a step has computed for its samples.
  struct Sample {
    uint64_t step = 0;
    std::vector<float> predictions;  // (B, labels), row by row.
    std::vector<FeatureNorms> norms;
  };
  // Returns whether OnSample() follows the step. Threads: any.
  virtual bool WantsSample() { return false; }
  virtual void OnSample(const Sample& sample) {}
  virtual void OnEvaluation(uint64_t step, EvaluationSet set, const EvaluationResult& result) {}
  // Training has waited for a checkpoint: for its pushes, the copies and the servers.
  virtual void OnCheckpoint(std::chrono::nanoseconds waited) {}
};

struct TrainResult {
  uint64_t steps = 0;          // All steps, including those of TrainerData::start.
  uint64_t samples = 0;        // Samples of this rank, since TrainerData::start.
  uint64_t skipped_steps = 0;  // The steps among `steps` that were skipped.
  TrainObserver::Window window;
  double seconds = 0;          // Time without evaluations.
  bool stopped_early = false;  // See EarlyStoppingConfig.
  bool interrupted = false;    // TrainerData::interrupt has ended it.
  // The result on the test set, if there is one: of the best checkpoint or, without one, after the
  // last step.
  std::optional<EvaluationResult> evaluation;
  std::optional<uint64_t> best_step;  // Step of the best checkpoint.
  TrainState state;                   // State after the last step, to continue with.
};

struct TrainerData {
  OpenEpoch train;
  OpenReader validation;      // May be empty: intermediate evaluations then use the test set.
  OpenReader test;            // May be empty: no evaluation at the end.
  EmbeddingCheck embeddings;  // Checks all features.
  size_t dense_width = 0;
  std::vector<TaskConfig> tasks = {TaskConfig()};  // One per label.
  std::vector<LabelScale> scales = {};  // One per label, for batches of `train` alone; empty: none.
  bool is_weighted = false;             // See DenseBatch::weights().
  std::optional<size_t> group_feature;  // See EvaluationOptions.
  CalibrationConfig calibration = {};
  // Inputs of the vectors of a model with the loss in_batch_softmax; else none.
  std::optional<TwoTowerColumns> two_towers = {};
  // Adds the uniform negatives of a step to a rank's batch. May be empty.
  std::function<Status(uint64_t step, Batch& batch)> add_negatives = {};
  size_t uniform_negatives = 0;  // Their number, over all ranks.
  size_t items = 0;              // Items that they are drawn from.
  uint32_t async_staleness = 1;  // Mode async: PipelineOptions::staleness.
  // The state of the run that this one continues. The batches of `train` carry progress of shares
  // of its position.
  TrainState start;
  // Rank 0 only; null: nothing is saved while training. Outlives the trainer.
  CheckpointPort* checkpoints = nullptr;
  // Replaces the network by this rank's of a checkpoint, and returns its calibrations. Required if
  // rank 0's `checkpoints` compares evaluations.
  std::function<StatusOr<std::vector<Calibration>>(uint64_t step)> restore;
  // Once set on any rank, all ranks end after the same step, without the last evaluation. Outlives
  // the trainer; null: never.
  const std::atomic<bool>* interrupt = nullptr;
  // Receives the result of a test before the first step, in place of one at the end. May be empty.
  std::function<void(const EvaluationResult& result)> on_first_test;
  // Replaces Evaluate(), and the sets' readers are not opened then. All ranks call it. May be
  // empty.
  std::function<StatusOr<EvaluationResult>(const StepId& step_id, EvaluationSet set,
                                           const EvaluationOptions& options, std::stop_token stop)>
      evaluate = {};
  // Whether every rank reads a batch for each step, an empty one where its share has ended.
  // Required by `checkpoints` and `interrupt`, and in all modes but async.
  bool reads_in_step = true;
};

// One rank's training: reads, pulls, computes, pushes and evaluates. Training that stops early
// keeps the last weights. If `checkpoints` knows a best checkpoint, network and servers end with it
// instead; the last step is saved before.
//
// Evaluation starts when the push of every finished step is acknowledged. Batches pulled ahead keep
// their embeddings.
//
// With several ranks, each trains on and evaluates its share of the data, which TrainerData opens.
// Ranks take every step together; gradients are of the mean over all their batches. An error of one
// rank ends all, through the collective.
//
// Mode async: servers own the dense weights, and ranks do not wait for each other's steps before a
// checkpoint and the end. A rank reads at most its queue further than another, if they read in
// step. A step is one of ranks() parts of a global batch. Ranks average their running statistics of
// batch norm at the end; all ranks end with the servers' last weights.
//
// Threads: one owner, which owns the network meanwhile.
class Trainer {
 public:
  // run: the same for all ranks. dense_port: mode async only, which does not
  // use the network's optimizer. Lifetime: all references and pointers must outlive this.
  Trainer(const TrainingConfig& config, uint64_t run, EmbeddingPort& port, DenseNetwork& network,
          Collective& collective, TrainerData data, TrainObserver& observer,
          DensePort* dense_port = nullptr);

  // Trains to the end of the data. A stop waits for pending calls and drops batches pulled ahead.
  // Errors: of the readers; of the port past the retry deadline; CANCELLED after a stop;
  // FAILED_PRECONDITION after max_skipped_steps in a row, after a run or its last epoch of skipped
  // steps only, and, at an evaluation and at the end, if weights or predictions are not finite.
  StatusOr<TrainResult> Run(std::stop_token stop);
  ~Trainer();

 private:
  // Returns whether several ranks take every step together: not in mode async.
  bool in_step() const {
    return collective_.ranks() > 1 && config_.mode != TrainingConfig::Mode::kAsync;
  }

  // --- A run, in trainer.cc.

  StatusOr<TrainResult> TrainAndTest(const std::stop_token& stop);
  Status TrainEpochs(ProgressMeter& meter, const std::stop_token& stop);
  Status TrainAll(BatchPipeline& pipeline, ProgressMeter& meter, const std::stop_token& stop);
  // epoch_ended: the step was the last one of an epoch.
  bool IsEvaluationDue(uint64_t steps, bool epoch_ended) const;
  StatusOr<EvaluationResult> EvaluateNow(uint64_t step, EvaluationSet set,
                                         const std::stop_token& stop);
  // Errors: INTERNAL naming a rank whose dense weights differ.
  Status CheckSameWeights();
  // Returns whether evaluations of the validation data and the first test fit calibrations.
  bool fits_calibration() const { return data_.calibration.fits; }
  // Waits for the pushes of all ranks, then pulls the servers' weights. Does nothing unless the
  // mode is async.
  Status SettleWeights();
  // Lets rank 0 start to save, and waits on all ranks until rows may change. Requires that the
  // pipeline is at a mark.
  Status BeginCheckpoint(BatchPipeline& pipeline, StepBatches& batches, ProgressMeter& meter);
  // Replaces network and rows by those of the best checkpoint, if there is one and it is not the
  // last step's. Returns its step. Call at the end of training.
  StatusOr<std::optional<uint64_t>> RestoreBest(const TrainState& state);
  // Waits on all ranks until rank 0 neither saves nor loads, if rank 0 keeps a best checkpoint.
  // Errors: of the save or load.
  Status AwaitIdle();
  // Waits on all ranks until rank 0's `ready` holds, which waits for at most the given time. The
  // other ranks' `ready` is not called.
  Status AwaitRankZero(absl::FunctionRef<bool(std::chrono::milliseconds patience)> ready);
  // Returns the state after the last step. All ranks call it.
  StatusOr<TrainState> StateAfter(const TrainResult& result);
  // Returns each rank's running statistics of batch norm; empty for one rank.
  StatusOr<std::vector<float>> GatherStatistics();
  // Replaces batch norm's running statistics by their mean over the ranks.
  Status AverageStatistics();

  // --- A step, in trainer_step.cc.

  Status TrainStep(StepBatches& batches, const PulledBatch& pulled, std::chrono::nanoseconds waited,
                   ProgressMeter& meter);
  RankStep RankStepOf(const PulledBatch& pulled);
  StatusOr<BatchResult> ForwardBackward(StepBatches& batches, const PulledBatch& pulled,
                                        const RankStep& ranks);
  // Sets whether the ranks apply the step, and their staleness.
  Status AgreeOnStep(bool finite, TrainObserver::Step* step);
  // Counts the features whose embeddings are not finite. Call before the batch's release.
  void CountNotFinite(const PulledBatch& pulled);
  // Returns FAILED_PRECONDITION for the last of max_skipped_steps in a row, naming the likely
  // cause.
  Status SkippedError(uint64_t last_step);
  void ReportDensePushes(ProgressMeter& meter);

  const TrainingConfig config_;
  const uint64_t run_;
  EmbeddingPort& port_;
  DenseNetwork& network_;
  Collective& collective_;
  const std::unique_ptr<DenseUpdate> update_;
  std::unique_ptr<RankHeartbeat> heartbeat_;  // Set only while several ranks train.
  const TrainerData data_;
  TrainObserver& observer_;
  // Whether embeddings' gradients are pushed before the dense step, as soon as the network hands
  // them out: on the CPU, as a push takes longer.
  const bool pushes_first_;
  std::vector<float> probabilities_;
  DenseBatch labels_;               // Labels of the step's batch, which statistics outlive.
  std::vector<double> not_finite_;  // EmbeddingCheck counts of the last step if it was checked.
  uint32_t skipped_in_row_ = 0;
  uint32_t epochs_ = 0;                         // Completed epochs.
  DataPosition position_;                       // Position of this rank after the last step.
  std::optional<EvaluationResult> validation_;  // Result after the last step, if evaluated.
  std::vector<Calibration> calibrations_;       // See TrainState.
  std::unique_ptr<CalibrationChoice> choice_;   // Null: there is none.
  bool has_validated_ = false;  // The validation data was evaluated since the start.
};

}  // namespace simurgh
