#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"

#include "base/mutex.h"
#include "base/status.h"
#include "collective/collective.h"
#include "config/cluster_config.h"
#include "embedding/row_codec.h"
#include "embedding/vector_codec.h"
#include "nn/dense_network.h"
#include "tensor/matrix_view.h"
#include "train/program_state.h"

namespace simurgh {

// The dense network of a program: the trainer asks the program to compute.
//
// The trainer's calls wait until the program has answered. The program takes one task after
// another, and answers each before it takes the next. Weights and optimizer are the program's:
// parameters() and state() are empty, and the program sums its gradients over the ranks.
//
// Threads: the trainer's, and one of the program's; Fail and End by any.
class HostedNetwork final : public DenseNetwork {
 public:
  enum class Work {
    kTrain,    // Compute gradients; answer with Finish.
    kPredict,  // Compute outputs; answer with Predicted.
    kSave,     // Return the state; answer with Saved.
    kRestore,  // Take over `state`; answer with Restored.
    kEnd       // Training has ended.
  };

  struct Task {
    Work work = Work::kEnd;
    uint64_t step = 0;                    // kTrain
    size_t rows = 0;                      // Samples, B.
    MatrixView<const float> dense;        // (B, dense width), the features' masks last.
    MatrixView<float> embeddings;         // (B, embedding width), features side by side.
    std::span<const float> labels;        // kTrain: (B, tasks); NaN where a label is unknown.
    std::span<const float> weights;       // kTrain: (B); empty without sample weights.
    std::shared_ptr<const void> memory;   // Owner of the arrays above.
    const ProgramState* state = nullptr;  // kRestore
  };

  // config: without a model's network.
  explicit HostedNetwork(const ClusterConfig& config);

  // --- The program's side.

  // Waits for a task, up to `patience`; nothing: there is none yet. Errors: FAILED_PRECONDITION if
  // the last task has not been answered; those of Fail.
  StatusOr<std::optional<Task>> Next(std::chrono::milliseconds patience);
  // gradients: (B, embedding width), derivatives of the batch's loss; read before the return.
  // outputs: (B, tasks), the z of LossConfig. usable: false leaves the dense step out on all ranks.
  // Errors: FAILED_PRECONDITION unless the task is kTrain; INVALID_ARGUMENT for other sizes.
  Status Finish(std::span<const float> gradients, std::span<const float> outputs, bool usable);
  // outputs: see Finish.
  Status Predicted(std::span<const float> outputs);
  Status Saved(ProgramState state);
  Status Restored();
  // Replaces numbers by their sums over the ranks, in rank order. All ranks make the same calls
  // while they have a task kTrain. Errors: FAILED_PRECONDITION without one; those of Collective.
  Status Sum(std::span<float> numbers);
  // Returns whether all ranks say yes. See Sum.
  StatusOr<bool> Agree(bool yes);

  // Ends the trainer's present and later calls with an error, and then the program's.
  void Fail(const Status& reason);
  // Does what Fail does, but first waits up to `patience` for the loss of another rank, which then
  // is the error: a lost rank makes collectives of PyTorch raise, for example. Call it with several
  // ranks. Threads: the program's.
  void FailUnlessLost(const Status& reason, std::chrono::milliseconds patience);
  // Gives the program no further task but kEnd.
  void End();

  // The state of the model that training continues; nothing for a new model.
  const std::optional<ProgramState>& start() const { return start_; }

  // --- The trainer's side, besides DenseNetwork.

  // Sets the ranks of Sum. Lifetime: the collective outlives the last task.
  void Join(Collective& collective) { collective_ = &collective; }
  // Sets start(). Call before the first task.
  void StartFrom(ProgramState state) { start_ = std::move(state); }
  // Asks for the program's state. Errors: those of Fail.
  StatusOr<ProgramState> Save();
  // Makes the program take over a state. Errors: those of Fail.
  Status RestoreProgram(const ProgramState& state);

  StatusOr<BatchResult> ForwardBackward(BatchBlock& block, MatrixView<const float> dense,
                                        std::span<const float> labels,
                                        std::span<float> probabilities, const RankStep& step,
                                        const std::function<void()>& meanwhile) override;
  // The program has applied its gradients, or will.
  Status ApplyGradients(float /*learning_rate*/) override { return absl::OkStatus(); }
  bool loads_ahead() const override { return true; }
  void Load(BatchBlock& block, MatrixView<const float> dense,
            std::span<const float> labels) override;
  Status Predict(BatchBlock& block, MatrixView<const float> dense,
                 std::span<float> outputs) override;
  BlockPool& blocks() override { return *blocks_; }
  std::span<float> parameters() override { return {}; }
  std::span<float> gradients() override { return {}; }
  std::span<float> statistics() override { return {}; }
  std::span<const float> state() const override { return {}; }
  std::vector<DenseTensor> tensors() const override { return {}; }
  Status Restore(std::span<const float> /*parameters*/, std::span<const float> /*state*/) override {
    return absl::OkStatus();
  }
  Status CheckFinite() override { return absl::OkStatus(); }

 private:
  // A task, and the places for its answer.
  struct Exchange {
    Task task;
    BatchBlock* block = nullptr;        // kTrain
    float gradient_scale = 1;           // kTrain: factor of the program's gradients.
    std::span<float> outputs;           // kPredict: the answer.
    std::vector<float> train_outputs;   // kTrain: the answer.
    bool usable = true;                 // kTrain: the program's word, and finite gradients.
    bool finite_gradients = true;       // kTrain
    std::optional<ProgramState> saved;  // kSave: the answer.
  };

  // Gives the program a task, calls `meanwhile`, and waits for the answer.
  Status Ask(Exchange& exchange, const std::function<void()>& meanwhile = {});
  // Returns the task that the program answers now. A failure waits for the lock until the program
  // has answered, so that the trainer keeps the task meanwhile.
  StatusOr<Exchange*> Taken(Work work) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends the program's work on a task.
  Status Answer() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns whether the program has a task kTrain.
  Status CheckStep();
  // Sets the inputs of a task.
  void SetInputs(BatchBlock& block, MatrixView<const float> dense, std::span<const float> labels,
                 size_t rows, Task& task) const;
  void Encode(Exchange& exchange, std::span<const float> gradients) const;
  Status CheckOutputs(size_t given, size_t rows) const;

  const std::vector<TaskConfig> tasks_;
  const ModelInputs inputs_;
  const EmbeddingWire wire_;
  const RowCodec rows_;
  const VectorCodec embedding_codec_;
  const VectorCodec gradient_codec_;
  const std::unique_ptr<BlockPool> blocks_;
  std::optional<ProgramState> start_;
  Task ahead_;                                  // Inputs of the batch that was loaded last.
  std::shared_ptr<BatchBlock> block_of_ahead_;  // Its block.
  Collective* collective_ = nullptr;

  Mutex mutex_;
  CondVar changed_;
  Exchange* asked_ ABSL_GUARDED_BY(mutex_) = nullptr;  // The trainer waits for its answer.
  bool taken_ ABSL_GUARDED_BY(mutex_) = false;         // The program has the task.
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  Status failure_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace simurgh
