#pragma once

#include <chrono>
#include <cstdint>

#include "simurgh/base/status.h"
#include "simurgh/train/train_state.h"

namespace simurgh {

// Rank 0's side of a checkpoint: decides when, and saves while training continues.
//
// Threads: IsDue on a loader's; the others on the trainer's.
class CheckpointPort {
 public:
  virtual ~CheckpointPort() = default;

  // Whether to save before a step. Called ahead of training, for each step but the first one; for
  // the first one of an epoch perhaps again, until it returns true.
  virtual bool IsDue(uint64_t step) = 0;

  // Waits until no save is under way. Returns false if one still is after `patience`.
  virtual bool AwaitIdle(std::chrono::milliseconds patience) = 0;

  // Starts to save the network and the servers' rows. The network may change once it returns, the
  // rows once AwaitRows has returned true. Requires that AwaitIdle has returned true.
  virtual void Begin(const TrainState& state) = 0;

  // Waits until the servers have noted all rows, or the save has failed. Returns false if neither
  // happens within `patience`.
  virtual bool AwaitRows(std::chrono::milliseconds patience) = 0;

  // The error of a save that must end training.
  virtual Status failure() = 0;
};

}  // namespace simurgh
