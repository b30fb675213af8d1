#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/status.h"
#include "data/batch/data_position.h"
#include "data/reading/file_identity.h"
#include "train/evaluator.h"

namespace simurgh {

struct EarlyStoppingState {
  std::optional<double> best;  // Best value of the metric; larger is better.
  uint32_t no_better = 0;      // Evaluations since the best one.
};

// The state of a run besides weights and optimizer state. Training that continues begins with it.
struct TrainState {
  uint64_t steps = 0;
  uint64_t samples = 0;  // Samples of all ranks.
  uint64_t skipped_steps = 0;
  uint32_t epochs = 0;          // Completed epochs, if evaluations are due by epochs.
  DataPosition position;        // Position of all shares.
  std::vector<DataFile> files;  // Training files, also those that have not been read.
  EarlyStoppingState stopping;
  bool stopped_early = false;  // See EarlyStoppingConfig.
  // The result on the validation data, if there was an evaluation after exactly these steps.
  std::optional<EvaluationResult> validation;
  // One per label, fitted by the last evaluation of the validation data that did so, or given.
  // Empty: none.
  std::vector<Calibration> calibrations = {};
  // Shape: (ranks, DenseNetwork::statistics()). Empty for one rank.
  std::vector<float> rank_statistics;
  // Mode async: see DensePort::PullState. Only rank 0 gets it from a trainer that saves.
  std::vector<float> server_optimizer;
};

// Rank 0's side of a checkpoint: decides when, and saves while training continues.
//
// Threads: IsDue on a loader's; the others on the trainer's.
class CheckpointPort {
 public:
  virtual ~CheckpointPort() = default;

  // Returns whether all ranks stop before a step for a checkpoint. evaluates: training evaluates
  // the validation data just before. Called ahead of training, for each step but the first one; for
  // the first one of an epoch, and while a stream is quiet, perhaps again, until it returns true.
  virtual bool IsDue(uint64_t step, bool evaluates) = 0;

  // Returns whether to save at a step that is due: not if only an evaluation made it due, and
  // others are better.
  virtual bool IsWanted(const TrainState& state) = 0;

  // Waits until no save or load is under way. Returns false if one still is after `patience`.
  virtual bool AwaitIdle(std::chrono::milliseconds patience) = 0;

  // Starts to save the network and the servers' rows. The network may change once it returns, the
  // rows once AwaitRows has returned true. Requires that AwaitIdle has returned true.
  virtual void Begin(const TrainState& state) = 0;

  // Waits until the servers have noted all rows, or the save has failed. Returns false if neither
  // happens within `patience`.
  virtual bool AwaitRows(std::chrono::milliseconds patience) = 0;

  // Returns whether evaluations are compared.
  virtual bool keeps_best() = 0;
  // Returns the step of the checkpoint that is the best one once `state` is saved as well; none if
  // none has an evaluation. Call after training.
  virtual std::optional<uint64_t> BestStep(const TrainState& state) = 0;
  // The step of the newest checkpoint.
  virtual uint64_t newest() = 0;
  // Starts to replace the servers' rows by those of a checkpoint. Requires that AwaitIdle has
  // returned true.
  virtual void BeginLoad(uint64_t step) = 0;

  // The error of a save or load that must end training.
  virtual Status failure() = 0;
};

}  // namespace simurgh
