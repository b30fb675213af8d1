#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "config/model_config.h"
#include "config/service_config.h"
#include "config/training_config.h"
#include "embedding/vector_codec.h"
#include "nn/batch_block.h"
#include "nn/device_sums.h"
#include "nn/model.h"
#include "tensor/matrix_view.h"

namespace simurgh {

struct DenseNetworkOptions {
  ModelInputs inputs;
  uint32_t threads = 1;            // Compute threads.
  uint64_t seed = 1;               // Seed of the initial weights and of dropout.
  DenseOptimizerConfig optimizer;  // The learning rate is not used: each step passes it.
  ComputeDevice device = ComputeDevice::kCpu;
  ComputePrecision precision = ComputePrecision::kF32;  // A CPU supports f32 and bf16.
  uint32_t cuda_device = 0;                             // Index among the machine's devices.
  // Samples for which a CUDA device reserves memory; a larger batch allocates again. 0: the first
  // batch's size.
  size_t batch_rows = 0;
  // Bytes reserved for a batch's rows and their index. 0: enough for batch_rows samples with one id
  // of each feature, or with the full length of a raw feature.
  size_t batch_row_bytes = 0;
  // Format of the blocks, which the network converts. Without dims, all are f32.
  EmbeddingWire wire;
};

struct BatchResult {
  double loss = 0;  // Mean of the model's loss over the samples.
  // False: loss or a gradient is NaN or infinite, and ApplyGradients must not follow.
  bool finite = true;
  // Factor of the gradients inside an f16 network, which removes it from its results. The factor
  // falls after a step that was not finite.
  float loss_scale = 1.0F;
};

// A named part of a network's flat values. Order of a matrix: row-major.
struct DenseTensor {
  std::string name;
  std::vector<size_t> shape;
  bool in_state = false;  // True: part of state(). False: part of parameters().
  size_t offset = 0;      // Offset of the first value, in elements.
};

// What a caller does within a training step, and the step's part in a run of several ranks. After
// JoinRanks a network sums on its device and calls no function; `sum` then only selects the
// statistics of batch norm.
struct RankStep {
  uint64_t step = 0;   // Number of the step.
  uint32_t rank = 0;   // Ranks drop different values.
  uint32_t ranks = 1;  // Ranks whose batches make up the step.
  // Samples of all ranks' batches. 0: only this batch's.
  uint64_t global_samples = 0;
  // Divisor of the gradients. 0: the number of samples. A batch that is not full has a larger
  // divisor than its samples, so that each of them counts as much as those of others.
  uint64_t divisor = 0;
  // Called by the backward pass when gradients() in [first, first + count) are final. The ranges
  // run from the last to the first and are the same for every batch. May be empty.
  std::function<void(size_t first, size_t count)> on_gradients;
  // Called at most once, by the calling thread, when the block's gradients and the probabilities
  // are complete, before those of the weights: the caller may send the gradients meanwhile. usable:
  // whether they and the loss are finite. Afterwards the pass uses neither the block nor `dense`
  // nor `labels`, which the caller may release. A device, and a batch without samples, do not call
  // it. May be empty.
  std::function<void(bool usable)> on_embedding_gradients;
  // Replaces values by their sums over the ranks; all ranks make the same calls. If set, batch norm
  // uses the statistics of the global batch.
  std::function<Status(std::span<double> values)> sum;

  // The loss in_batch_softmax. Its keys are those of DenseBatch, of all samples.
  std::span<const uint64_t> user_keys;
  std::span<const uint64_t> item_keys;
  // The last samples of the batch have an item only. They are no samples of a loss or of a mean.
  size_t uniform_negatives = 0;
  // Expected number of times that an item is drawn for them, on all ranks.
  double uniform_rate = 0;
  // Concatenates the ranks' bytes, and sums floats over the ranks, as Collective does; all ranks
  // make the same calls. If set, items of the global batch compete; else those of the own batch.
  std::function<Status(std::span<const std::byte> own, std::span<std::byte> all)> gather;
  std::function<Status(std::span<float> values)> sum_floats;
};

// The dense part of the model: towers, loss and optimizer, on one device.
//
// A training step is ForwardBackward, then (after gradients() has been reduced over ranks)
// ApplyGradients, which also updates the running statistics of batch norm: a step that is not
// applied leaves no trace. Results depend only on the inputs, the seed, the step and rank of
// RankStep if layers drop values, and the number of threads.
//
// Threads: one owner.
class DenseNetwork {
 public:
  virtual ~DenseNetwork() = default;

