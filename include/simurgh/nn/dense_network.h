#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "simurgh/base/status.h"
#include "simurgh/config/model_config.h"
#include "simurgh/config/service_config.h"
#include "simurgh/config/training_config.h"
#include "simurgh/data/embedding_wire.h"
#include "simurgh/nn/batch_block.h"
#include "simurgh/nn/device_sums.h"
#include "simurgh/nn/model.h"
#include "simurgh/tensor/matrix_view.h"

namespace simurgh {

struct DenseNetworkOptions {
  ModelInputs inputs;
  uint32_t threads = 1;            // Compute threads.
  uint64_t seed = 1;               // Of the initial weights.
  DenseOptimizerConfig optimizer;  // The steps' learning rates come with them.
  ComputeDevice device = ComputeDevice::kCpu;
  ComputePrecision precision = ComputePrecision::kF32;  // A CPU knows no tf32 and no f16.
  uint32_t cuda_device = 0;                             // Which of the machine's.
  // Room that a CUDA device makes for a batch at once; a larger one makes it anew. 0: the first's.
  size_t batch_rows = 0;
  // Likewise for what comes of a batch in rows, with their index. 0: what so many samples with one
  // id of each feature need; a raw feature's with as many as it has places for.
  size_t batch_row_bytes = 0;
  // Its blocks are as this says: rows, where they travel, on any device; embeddings and gradients
  // on a CUDA device, which converts, while on a CPU they are f32. No dims: all f32.
  EmbeddingWire wire;
};

struct BatchResult {
  double loss = 0;  // Mean of the model's loss.
  // False: loss or a gradient is NaN or infinite, and ApplyGradients must not follow.
  bool finite = true;
  // What gradients in f16 were multiplied by while they passed through the layers; all that leaves
  // the network is divided by it. The next step's is less after one that was not finite.
  float loss_scale = 1.0F;
};

// What a training step has to do with the other ranks of its run, if there are any. A network that
// has joined them with its device (JoinRanks) sums there, and calls neither function; whether `sum`
// is set tells it what batch norm works with.
struct RankStep {
  // Samples of all ranks' batches, through which gradients are divided; 0: of this batch.
  uint64_t global_samples = 0;
  // Told in the backward pass, on its thread, that gradients() from `first` on are what they will
  // be. The parts come from the last to the first, and are the same for every batch.
  std::function<void(size_t first, size_t count)> on_gradients;
  // Replaces values by their sums over the ranks, each of which calls it as often with as many.
  // Where it is set, batch norm works with the statistics of the global batch.
  std::function<Status(std::span<double> values)> sum;
};

// The dense part of the model: towers, loss and optimizer, on one device.
//
// A training step is ForwardBackward, then (after gradients() has been reduced over ranks)
// ApplyGradients. Running statistics of batch norm move in ApplyGradients too, so a step that is
// not applied leaves no trace. Results depend on the inputs, the seed and the number of threads
// alone.
//
// Threads: one owner.
class DenseNetwork {
 public:
  virtual ~DenseNetwork() = default;

  // dense: (B, dense_width), embeddings: (B, embedding_width), labels: (B, tasks) of the model,
  // each 0 or 1. embedding_gradient: (B, embedding_width), overwritten with the gradient of the
  // mean loss (over the global batch). A rank whose share has ended takes part with B = 0: its
  // gradients are zeros. probabilities: (B, tasks), overwritten with the predictions made before
  // the step. Errors: INTERNAL when the compute library fails, RESOURCE_EXHAUSTED when memory for
  // the batch is missing; of step.sum.
  virtual StatusOr<BatchResult> ForwardBackward(MatrixView<const float> dense,
                                                MatrixView<const float> embeddings,
                                                std::span<const float> labels,
                                                MatrixView<float> embedding_gradient,
                                                std::span<float> probabilities,
                                                const RankStep& step = {}) = 0;

  // The optimizer's step on the last gradients, once. learning_rate: of this step; > 0 (or 0, which
  // leaves the weights).
  // Errors: FAILED_PRECONDITION when there are none since the last step, or they were not finite.
  virtual Status ApplyGradients(float learning_rate) = 0;

  // Predictions with running statistics and, where the optimizer has an average_decay, the averaged
  // weights; changes nothing. probabilities: (B, tasks). Errors: as ForwardBackward.
  virtual Status Predict(MatrixView<const float> dense, MatrixView<const float> embeddings,
                         std::span<float> probabilities) = 0;

