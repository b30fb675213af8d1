#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>

#include "simurgh/base/status.h"
#include "simurgh/data/batch_reader.h"
#include "simurgh/nn/dense_network.h"
#include "simurgh/train/ports.h"

namespace simurgh {

struct EvaluationResult {
  uint64_t samples = 0;
  double auc = 0;          // Exact; NaN when a class is missing.
  double log_loss = 0;     // Mean binary cross entropy.
  double calibration = 0;  // Mean prediction over the share of positives.
};

// Opens a data set from its beginning.
using OpenReader = std::function<StatusOr<std::unique_ptr<BatchReader>>()>;

// Predicts all of a data set with the present weights. Changes nothing anywhere; unseen ids read as
// zeros.
// position: of the trainer; its step is the number of those finished, all of them acknowledged.
// kept_negatives: the share that training kept; predictions are corrected for it, as the set has
// all of them.
// Errors: of the reader, the port past `retry_deadline`, the network; INVALID_ARGUMENT for an empty
// set; CANCELLED after a stop. Threads: the network's owner.
StatusOr<EvaluationResult> Evaluate(EmbeddingPort& port, DenseNetwork& network,
                                    const TrainerPosition& position, const OpenReader& open,
                                    size_t embedding_width, double kept_negatives,
                                    std::chrono::milliseconds retry_deadline, std::stop_token stop);

}  // namespace simurgh
