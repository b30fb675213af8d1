#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "retrieval/training_ranking.h"

#include "base/status.h"
#include "config/cluster_config.h"
#include "config/statistics.h"
#include "data/reading/bad_row_file.h"
#include "data/reading/batch_reader.h"
#include "data/reading/file_identity.h"
#include "embedding/raw_masks.h"
#include "model/model_directory.h"
#include "nn/dense_network.h"
#include "services/nn_worker/loader_buffer.h"
#include "services/nn_worker/train_report.h"
#include "telemetry/metrics.h"
#include "train/hosted_network.h"
#include "train/trainer.h"

namespace simurgh {

// Finds labels that have the same value in all samples.
//
// Threads: one at a time.
class LabelCounts {
 public:
  // columns: names of the labels.
  explicit LabelCounts(std::vector<std::string> columns)
      : columns_(std::move(columns)), differs_(columns_.size()) {}

  // Counts the labels of a batch. Requires a sample.
  void Add(const DenseBatch& batch);

  // Returns a warning for each label that has the same value in all samples; none without samples.
  std::vector<std::string> Warnings() const;

 private:
  std::vector<std::string> columns_;
  // Indexed by column.
  std::vector<float> first_;  // Values of the first sample.
  std::vector<bool> differs_;
  uint64_t samples_ = 0;
};

// The scales of the labels and weights in training. Predictions are converted to the labels' unit.
struct TargetScales {
  std::vector<LabelScale> labels;  // One per label, in order.
  double mean_weight = 1;          // Divisor of the weights.
};

// Wraps a reader: appends the masks of raw features and counts the bad rows that it skips.
//
// scales: scales of labels and weights; null: they stay. labels: counts the labels; may be null.
// The reader's destructor, at the end of each epoch, logs their warnings. Lifetime: all but the
// reader outlive the result.
std::unique_ptr<BatchReader> NewJobReader(std::unique_ptr<BatchReader> reader,
                                          const RawMasks& masks, Counter& skipped_rows,
                                          LabelCounts* labels,
                                          const TargetScales* scales = nullptr);

// Returns the feature that training.auc_group_feature names, if there is one.
std::optional<size_t> GroupFeature(const ClusterConfig& config);

// The training that a configuration describes, on any EmbeddingPort.
//
// Threads: one owner.
class TrainingJob {
 public:
  // is_hosted: whether a program has the network. Errors: INVALID_ARGUMENT for a model that
  // Create() would refuse.
  static Status CheckModel(const ClusterConfig& config, bool is_hosted = false);

  // rank: index into config.nn_worker.instances.
  // resumed: the checkpoint to continue, with its statistics; null: train from the first step.
  // update: value of `nn-worker --update`, which continues `resumed`; empty: the training itself.
  // hosted: the network of a program; null: the network of config.model.
  // Cost: reads the training files once if features need statistics that no checkpoint has.
  // Errors: INVALID_ARGUMENT for an inconsistent model; those of FitStatistics and
  // SetInitialWeights.
  static StatusOr<std::unique_ptr<TrainingJob>> Create(
      const ClusterConfig& config, MetricRegistry& registry, uint32_t rank = 0,
      const Checkpoint* resumed = nullptr, const std::string& update = "",
      std::shared_ptr<HostedNetwork> hosted = nullptr);

  // Trains on batches of loaders instead of the training files; the loaders apply epochs and
  // drop_last. Call before Run. Lifetime: the buffer outlives Run.
  void TakeFrom(LoaderBuffer& buffer) { buffer_ = &buffer; }

  // See TrainerData::interrupt. Threads: any.
  void Interrupt() {
    interrupted_ = true;
    if (buffer_ != nullptr) buffer_->EndEarly();
  }

  // Compares the training files with those that the resumed run has read, and remembers them for
  // checkpoints. Call before Run.
  // Errors: INVALID_ARGUMENT for a file that has been read and has changed, unless data.on_change
  // is warn; those of IdentifyFiles, unless loaders read the files.
  Status CheckFiles();

  // Returns whether the run that this one continues has read all rows, so that this one would train
  // on none. False if loaders or a stream may have more. Call after CheckFiles().
  bool IsComplete() const;

  // Returns the state of the run that this one continues.
  const TrainState& start() const { return start_; }

  // Returns the result of an update's test before its first step; nothing before the test, and
  // without one.
  const std::optional<EvaluationResult>& tested() const { return tested_; }