  // Memory for its batches, where its device has its own way with it. A network whose blocks are
  // not f32 rounds what it is given outside of them, and the gradients of that, as a block of step
  // 0 would be. Lifetime: of the network.
  virtual BlockPool& blocks() = 0;

  // As ForwardBackward and Predict, with embeddings and their gradient in a block that blocks() has
  // leased for so many samples.
  //
  // Where the network overlaps(), that is, works beside its caller: `meanwhile` is called while
  // it computes, and the block's gradients come later, with AwaitGradients; until then, or until
  // this has failed, the block stays. So batches come and leave while others are computed.
  virtual StatusOr<BatchResult> ForwardBackwardOn(BatchBlock& block, MatrixView<const float> dense,
                                                  std::span<const float> labels,
                                                  std::span<float> probabilities,
                                                  const RankStep& step = {},
                                                  const std::function<void()>& /*meanwhile*/ = {}) {
    return ForwardBackward(dense, block.embeddings, labels, block.gradients, probabilities, step);
  }
  virtual Status PredictOn(BatchBlock& block, MatrixView<const float> dense,
                           std::span<float> probabilities) {
    return Predict(dense, block.embeddings, probabilities);
  }

  virtual bool overlaps() const { return false; }

  // The batch that ForwardBackwardOn is called with next begins to come to the device. Only a hint:
  // not every batch needs it, and not every one that had it has to be computed. What is given here
  // stays as it is until that call.
  virtual void Load(BatchBlock& /*block*/, MatrixView<const float> /*dense*/,
                    std::span<const float> /*labels*/) {}

  // Waits for the gradients of a block, one of the last two that were computed. Errors: INTERNAL.
  virtual Status AwaitGradients(BatchBlock& /*block*/) { return absl::OkStatus(); }

  // All weights, flat, tower by tower and layer by layer: of a linear layer the weight (inputs,
  // outputs), row-major, then the bias; of cross the weight (or down, (width, rank), and up, (rank,
  // width)), then the bias; of batch norm scale, then shift. And, in the same order, their last
  // gradients.
  //
  // Lifetime: what is read there is as of the call, and what is written there counts, until the
  // next call of another function. Cost: on a device that has memory of its own, a copy from it
  // where it has changed them since, and with parameters() and gradients() one back to it before
  // they are used; an error of it shows in the next call that can say so.
  virtual std::span<float> parameters() = 0;
  virtual std::span<float> gradients() = 0;

  // Running means and variances, the first part of state(): to be averaged over ranks.
  virtual std::span<float> statistics() = 0;

  // What training changes besides parameters(), flat: of each batch norm layer the running mean,
  // then the running variance; then the optimizer's values (for adam and lamb the number of steps,
  // the first and the second moments; for sgd with momentum the velocities; for adagrad the sums of
  // squares); then, with an average_decay, the number of steps and the averaged weights.
  virtual std::span<const float> state() const = 0;

  // The CUDA device that the network is on; nothing: it is on the CPU.
  virtual std::optional<int> cuda_device() const { return std::nullopt; }

  // From now on the gradients of a step, and what batch norm sums, are summed over the ranks on the
  // device, before ForwardBackward returns: gradients() are those sums then.
  // Lifetime: ranks.sums until LeaveRanks. Errors: FAILED_PRECONDITION on a CPU,
  // RESOURCE_EXHAUSTED.
  virtual Status JoinRanks(const DeviceRanks& /*ranks*/) {
    return absl::FailedPreconditionError("dense network: it is not on a device");
  }
  virtual void LeaveRanks() {}
  // Between the two.
  virtual bool sums_on_device() const { return false; }
};

// Builds the network on options.device. Where a CUDA device is asked for and there is none, or this
// program was built without CUDA, it is built on the CPU, and the log says why. bf16 on a CPU
// without instructions for it becomes f32, and the log says so. Errors: as CreateCpuNetwork;
// RESOURCE_EXHAUSTED when the device has no memory for the weights, INTERNAL when it fails.
StatusOr<std::unique_ptr<DenseNetwork>> CreateNetwork(const ModelConfig& model,
                                                      const DenseNetworkOptions& options);

// Builds the network on the CPU, whatever options.device says, with products in bf16 where options
// ask for them, however slow.
// Errors: INVALID_ARGUMENT for f16, and for a model that does not fit together (LoadClusterConfig
// finds these first).
StatusOr<std::unique_ptr<DenseNetwork>> CreateCpuNetwork(const ModelConfig& model,
                                                         const DenseNetworkOptions& options);

}  // namespace simurgh