  // block: of B samples, from blocks(); its embeddings are set. Shape: dense (B, dense_width);
  // labels and probabilities (B, tasks), see LossConfig; labels are followed by the factors (B) of
  // the samples' losses if ModelInputs::has_sample_weights. Overwrites the block's gradients with
  // those of the mean loss over the global batch, and probabilities with the predictions before the
  // step, of the values that dropout keeps. The mean of weighted losses is over the number of
  // samples. A rank without samples calls with B = 0: its gradients are zeros.
  //
  // A network that loads_ahead() calls `meanwhile` while it computes. The gradients of one that
  // overlaps() are ready after AwaitGradients; the caller keeps the block until then, or until this
  // call fails.
  // Errors: INTERNAL when the compute library fails, RESOURCE_EXHAUSTED without memory for the
  // batch; those of step.sum.
  virtual StatusOr<BatchResult> ForwardBackward(BatchBlock& block, MatrixView<const float> dense,
                                                std::span<const float> labels,
                                                std::span<float> probabilities,
                                                const RankStep& step = {},
                                                const std::function<void()>& meanwhile = {}) = 0;

  // Lets the next ForwardBackward apply its gradients itself if they are finite: on all ranks, if
  // the network sums_on_device(). Not for gradients that the caller sums. A device then goes on
  // before the host has seen the report. Returns false if the network does not; then call
  // ApplyGradients. learning_rate: as there.
  virtual bool ApplyNext(float /*learning_rate*/) { return false; }

  // Applies the last gradients once. learning_rate: >= 0; 0 leaves the weights unchanged.
  // Errors: FAILED_PRECONDITION without gradients since the last step, if they were not finite, or
  // after ApplyNext.
  virtual Status ApplyGradients(float learning_rate) = 0;

  // Computes outputs (B, tasks), the z of LossConfig, with running statistics and, given an
  // average_decay, with the averaged weights. ToPredictions() makes predictions of them. Changes
  // nothing. Shape and errors: as ForwardBackward.
  virtual Status Predict(BatchBlock& block, MatrixView<const float> dense,
                         std::span<float> outputs) = 0;

  // Returns what the last tower read in the last Predict(), (B, width): of a model of two towers
  // the user's and then the item's vector of each sample. Lifetime: until the next call.
  // Errors: UNIMPLEMENTED for a network without towers; INTERNAL.
  virtual StatusOr<MatrixView<const float>> LastTowerInput() {
    return absl::UnimplementedError("dense network: it has no towers");
  }

  // Memory for batches, allocated as the device needs it. Lifetime: the network's.
  virtual BlockPool& blocks() = 0;

  virtual bool overlaps() const { return false; }
  // Returns whether Load of the next batch is worth a call while this one is computed.
  virtual bool loads_ahead() const { return overlaps(); }

  // Starts to copy the batch of the next ForwardBackward to where it is computed. Only a hint: the
  // call may be left out, and the batch need not be computed. The arguments must not change until
  // that call.
  virtual void Load(BatchBlock& /*block*/, MatrixView<const float> /*dense*/,
                    std::span<const float> /*labels*/) {}

  // Enqueues the pass of the next ForwardBackward before the report of this one is read. Call it
  // from `meanwhile`, after ApplyNext for this step and Load of the batch. The next pass must be
  // ForwardBackward with the same arguments, after ApplyNext. Before it, only Load of the batch
  // after it and AwaitGradients are allowed. Returns whether the network did: not if the caller
  // sums, or the batch does not fit.
  virtual bool StartNext(BatchBlock& /*block*/, MatrixView<const float> /*dense*/,
                         std::span<const float> /*labels*/, const RankStep& /*step*/) {
    return false;
  }

  // Waits for the gradients of a block, one of the last two computed. Errors: INTERNAL.
  virtual Status AwaitGradients(BatchBlock& /*block*/) { return absl::OkStatus(); }

