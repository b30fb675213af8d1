#include "train/hosted_network.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "embedding/batch_plan.h"
#include "nn/metrics.h"
#include "tensor/finite.h"
#include "train/dense_weights.h"

namespace simurgh {
namespace {

// A block whose memory a program may keep after the trainer has released the block.
struct SharedBlock final : BatchBlock {
  explicit SharedBlock(std::shared_ptr<BatchBlock> block)
      : BatchBlock(*block), memory(std::move(block)) {}

  std::shared_ptr<BatchBlock> memory;
};

class SharedPool final : public BlockPool {
 public:
  explicit SharedPool(std::unique_ptr<BlockPool> blocks) : blocks_(std::move(blocks)) {}

  std::shared_ptr<BatchBlock> Lease(size_t rows, bool with_gradients) override {
    return std::make_shared<SharedBlock>(blocks_->Lease(rows, with_gradients));
  }
  std::shared_ptr<BatchBlock> LeaseFor(const std::shared_ptr<const CompactBatch>& ids,
                                       bool with_gradients) override {
    return std::make_shared<SharedBlock>(blocks_->LeaseFor(ids, with_gradients));
  }

 private:
  const std::unique_ptr<BlockPool> blocks_;
};

// The arrays of a task that are not in its block.
struct TaskMemory {
  std::shared_ptr<BatchBlock> block;
  std::vector<float> dense;
  std::vector<float> labels;
  std::vector<float> embeddings;  // Decoded, unless the block has f32.
};

const char* NameOf(HostedNetwork::Work work) {
  switch (work) {
    case HostedNetwork::Work::kTrain:
      return "a batch to train on";
    case HostedNetwork::Work::kPredict:
      return "a batch to predict";
    case HostedNetwork::Work::kSave:
      return "a request for the state";
    case HostedNetwork::Work::kRestore:
      return "a state to restore";
    case HostedNetwork::Work::kEnd:
      break;
  }
  return "none";
}

}  // namespace

HostedNetwork::HostedNetwork(const ClusterConfig& config)
    : tasks_(TasksOf(config.model)),
      inputs_(InputsOf(config)),
      wire_(WireOf(config)),
      rows_(wire_.embeddings, wire_.rows),
      embedding_codec_(wire_.embeddings, wire_.dims),
      gradient_codec_(wire_.gradients, wire_.dims),
      blocks_(std::make_unique<SharedPool>(NewBlockPool(inputs_.embedding_width, wire_))) {}

StatusOr<std::optional<HostedNetwork::Task>> HostedNetwork::Next(
    std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  MutexLock lock(mutex_);
  if (taken_) {
    return absl::FailedPreconditionError(
        absl::StrCat("the last task, ", NameOf(asked_->task.work),
                     ", has no answer: finish each batch before the next one is taken"));
  }
  while (asked_ == nullptr && !ended_ && failure_.ok()) {
    if (!changed_.WaitUntil(mutex_, deadline) && asked_ == nullptr && !ended_ && failure_.ok()) {
      return std::nullopt;
    }
  }
  if (!failure_.ok()) return failure_;
  if (asked_ == nullptr) return Task();
  taken_ = true;
  return asked_->task;
}

StatusOr<HostedNetwork::Exchange*> HostedNetwork::Taken(Work work) {
  if (!failure_.ok()) return failure_;
  if (taken_ && asked_->task.work == work) return asked_;
  return absl::FailedPreconditionError(
      absl::StrCat("the task is ", taken_ ? NameOf(asked_->task.work) : "none", ", not ",
                   NameOf(work), "; each batch is finished once"));
}

Status HostedNetwork::CheckStep() {
  MutexLock lock(mutex_);
  return Taken(Work::kTrain).status();
}

Status HostedNetwork::Answer() {
  asked_ = nullptr;
  taken_ = false;
  changed_.NotifyAll();
  return absl::OkStatus();
}

Status HostedNetwork::Ask(Exchange& exchange, const std::function<void()>& meanwhile) {
  {
    MutexLock lock(mutex_);
    if (!failure_.ok()) return failure_;
    SIMURGH_CHECK(asked_ == nullptr);
    asked_ = &exchange;
    changed_.NotifyAll();
  }
  if (meanwhile) meanwhile();
  MutexLock lock(mutex_);
  while (asked_ == &exchange && failure_.ok()) changed_.Wait(mutex_);
  return failure_;
}

void HostedNetwork::Fail(const Status& reason) {
  MutexLock lock(mutex_);
  if (failure_.ok()) failure_ = reason;
  asked_ = nullptr;
  taken_ = false;
  changed_.NotifyAll();
}

void HostedNetwork::FailUnlessLost(const Status& reason, std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  bool is_asked = false;
  {
    const MutexLock lock(mutex_);
    while (asked_ == nullptr && !ended_ && failure_.ok() && changed_.WaitUntil(mutex_, deadline)) {
    }
    is_asked = asked_ != nullptr;
  }
  // The trainer waits for an answer, so the collective lives on.
  const Status loss = is_asked ? collective_->AwaitLoss(patience) : absl::OkStatus();
  Fail(loss.ok() || absl::IsCancelled(loss) ? reason : loss);
}

void HostedNetwork::End() {
  MutexLock lock(mutex_);
  ended_ = true;
  changed_.NotifyAll();
}

Status HostedNetwork::CheckOutputs(size_t given, size_t rows) const {
  if (given == rows * tasks_.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("outputs: ", given, " numbers, expected (", rows,
                                                 ", ", tasks_.size(),
                                                 "): one for each sample and label"));
}

Status HostedNetwork::Finish(std::span<const float> gradients, std::span<const float> outputs,
                             bool usable) {
  MutexLock lock(mutex_);
  SIMURGH_ASSIGN_OR_RETURN(Exchange* const exchange, Taken(Work::kTrain));
  const size_t rows = exchange->task.rows;
  SIMURGH_RETURN_IF_ERROR(CheckOutputs(outputs.size(), rows));
  if (gradients.size() != rows * inputs_.embedding_width) {
    return absl::InvalidArgumentError(
        absl::StrCat("gradients: ", gradients.size(), " numbers, expected (", rows, ", ",
                     inputs_.embedding_width, "), as the embeddings"));
  }
  exchange->train_outputs.assign(outputs.begin(), outputs.end());
  exchange->usable = usable;
  Encode(*exchange, gradients);
  return Answer();
}

void HostedNetwork::Encode(Exchange& exchange, std::span<const float> gradients) const {
  BatchBlock& block = *exchange.block;
  const MatrixView<const float> matrix(gradients.data(), exchange.task.rows,
                                       inputs_.embedding_width);
  const BatchBlock::Encoded& to = block.encoded_gradients;
  const auto each_part = [&](auto visit) {
    for (size_t first = 0; first < matrix.rows(); first += kSamplesAtOnce) {
      const size_t count = std::min(kSamplesAtOnce, matrix.rows() - first);
      if (!AllUsable(matrix.Rows(first, count).flat())) exchange.finite_gradients = false;
      visit(first, matrix.Rows(first, count));
    }
  };
  if (to.form == EmbeddingForm::kRows) {
    const RowCodec::Inputs all = rows_.InputsOf(*block.ids);
    const std::span<float> sums(reinterpret_cast<float*>(to.bytes.data()), all.floats);
    std::ranges::fill(sums, 0.0F);
    std::vector<float> scaled;
    each_part([&](size_t first, MatrixView<const float> part) {
      if (exchange.gradient_scale != 1) {
        scaled.assign(part.flat().begin(), part.flat().end());
        for (float& number : scaled) number *= exchange.gradient_scale;
        part = {scaled.data(), part.rows(), part.columns()};
      }
      RowCodec::AddGradients(all, 0, all.list_ends.size(), first, part, sums);
    });
    return;
  }
  const bool copies = to.precision == VectorPrecision::kF32 && exchange.gradient_scale == 1;
  const float factor = block.gradient_factor * exchange.gradient_scale;
  const size_t bytes = gradient_codec_.row_bytes();
  RoundingKey key = block.rounding;
  each_part([&](size_t first, MatrixView<const float> part) {
    if (copies) {
      std::memcpy(block.gradients.row(first).data(), part.flat().data(), part.flat().size_bytes());
      return;
    }
    gradient_codec_.Encode(part, factor, key, to.bytes.subspan(first * bytes, part.rows() * bytes));
    key.first_row += part.rows();
  });
}

Status HostedNetwork::Predicted(std::span<const float> outputs) {
  MutexLock lock(mutex_);
  SIMURGH_ASSIGN_OR_RETURN(Exchange* const exchange, Taken(Work::kPredict));
  SIMURGH_RETURN_IF_ERROR(CheckOutputs(outputs.size(), exchange->task.rows));
  std::ranges::copy(outputs, exchange->outputs.begin());
  return Answer();
}

Status HostedNetwork::Saved(ProgramState state) {
  MutexLock lock(mutex_);
  SIMURGH_ASSIGN_OR_RETURN(Exchange* const exchange, Taken(Work::kSave));
  exchange->saved = std::move(state);
  return Answer();
}

Status HostedNetwork::Restored() {
  MutexLock lock(mutex_);
  SIMURGH_RETURN_IF_ERROR(Taken(Work::kRestore).status());
  return Answer();
}

Status HostedNetwork::Sum(std::span<float> numbers) {
  SIMURGH_RETURN_IF_ERROR(CheckStep());
  if (collective_->ranks() == 1) return absl::OkStatus();
  return collective_->Sum(Channel::kStep, numbers, ReducePrecision::kF32, {});
}

StatusOr<bool> HostedNetwork::Agree(bool yes) {
  SIMURGH_RETURN_IF_ERROR(CheckStep());
  if (collective_->ranks() == 1) return yes;
  std::vector<std::byte> all(collective_->ranks());
  SIMURGH_RETURN_IF_ERROR(collective_->Gather(Channel::kStep, std::array{std::byte{yes}}, all));
  return std::ranges::find(all, std::byte{0}) == all.end();
}

StatusOr<ProgramState> HostedNetwork::Save() {
  Exchange exchange{.task = {.work = Work::kSave}};
  SIMURGH_RETURN_IF_ERROR(Ask(exchange));
  return *std::move(exchange.saved);
}

Status HostedNetwork::RestoreProgram(const ProgramState& state) {
  Exchange exchange{.task = {.work = Work::kRestore, .state = &state}};
  return Ask(exchange);
}

void HostedNetwork::SetInputs(BatchBlock& block, MatrixView<const float> dense,
                              std::span<const float> labels, size_t rows, Task& task) const {
  auto memory = std::make_shared<TaskMemory>();
  memory->block = static_cast<SharedBlock&>(block).memory;
  // The trainer ends the batch, with these arrays, before the program may do so.
  memory->dense.assign(dense.flat().begin(), dense.flat().end());
  memory->labels.assign(labels.begin(), labels.end());
  task.rows = rows;
  task.dense = {memory->dense.data(), rows, inputs_.dense_width};
  const std::span<const float> all = memory->labels;
  task.labels = all.first(std::min(all.size(), rows * tasks_.size()));
  task.weights = all.subspan(task.labels.size());
  const BatchBlock::Encoded& encoded = block.encoded_embeddings;
  const size_t width = inputs_.embedding_width;
  if (block.ids != nullptr) {
    rows_.Pool(*block.ids, encoded.bytes, block.embeddings,
               [](size_t count, size_t /*least*/, auto work) { work(0, count); });
    task.embeddings = block.embeddings;
  } else if (encoded.precision != VectorPrecision::kF32) {
    memory->embeddings.resize(rows * width);
    task.embeddings = {memory->embeddings.data(), rows, width};
    embedding_codec_.Decode(encoded.bytes.first(rows * embedding_codec_.row_bytes()),
                            /*factor=*/1, task.embeddings);
  } else {
    task.embeddings = block.embeddings;
  }
  task.memory = std::move(memory);
}

void HostedNetwork::Load(BatchBlock& block, MatrixView<const float> dense,
                         std::span<const float> labels) {
  const size_t rows = labels.size() / (tasks_.size() + (inputs_.has_sample_weights ? 1 : 0));
  SetInputs(block, dense, labels, rows, ahead_);
  block_of_ahead_ = static_cast<SharedBlock&>(block).memory;
}

StatusOr<BatchResult> HostedNetwork::ForwardBackward(
    BatchBlock& block, MatrixView<const float> dense, std::span<const float> labels,
    std::span<float> probabilities, const RankStep& step, const std::function<void()>& meanwhile) {
  const size_t rows = probabilities.size() / tasks_.size();
  Exchange exchange{.task = {.work = Work::kTrain, .step = step.step}, .block = &block};
  // The ranks' objective is the mean of their losses.
  exchange.gradient_scale = 1.0F / static_cast<float>(std::max(step.ranks, 1U));
  if (block_of_ahead_ == static_cast<SharedBlock&>(block).memory) {
    exchange.task = std::exchange(ahead_, {});
    exchange.task.work = Work::kTrain;
    exchange.task.step = step.step;
    block_of_ahead_ = nullptr;
  } else {
    SetInputs(block, dense, labels, rows, exchange.task);
  }
  SIMURGH_RETURN_IF_ERROR(Ask(exchange, meanwhile));
  BatchResult result;
  result.loss = MeanLoss(tasks_, exchange.train_outputs, exchange.task.labels,
                         exchange.task.weights, probabilities);
  const bool usable = std::isfinite(result.loss) && exchange.finite_gradients;
  if (step.on_embedding_gradients && rows > 0) step.on_embedding_gradients(usable);
  result.finite = usable && exchange.usable;
  return result;
}

Status HostedNetwork::Predict(BatchBlock& block, MatrixView<const float> dense,
                              std::span<float> outputs) {
  const size_t rows = outputs.size() / tasks_.size();
  if (rows == 0) return absl::OkStatus();
  Exchange exchange{.task = {.work = Work::kPredict}, .outputs = outputs};
  SetInputs(block, dense, {}, rows, exchange.task);
  return Ask(exchange);
}

}  // namespace simurgh
