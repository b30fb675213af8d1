#pragma once

#include <cstdint>

namespace simurgh {

// How a batch looks rows up.
enum class LookupMode : uint8_t {
  kTrain,     // Creates missing rows; updates recency and use counts.
  kEvaluate,  // Changes nothing; missing rows read as zeros.
};

// How a partition applies the pushes of a step's ranks.
enum class PushOrder : uint8_t {
  kUnordered,  // Each on arrival.
  kByRank,     // After all have arrived, one after another in rank order.
  kSum,        // After all have arrived, as one push: the sum in rank order.
};

// Identifies one step of one trainer rank.
struct StepId {
  uint64_t run = 0;  // See table/run_number.h.
  uint32_t rank = 0;
  uint64_t step = 0;   // From 0, or from the step of the model that the run continues.
  uint32_t ranks = 1;  // Number of ranks of the run.
  PushOrder order = PushOrder::kUnordered;

  // Whether a push waits for those of other ranks.
  bool waits_for_ranks() const { return order != PushOrder::kUnordered && ranks > 1; }
};

}  // namespace simurgh