  // All weights, flat, tower by tower and layer by layer, and their last gradients in the same
  // order. linear: weight (inputs, outputs), row-major, then bias. cross: weight (or down (width,
  // rank) and up (rank, width)), then bias. batch_norm: scale, then shift. attention: weight and
  // bias of each of its layers, and slope of its activation. self_attention: positions, then the
  // parameters of SelfAttentionLayers.
  //
  // Lifetime: the values are valid, and changes to them take effect, until the next call of another
  // function; changes to gradients() only after a step with RankStep::on_gradients. Cost: a CUDA
  // device copies changed values to the host, and those that the caller may have changed back
  // before it uses them; the next call that returns a Status reports an error.
  virtual std::span<float> parameters() = 0;
  virtual std::span<float> gradients() = 0;

  // Running means and variances, the first part of state(). The ranks average them.
  virtual std::span<float> statistics() = 0;

  // All other values that training changes, flat. First, for each batch norm layer, the running
  // mean, then the running variance. Then the optimizer's values (adam, lamb: the number of steps,
  // first moments, second moments; sgd with momentum: velocities; adagrad: sums of squares). Then,
  // with an average_decay, the number of steps and the averaged weights. Then, with the correction
  // log_q, the state of ItemFrequency. Then, in f16, the loss scale, its inverse, and the number of
  // finite steps since it changed.
  virtual std::span<const float> state() const = 0;

  // Names of all of parameters(), then of all of state(), in their order. Each layer, counted from
  // 1, has TOWER.LAYER.weight, .bias (cross with a rank: .down, .up, .bias; attention: .weight_1,
  // .bias_1 and so on), or for batch norm .scale, .shift, .running_mean, .running_variance. The
  // rest, of all weights at once, are optimizer.steps, .m, .v, .velocity, .sum; average.steps,
  // .weights; item_frequency.gaps, .steps, .counts; and loss_scale.
  virtual std::vector<DenseTensor> tensors() const = 0;

  // Replaces parameters() and state() by those of a network of the same model, optimizer and
  // precision. Training then continues to the bit as that network's would. The last gradients are
  // dropped.
  // Errors: INVALID_ARGUMENT for other lengths, which changes nothing; INTERNAL.
  virtual Status Restore(std::span<const float> parameters, std::span<const float> state) = 0;

  // Checks all weights. Errors: FAILED_PRECONDITION if a value of parameters() or statistics() is
  // NaN or infinite, naming the layer and the remedy. Cost: reads all of them, from a CUDA device
  // too.
  virtual Status CheckFinite() = 0;

  // Index of the network's CUDA device; nullopt on the CPU.
  virtual std::optional<int> cuda_device() const { return std::nullopt; }

  // Makes ForwardBackward sum gradients and batch norm statistics over the ranks on the device
  // before it returns; gradients() are then those sums. Lifetime: ranks.sums lives until
  // LeaveRanks. Errors: FAILED_PRECONDITION on a CPU, RESOURCE_EXHAUSTED.
  virtual Status JoinRanks(const DeviceRanks& /*ranks*/) {
    return absl::FailedPreconditionError("dense network: it is not on a device");
  }
  virtual void LeaveRanks() {}
  // Returns true from JoinRanks to LeaveRanks.
  virtual bool sums_on_device() const { return false; }
};

// Returns the tensors of a network's weights and running statistics, with which it predicts, as
// DenseNetwork::tensors() has them. Errors: INVALID_ARGUMENT for an inconsistent model.
StatusOr<std::vector<DenseTensor>> PredictionTensors(const ModelConfig& model,
                                                     const ModelInputs& inputs);

// Builds the network on options.device. Falls back to the CPU, with a log line, without a CUDA
// device or CUDA support; and to f32 on a CPU without bf16 instructions. Errors: those of
// CreateCpuNetwork; RESOURCE_EXHAUSTED when the device has no memory for the weights, INTERNAL when
// it fails.
StatusOr<std::unique_ptr<DenseNetwork>> CreateNetwork(const ModelConfig& model,
                                                      const DenseNetworkOptions& options);

// Builds the network on the CPU, with bf16 products if options.precision is bf16, even if slow.
// Errors: INVALID_ARGUMENT for f16 and for an inconsistent model (LoadClusterConfig rejects both).
StatusOr<std::unique_ptr<DenseNetwork>> CreateCpuNetwork(const ModelConfig& model,
                                                         const DenseNetworkOptions& options);

}  // namespace simurgh
