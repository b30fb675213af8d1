#pragma once

#include <cstdint>

#include "absl/strings/str_cat.h"

#include "base/status.h"

namespace simurgh {

// The number of a run, which travels with every request. Upper 24 bits: the generation, which every
// start of training into a checkpoint.directory raises; 0 without one. Lower 40 bits: the training,
// a random number that all starts in the same folder share.
inline constexpr int kTrainingBits = 40;

constexpr uint64_t TrainingOf(uint64_t run) { return run & ((uint64_t{1} << kTrainingBits) - 1); }
constexpr uint64_t GenerationOf(uint64_t run) { return run >> kTrainingBits; }

// training: more than 40 bits are cut off.
constexpr uint64_t RunNumber(uint64_t generation, uint64_t training) {
  return generation << kTrainingBits | TrainingOf(training);
}

// Returns whether `run` is an older start of the training of `newest`.
constexpr bool IsSuperseded(uint64_t run, uint64_t newest) {
  return run < newest && TrainingOf(run) == TrainingOf(newest);
}

// Returns FAILED_PRECONDITION, the error for an older start of the training of `newest`.
inline Status SupersededError(uint64_t newest) {
  return absl::FailedPreconditionError(absl::StrCat("a newer start of this training, generation ",
                                                    GenerationOf(newest),
                                                    ", has taken over; stop this one"));
}

// The way in which a batch looks rows up.
enum class LookupMode : uint8_t {
  kTrain,     // Creates missing rows; updates recency and use counts.
  kEvaluate,  // Changes nothing; missing rows read as zeros.
};

// The order in which a partition applies the pushes of a step's ranks.
enum class PushOrder : uint8_t {
  kUnordered,  // Applies each push on arrival.
  kByRank,     // Applies the pushes one by one in rank order, after all have arrived.
  kSum,        // Applies the sum of the pushes, added in rank order, after all have arrived.
};

// Identifies one step of one trainer rank.
struct StepId {
  uint64_t run = 0;  // See TrainingOf.
  uint32_t rank = 0;
  uint64_t step = 0;   // Counted from 0, or from the step of the model that the run continues.
  uint32_t ranks = 1;  // Number of ranks of the run.
  PushOrder order = PushOrder::kUnordered;

  // Returns whether a push waits for the pushes of other ranks.
  bool waits_for_ranks() const { return order != PushOrder::kUnordered && ranks > 1; }
};

}  // namespace simurgh
