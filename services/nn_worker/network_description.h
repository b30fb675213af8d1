#pragma once

#include <string>
#include <vector>

#include "config/cluster_config.h"
#include "services/nn_worker/training_job.h"
#include "train/ports.h"

namespace simurgh {

// Returns the dense network and its inputs as JSON, for programs that do not read the
// configuration: the text `network` of src/model/FORMAT.md.
std::string DescribeNetwork(const ClusterConfig& config);

// Returns the names of the dense columns that a network reads; those of masks are last.
std::vector<std::string> DenseNames(const ClusterConfig& config);

// Returns the names of predictions: `p` for one label, `p_LABEL` for each of several.
std::vector<std::string> OutputNames(std::vector<std::string> labels);

// Returns the content of probe.csv (src/model/FORMAT.md): the first rows of the test files, or of
// the training files without tests, with the job's probabilities. Empty if the rows cannot be read
// or predicted, which is logged: a model without probe is better than none.
// Requires that all pushes are acknowledged. run: see TrainingJob::Predict. state: state of the
// model.
std::string MakeProbe(TrainingJob& job, EmbeddingPort& port, uint64_t run, const TrainState& state);

}  // namespace simurgh
