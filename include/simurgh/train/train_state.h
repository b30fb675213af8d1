#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "simurgh/data/data_position.h"
#include "simurgh/data/file_identity.h"
#include "simurgh/train/evaluator.h"

namespace simurgh {

struct EarlyStoppingState {
  std::optional<double> best;  // Of the metric; larger is better.
  uint32_t no_better = 0;      // Evaluations since the best one.
};

// What a run knows besides weights and optimizer state. Training that continues begins with it.
struct TrainState {
  uint64_t steps = 0;
  uint64_t samples = 0;  // Of all ranks.
  uint64_t skipped_steps = 0;
  uint32_t epochs = 0;          // Completed, if evaluations are due by epochs.
  DataPosition position;        // Of all shares.
  std::vector<DataFile> files;  // Training files, also those that have not been read.
  EarlyStoppingState stopping;
  bool stopped_early = false;  // See EarlyStoppingConfig.
  // Of the validation data, if there was an evaluation after exactly these steps.
  std::optional<EvaluationResult> validation;
  // Shape: (ranks, DenseNetwork::statistics()). Empty for one rank.
  std::vector<float> rank_statistics;
  // Mode async: see DensePort::PullState. Only rank 0 gets it from a trainer that saves.
  std::vector<float> server_optimizer;
};

}  // namespace simurgh
