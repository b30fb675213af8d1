#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>

#include "base/status.h"
#include "config/service_config.h"

namespace simurgh {

// The decisions of rank 0 about checkpoints: which steps are saved, whether a save is under way,
// and what its end means for training. It has no thread and reads no clock: the caller saves and
// loads, and reports here.
//
// Threads: one at a time.
class CheckpointSchedule {
 public:
  using Clock = std::chrono::steady_clock;

  CheckpointSchedule(const CheckpointConfig& config, Clock::time_point now)
      : config_(config), last_due_(now) {}

  // Returns whether all ranks stop before a step for a save. Called once for each step, ahead of
  // training; for a step without a save perhaps again.
  bool IsDue(uint64_t step, Clock::time_point now);
  // Returns whether IsDue() has returned true for the step and its save has not begun.
  bool IsAnnounced(uint64_t step) const { return due_.contains(step); }
  // Intervals of config.every without a save so far, since another save took longer.
  uint64_t skipped() const { return skipped_; }

  // A save begins. mark: the step before which training has stopped; none after its end.
  // Requires is_idle().
  void BeginSave(std::optional<uint64_t> mark);
  // The servers have noted their rows: training may go on.
  void OnRows() { rows_noted_ = true; }
  // The save has ended. step: the checkpoint's.
  void OnSaved(uint64_t step);
  void OnSaveFailed(const Status& error);

  // Rows of a checkpoint replace those of the servers. Requires is_idle().
  void BeginLoad() { BeginSave(std::nullopt); }
  void OnLoaded(const Status& status);

  bool is_idle() const { return !busy_; }
  // Returns whether training may go on after a mark.
  bool rows_noted() const { return !busy_ || rows_noted_; }
  // The error that must end training.
  const Status& failure() const { return failure_; }

  // Step of the newest checkpoint.
  uint64_t newest() const { return newest_; }
  void SetNewest(uint64_t step) { newest_ = step; }

  // Returns whether a save after training that failed is repeated at a request.
  bool RepeatsAfter(const Status& error) const;

  // Asks for a save at the next step, or for one more after the end of training. Returns the
  // number of the request, from 1.
  uint64_t Request() { return ++requests_; }
  bool IsRequest(uint64_t number) const { return number > 0 && number <= requests_; }
  // Returns whether a save that began after the request has ended.
  bool IsAnswered(uint64_t number) const { return number <= answered_; }
  bool has_request() const { return requests_ > answered_; }

 private:
  void End();

  const CheckpointConfig config_;
  Clock::time_point last_due_;
  uint64_t skipped_ = 0;
  std::set<uint64_t> due_;  // Steps of announced saves that have not begun.
  bool busy_ = false;       // Saves or loads.
  bool at_mark_ = false;
  bool rows_noted_ = false;
  uint64_t requests_ = 0;
  uint64_t taken_ = 0;     // The first requests, which the save under way answers.
  uint64_t answered_ = 0;  // The first requests, which a save has answered.
  uint64_t newest_ = 0;
  Status failure_;
};

}  // namespace simurgh
