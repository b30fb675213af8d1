#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "absl/base/thread_annotations.h"

#include "base/mutex.h"
#include "collective/collective.h"
#include "nn/two_towers.h"
#include "train/batch_pipeline.h"
#include "train/checkpoint_port.h"
#include "train/evaluator.h"

namespace simurgh {

struct LoaderOptions {
  uint32_t epochs = 1;
  uint64_t max_batches = 0;  // 0: no limit.
  // Rank 0's decides before which steps the model is saved. May be null.
  CheckpointPort* checkpoints = nullptr;
  // Evaluations of the validation data while training, for `checkpoints`; 0: none.
  uint64_t evaluate_every_steps = 0;
  uint32_t evaluate_every_epochs = 0;  // Requires mark_epoch_ends.
  uint32_t completed_epochs = 0;       // TrainState::epochs of earlier runs.
  uint64_t first_batch = 0;            // Batches of earlier runs; they count into max_batches.
  uint32_t first_epoch = 0;            // Earlier epochs have been read.
  // Once set on any rank, the input ends at the next step, the same one on all ranks. May be null.
  const std::atomic<bool>* ends_early = nullptr;
  bool drop_last = false;  // Skip a last batch of fewer samples than batch_size.
  size_t batch_size = 0;
  // Set Batch::ends_epoch. Each batch then waits until the reader has returned the next one.
  bool mark_epoch_ends = false;

  // Ranks that train in step; null with one rank. A step has a batch of every rank, an empty one
  // where its share has ended. An epoch ends when all shares have ended; with drop_last, when a
  // share has no full batch for the next step.
  Collective* ranks = nullptr;
  size_t features = 0;  // Features, dense columns and labels of an empty batch.
  size_t dense_width = 0;
  size_t tasks = 1;
  // Inputs of a two-tower model's vectors, for the keys of the batches; null: they need none.
  const TwoTowerColumns* two_towers = nullptr;
  // Adds the uniform negatives of a step to this rank's batch. May be empty.
  std::function<Status(uint64_t step, Batch& batch)> add_negatives = {};
};

// A thread that reads a data set for a number of epochs and feeds it to a pipeline.
//
// Lifetime: the pipeline outlives this. The destructor stops pipeline and reader and joins the
// thread. With several ranks it requires that their loading channel has been closed.
class Loader {
 public:
  Loader(OpenEpoch open, LoaderOptions options, BatchPipeline& pipeline);
  ~Loader();

  // Returns whether ends_early has ended the input. Call after the pipeline's last batch.
  bool ended_early() const { return ended_early_; }

 private:
  Status Load();
  // Returns null once stopped.
  StatusOr<BatchReader*> OpenNext(uint32_t epoch);
  void CloseReader();
  // Returns nothing at the end of the epoch.
  StatusOr<std::optional<Batch>> NextOf(BatchReader& reader);
  // Returns whether training evaluates after the steps agreed on so far.
  bool Evaluates() const;
  // Exchanges the ranks' batch sizes; returns this rank's batch of the step, or an idle one.
  StatusOr<std::optional<Batch>> Agree(std::optional<Batch> own);

  const OpenEpoch open_;
  const LoaderOptions options_;
  BatchPipeline& pipeline_;
  Mutex mutex_;
  std::unique_ptr<BatchReader> reader_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t agreed_ = 0;         // Steps agreed on.
  uint64_t marked_ = 0;         // Steps agreed on before the last mark without a batch.
  StreamOffsets idle_offsets_;  // Offsets of idle batches since the last other one.
  ShareProgress progress_;      // Progress of the last batch.
  uint32_t epochs_;             // Completed epochs, with mark_epoch_ends.
  bool epoch_ended_ = false;    // The last step agreed on ended an epoch, with mark_epoch_ends.
  bool due_ = false;            // A checkpoint is due before the next step.
  std::atomic<bool> ended_early_ = false;
  std::thread thread_;
};

}  // namespace simurgh
