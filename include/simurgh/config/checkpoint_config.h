#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "simurgh/config/evaluation_metric.h"

namespace simurgh {

// YAML section `checkpoint`.
struct CheckpointConfig {
  enum class OnError { kContinue, kStop };
  enum class OnServerLoss { kRollback, kPartial };

  // Path of the folder for the trained model, which need not exist; empty: nothing is saved.
  std::string directory;
  uint64_t every_steps = 0;            // 0: not by steps.
  std::set<uint64_t> at_steps;         // Numbers of steps trained.
  std::chrono::milliseconds every{0};  // 0: not by time.
  uint32_t keep = 2;                   // Number of checkpoints to keep, from 1.
  // Number of checkpoints with the best evaluations to keep, too. ApplyBest sets it to 0 where
  // training does not compare evaluations, and chooses the metric.
  uint32_t keep_best = 1;
  std::optional<EvaluationMetric> best_by;
  uint32_t full_every = 1;                // Number of checkpoints for one with all rows, from 1.
  uint64_t memory = uint64_t{256} << 20;  // Bytes per server for rows copied early.
  uint64_t bandwidth = 0;                 // Bytes per second that a server writes; 0: no limit.
  OnError on_error = OnError::kContinue;
  OnServerLoss on_server_loss = OnServerLoss::kRollback;
};

}  // namespace simurgh
