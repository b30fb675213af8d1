#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "simurgh/base/status.h"
#include "simurgh/config/cluster_config.h"
#include "simurgh/model/model_directory.h"
#include "simurgh/nn/dense_network.h"
#include "simurgh/train/train_state.h"

namespace simurgh {

// A checkpoint that training continues from.
struct ResumePoint {
  std::string model;  // Path of the model's folder.
  Checkpoint checkpoint;
};

// resume: "auto": the newest checkpoint in checkpoint.directory, if there is one; "never": none;
// otherwise the path of a model, or of one of its checkpoints.
// Errors: INVALID_ARGUMENT unless the model fits the configuration, naming the settings that
// differ; of ModelDirectory.
StatusOr<std::optional<ResumePoint>> FindResumePoint(const ClusterConfig& config,
                                                     const std::string& resume);

// Sets a network's running statistics of batch norm to their mean over the ranks, if there are
// several.
void SetMeanStatistics(const TrainState& state, std::span<float> statistics);

// The weights and the state of a network, in memory.
struct DenseCopy {
  explicit DenseCopy(DenseNetwork& network);

  std::vector<DenseTensor> tensors;
  size_t statistics;  // Number of the network's statistics(): the first part of `state`.
  std::vector<float> parameters;
  std::vector<float> state;
};

// Writes a network, and each rank's statistics of batch norm, into `folder`.
Status WriteDense(const std::string& folder, const DenseCopy& dense,
                  const std::vector<float>& rank_statistics,
                  FileSystem& files = FileSystem::Real());

// Reads what WriteDense has written. The network gets the statistics of `rank` if the model was
// saved by as many ranks, otherwise those of the network that was saved.
// Errors: INVALID_ARGUMENT for another network, naming the tensor and both shapes; DATA_LOSS.
Status RestoreDense(const Checkpoint& checkpoint, uint32_t rank, uint32_t ranks,
                    DenseNetwork& network);

// A state in the manifest, without rank_statistics. Of `validation` only two metrics.
void WriteState(const TrainState& state, Manifest& manifest);
// The state in a manifest, without rank_statistics and validation.
// Errors: DATA_LOSS for a manifest without a state.
StatusOr<TrainState> ReadState(const Manifest& manifest);

}  // namespace simurgh
