#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/base/thread_annotations.h"

#include "base/mutex.h"
#include "base/status.h"
#include "tensor/matrix_view.h"
#include "train/program_state.h"

namespace simurgh {

class ModelVersion;

// The network of a program that predicts with versions of its model: threads ask, the program
// computes.
//
// The program takes one task after another, and answers each before it takes the next. It has the
// weights of one version at a time. A batch of another version follows a task to restore those.
//
// Threads: Predict and End by any; the others by one of the program's.
class ProgramNetwork {
 public:
  enum class Work {
    kPredict,  // Compute outputs; answer with Predicted.
    kRestore,  // Take over `state`; answer with Restored.
    kEnd       // There are no further tasks.
  };

  struct Task {
    Work work = Work::kEnd;
    uint64_t step = 0;                          // The version's.
    size_t rows = 0;                            // kPredict
    std::span<const float> dense;               // (B, dense width), the features' masks last.
    std::span<const float> embeddings;          // (B, embedding width)
    std::shared_ptr<const void> memory;         // Owner of the arrays above.
    std::shared_ptr<const ProgramState> state;  // kRestore
  };

  // Waits for a task, up to `patience`; nothing: there is none yet. Errors: FAILED_PRECONDITION if
  // the last task has not been answered.
  StatusOr<std::optional<Task>> Next(std::chrono::milliseconds patience);
  // outputs: (B, tasks), the z of LossConfig. Errors, here and below: FAILED_PRECONDITION for
  // another task; INVALID_ARGUMENT for another size.
  Status Predicted(std::span<const float> outputs);
  Status Restored();
  // Answers any task: the program cannot do it. Batches then fail with this reason, and versions
  // are not used.
  Status Failed(const std::string& reason);

  // Asks for outputs (B, tasks) with the weights of a version. Waits for the program.
  // Errors: INTERNAL, or FAILED_PRECONDITION for weights that cannot be restored, with the
  // program's reason; CANCELLED after End().
  Status Predict(const ModelVersion& version, MatrixView<const float> embeddings,
                 MatrixView<const float> dense, std::span<float> outputs);
  // Makes present and later calls of Predict() fail, and gives the program no further task.
  void End();

 private:
  // A task, and the place for its answer.
  struct Exchange {
    Task task;
    std::span<float> outputs;
    Status result;
  };

  Status Ask(Exchange& exchange);
  StatusOr<Exchange*> Taken(Work work) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Answer() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex turn_;  // Held by the thread that asks.
  // Checksum of the version whose weights the program has; none: unknown.
  std::optional<uint64_t> restored_ ABSL_GUARDED_BY(turn_);
  Mutex mutex_;
  CondVar changed_;
  Exchange* asked_ ABSL_GUARDED_BY(mutex_) = nullptr;  // Its thread waits for the answer.
  bool taken_ ABSL_GUARDED_BY(mutex_) = false;         // The program has the task.
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace simurgh
