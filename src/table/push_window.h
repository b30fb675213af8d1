#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "simurgh/base/status.h"

namespace simurgh {

// Which pushes of one trainer rank in one run have been applied. Steps before next_step() are
// complete; of the following kOpenSteps it remembers part by part.
class RankWindow {
 public:
  static constexpr uint32_t kMaxParts = 64;
  // How far a rank may be ahead of its oldest incomplete step; far beyond any staleness.
  static constexpr uint64_t kOpenSteps = 1024;

  // The first step that is not complete.
  uint64_t next_step() const { return next_step_; }

  // Whether this part had been applied. Requires step < next_step() + kOpenSteps.
  // Errors: INVALID_ARGUMENT when the step came with another number of parts before.
  StatusOr<bool> Applied(uint64_t step, uint32_t part, uint32_t parts) const;

  // Requires that Applied() answered false.
  void Record(uint64_t step, uint32_t part, uint32_t parts);

 private:
  struct OpenStep {
    uint64_t applied = 0;  // One bit a part.
    uint32_t parts = 0;    // 0: nothing of the step has come.
  };

  static uint64_t AllOf(uint32_t parts) { return ~uint64_t{0} >> (kMaxParts - parts); }
  OpenStep& slot(uint64_t step) { return open_[step % kOpenSteps]; }
  const OpenStep& slot(uint64_t step) const { return open_[step % kOpenSteps]; }

  uint64_t next_step_ = 0;
  std::array<OpenStep, kOpenSteps> open_;
};

// What makes a push apply exactly once: a window for each (run, rank), of which the kMaxTrainers
// that pushed last are remembered. Every rank pushes every step to every partition, if only empty
// groups: a gap that never closes is a loss.
//
// Threads: one owner.
// Cost: 16 KiB a remembered trainer.
class PushWindow {
 public:
  static constexpr size_t kMaxTrainers = 256;

  // Whether the push had been applied before.
  // Errors: INVALID_ARGUMENT for parts outside 1 to 64, part >= parts, or a step that came with
  // another number of parts; DATA_LOSS when steps in between must have been lost.
  StatusOr<bool> Applied(uint64_t run, uint32_t rank, uint64_t step, uint32_t part,
                         uint32_t parts) const;

  // Remembers a push as applied. Requires that Applied() answered false just before.
  void Record(uint64_t run, uint32_t rank, uint64_t step, uint32_t part, uint32_t parts);

  // Errors: DATA_LOSS unless the rank's first `acknowledged_steps` steps are remembered as
  // complete.
  Status CheckAcknowledged(uint64_t run, uint32_t rank, uint64_t acknowledged_steps) const;

  size_t trainer_count() const { return trainers_.size(); }

 private:
  struct Trainer {
    uint64_t run;
    uint32_t rank;
    uint64_t last_use;
    std::unique_ptr<RankWindow> window;
  };

  const RankWindow* Find(uint64_t run, uint32_t rank) const;
  RankWindow& FindOrAdd(uint64_t run, uint32_t rank);

  std::vector<Trainer> trainers_;
  uint64_t uses_ = 0;
};

}  // namespace simurgh