  // Sets TrainerData::checkpoints, on rank 0. Call before Run. Lifetime: the port outlives Run.
  void SaveWith(CheckpointPort& checkpoints) { checkpoints_ = &checkpoints; }

  // Reports training to a history, too. Lifetime: the history outlives the job.
  void WriteTo(History& history) { report_.WriteTo(history); }

  DenseNetwork& network() { return *network_; }
  // The network of a program; null: the configuration's.
  HostedNetwork* hosted() { return hosted_.get(); }

  // Returns the given configuration, with fitted statistics.
  const ClusterConfig& config() const { return config_; }

  // Returns the settings that all ranks must agree on: TrainingAgreement and the initial dense
  // weights. Call before Run.
  std::string Plan();

  // Trains and evaluates. dense: required in mode async. run: equal on all ranks, new for every
  // start. Errors: see Trainer.
  StatusOr<TrainResult> Run(EmbeddingPort& port, DensePort* dense, uint64_t run,
                            Collective& collective, std::stop_token stop);

  // Predicts files on this rank alone, with the current weights. run, steps: the pushes that the
  // servers have applied; 0 for restored rows.
  // reading: without share and identities. Errors: see Predict() of evaluator.h.
  Status Predict(EmbeddingPort& port, uint64_t run, uint64_t steps,
                 const std::vector<Calibration>& calibrations,
                 const std::vector<std::string>& files, ReadOptions reading, PredictionSink sink);

  // Returns the number of bad rows skipped so far, in all epochs; without those of an update's
  // test, which reads the rows to train on. Threads: any.
  uint64_t skipped_rows() const;

  // Returns LabelCounts::Warnings of the training data. Call after Run.
  std::vector<std::string> LabelWarnings() const { return labels_.Warnings(); }

  // See ValidationCourse::DriftAt. Call after Run.
  std::string DriftAt(uint64_t step) const { return report_.course().DriftAt(step); }

  // Returns the weights of the dense network. Call between runs. Lifetime: see
  // DenseNetwork::parameters.
  std::span<const float> weights() { return network_->parameters(); }

  // Returns a hash of weights, running statistics and optimizer state: equal for equal bytes.
  uint64_t NetworkDigest();

 private:
  TrainingJob(const ClusterConfig& config, MetricRegistry& registry, uint32_t rank);

  // Sets ranking_, and reads the items and the sets on rank 0.
  Status LoadRanking();
  // Replaces the network by the one of a checkpoint in checkpoint.directory. Returns its
  // calibrations.
  StatusOr<std::vector<Calibration>> Restore(uint64_t step);
  // Returns how the ranks or the loaders share the training files.
  Division TrainDivision() const;
  // Lets training draw the model's uniform negatives, if it has any. Errors: those of ReadItemIds.
  Status DrawNegatives(uint32_t ranks, TrainerData& data) const;
  // Returns a reader of the training files that mixes in the rows of data.replay.
  StatusOr<std::unique_ptr<BatchReader>> WithReplay(std::unique_ptr<BatchReader> reader,
                                                    uint32_t epoch);
  // Returns a function that opens a reader of this rank's share.
  OpenReader ReaderOf(const std::vector<std::string>& files, ReadOptions options,
                      Counter& skipped_rows, LabelCounts* labels = nullptr);

  ClusterConfig config_;  // With fitted statistics.
  const uint32_t rank_;
  const RawMasks masks_;
  FileIdentities identities_;
  BadRowFile bad_rows_;
  TrainState start_;
  bool has_new_files_ = false;  // data.train has files that the run before has not read.
  std::atomic<bool> interrupted_ = false;
  bool tests_first_ = false;  // True for an update that has not begun.
  std::optional<EvaluationResult> tested_;
  CheckpointPort* checkpoints_ = nullptr;
  LoaderBuffer* buffer_ = nullptr;  // Null: reads files.
  TrainReport report_;
  TargetScales scales_;
  LabelCounts labels_;  // Counts of the training data.
  Counter& skipped_train_rows_;
  Counter& skipped_validation_rows_;
  Counter& skipped_test_rows_;
  std::optional<RankingEvaluation> ranking_;  // Set if evaluations rank items.
  std::shared_ptr<HostedNetwork> hosted_;
  std::shared_ptr<DenseNetwork> network_;
};

}  // namespace simurgh
