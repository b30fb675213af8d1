#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "config/cluster_config.h"
#include "model/model_directory.h"
#include "model/tensor_file.h"
#include "nn/dense_network.h"
#include "train/checkpoint_port.h"
#include "train/program_state.h"

namespace simurgh {

// A checkpoint that training continues from.
struct ResumePoint {
  std::string model;  // Path of the model's folder.
  Checkpoint checkpoint;
};

// Returns the checkpoint to continue from. resume: "auto": the newest one in checkpoint.directory,
// if there is one; "never": none; otherwise the path of a model, or of one of its checkpoints.
// Errors: INVALID_ARGUMENT unless the model fits the configuration, naming the settings that
// differ; those of ModelDirectory.
StatusOr<std::optional<ResumePoint>> FindResumePoint(const ClusterConfig& config,
                                                     const std::string& resume);

// Checks a checkpoint. except: prefixes of keys that may differ.
// Errors: INVALID_ARGUMENT unless the checkpoint fits the configuration, naming the settings that
// differ.
Status CheckFits(const Checkpoint& checkpoint, const ClusterConfig& config,
                 const std::vector<std::string>& except = {});

// Sets a network's running statistics of batch norm to their mean over the ranks, if there are
// several.
void SetMeanStatistics(const TrainState& state, std::span<float> statistics);

// The weights and the state of a network, in memory.
struct DenseCopy {
  // server_optimizer, server_state: in mode async, see RestoreDense.
  explicit DenseCopy(DenseNetwork& network, const DenseOptimizerConfig* server_optimizer = nullptr,
                     std::span<const float> server_state = {});

  std::vector<DenseTensor> tensors;
  size_t statistics;  // Number of the network's statistics(): the first part of `state`.
  std::vector<float> parameters;
  std::vector<float> state;  // State of the network, then of the servers' optimizer.
  std::optional<ProgramState> program =
      {};  // The state of a program's network, which has nothing else.
};

// The files of a network and of each rank's statistics of batch norm.
class DenseFiles {
 public:
  static uint64_t BytesOf(const DenseCopy& dense, const std::vector<float>& rank_statistics);
  // Creates the files in `folder` and reserves their room. Errors: see TensorFileWriter.
  static StatusOr<DenseFiles> Create(const std::string& folder, const DenseCopy& dense,
                                     const std::vector<float>& rank_statistics,
                                     FileSystem& files = FileSystem::Real());
  // Writes the files. Takes the same arguments as Create and must be the last call.
  Status Write(const DenseCopy& dense, const std::vector<float>& rank_statistics);

 private:
  DenseFiles(TensorFileWriter network, std::optional<TensorFileWriter> ranks)
      : network_(std::move(network)), ranks_(std::move(ranks)) {}

  TensorFileWriter network_;
  std::optional<TensorFileWriter> ranks_;
};

// Reads the files of DenseFiles. The network gets the statistics of `rank` if the model was saved
// by the same number of ranks, otherwise the statistics of the network that was saved.
// server_optimizer: in mode async, the optimizer that the servers have instead of the network; else
// null. Returns its state: see DensePort::PullState.
// Errors: INVALID_ARGUMENT for another network, naming the tensor and both shapes; DATA_LOSS.
StatusOr<std::vector<float>> RestoreDense(const Checkpoint& checkpoint, uint32_t rank,
                                          uint32_t ranks, DenseNetwork& network,
                                          const DenseOptimizerConfig* server_optimizer);

// Copies weights and statistics of equal name and shape into a new network, from the best
// checkpoint of checkpoint.start_from, or else its newest one. Logs the numbers of tensors. Errors:
// those of ModelDirectory; INVALID_ARGUMENT for a model that has no tensor and no table of the
// configuration.
Status SetStartWeights(const ClusterConfig& config, DenseNetwork& network);

// Writes a state into a manifest, without rank_statistics and with two metrics of `validation`.
void WriteState(const TrainState& state, Manifest& manifest);
// Returns the state in a manifest of a model with this number of labels, without rank_statistics
// and validation. Errors: DATA_LOSS for a manifest without a state.
StatusOr<TrainState> ReadState(const Manifest& manifest, size_t labels);

}  // namespace simurgh
