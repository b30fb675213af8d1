#include "predict/program_network.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "predict/model_version.h"

namespace simurgh {
namespace {

// The arrays of a task.
struct Inputs {
  std::vector<float> dense;
  std::vector<float> embeddings;
};

const char* NameOf(ProgramNetwork::Work work) {
  switch (work) {
    case ProgramNetwork::Work::kPredict:
      return "a batch to predict";
    case ProgramNetwork::Work::kRestore:
      return "a state to restore";
    case ProgramNetwork::Work::kEnd:
      break;
  }
  return "none";
}

Status Ended() { return absl::CancelledError("the program's network has ended"); }

}  // namespace

StatusOr<std::optional<ProgramNetwork::Task>> ProgramNetwork::Next(
    std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  MutexLock lock(mutex_);
  if (taken_) {
    return absl::FailedPreconditionError(
        absl::StrCat("the last task, ", NameOf(asked_ == nullptr ? Work::kEnd : asked_->task.work),
                     ", has no answer: answer each before the next one is taken"));
  }
  while (asked_ == nullptr && !ended_ && changed_.WaitUntil(mutex_, deadline)) {
  }
  if (ended_) return Task();
  if (asked_ == nullptr) return std::nullopt;
  taken_ = true;
  return asked_->task;
}

StatusOr<ProgramNetwork::Exchange*> ProgramNetwork::Taken(Work work) {
  if (taken_ && asked_ == nullptr) {  // End() has answered it.
    taken_ = false;
    return nullptr;
  }
  if (taken_ && asked_->task.work == work) return asked_;
  return absl::FailedPreconditionError(
      absl::StrCat("the task is ", NameOf(taken_ ? asked_->task.work : Work::kEnd), ", not ",
                   NameOf(work), "; each is answered once"));
}

void ProgramNetwork::Answer() {
  asked_ = nullptr;
  taken_ = false;
  changed_.NotifyAll();
}

Status ProgramNetwork::Predicted(std::span<const float> outputs) {
  MutexLock lock(mutex_);
  SIMURGH_ASSIGN_OR_RETURN(Exchange* const exchange, Taken(Work::kPredict));
  if (exchange == nullptr) return absl::OkStatus();
  if (outputs.size() != exchange->outputs.size()) {
    return absl::InvalidArgumentError(absl::StrCat("outputs: ", outputs.size(),
                                                   " numbers, expected ", exchange->outputs.size(),
                                                   ": one for each sample and label"));
  }
  std::ranges::copy(outputs, exchange->outputs.begin());
  Answer();
  return absl::OkStatus();
}

Status ProgramNetwork::Restored() {
  MutexLock lock(mutex_);
  SIMURGH_ASSIGN_OR_RETURN(Exchange* const exchange, Taken(Work::kRestore));
  if (exchange != nullptr) Answer();
  return absl::OkStatus();
}

Status ProgramNetwork::Failed(const std::string& reason) {
  MutexLock lock(mutex_);
  const Work work = asked_ != nullptr ? asked_->task.work : Work::kPredict;
  SIMURGH_ASSIGN_OR_RETURN(Exchange* const exchange, Taken(work));
  if (exchange == nullptr) return absl::OkStatus();
  exchange->result =
      work == Work::kRestore
          ? absl::FailedPreconditionError(
                absl::StrCat("the program cannot restore the network of step ", exchange->task.step,
                             ": ", reason))
          : absl::InternalError(absl::StrCat("the program's network failed: ", reason));
  Answer();
  return absl::OkStatus();
}

Status ProgramNetwork::Ask(Exchange& exchange) {
  MutexLock lock(mutex_);
  if (ended_) return Ended();
  asked_ = &exchange;
  changed_.NotifyAll();
  while (asked_ == &exchange) changed_.Wait(mutex_);
  return exchange.result;
}

Status ProgramNetwork::Predict(const ModelVersion& version, MatrixView<const float> embeddings,
                               MatrixView<const float> dense, std::span<float> outputs) {
  const std::span<const float> dense_flat = dense.flat();
  const std::span<const float> embeddings_flat = embeddings.flat();
  // The program may keep its arrays.
  const auto inputs = std::make_shared<const Inputs>(
      Inputs{.dense = {dense_flat.begin(), dense_flat.end()},
             .embeddings = {embeddings_flat.begin(), embeddings_flat.end()}});
  MutexLock turn(turn_);
  if (restored_ != version.checksum()) {
    restored_.reset();  // A failure may leave a part of the weights.
    Exchange restore{
        .task = {.work = Work::kRestore, .step = version.step(), .state = version.program_state()}};
    SIMURGH_RETURN_IF_ERROR(Ask(restore));
    restored_ = version.checksum();
  }
  Exchange predict{.task = {.work = Work::kPredict,
                            .step = version.step(),
                            .rows = embeddings.rows(),
                            .dense = inputs->dense,
                            .embeddings = inputs->embeddings,
                            .memory = inputs},
                   .outputs = outputs};
  return Ask(predict);
}

void ProgramNetwork::End() {
  MutexLock lock(mutex_);
  ended_ = true;
  if (asked_ != nullptr) asked_->result = Ended();
  asked_ = nullptr;
  changed_.NotifyAll();
}

}  // namespace simurgh
