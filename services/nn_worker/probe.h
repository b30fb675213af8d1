#pragma once

#include <string>

#include "services/nn_worker/training_job.h"
#include "simurgh/model/model_directory.h"
#include "simurgh/train/ports.h"

namespace simurgh {

// The content of probe.csv (src/model/FORMAT.md): the first rows of the test files, or of the
// training files without tests, with the job's probabilities. Empty if the rows cannot be read or
// predicted, which is logged: a model without probe is better than none.
// Requires that all pushes are acknowledged. run, steps: see
// TrainingJob::Predict.
std::string MakeProbe(TrainingJob& job, EmbeddingPort& port, uint64_t run, uint64_t steps);

// Predicts the rows of a checkpoint's probe.csv and compares. A checkpoint without one passes.
// Errors: FAILED_PRECONDITION for a difference, naming the row and both numbers; DATA_LOSS for a
// damaged probe; of TrainingJob::Predict.
Status CheckProbe(const Checkpoint& checkpoint, TrainingJob& job, EmbeddingPort& port);

}  // namespace simurgh
