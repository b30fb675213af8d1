#include "train/dense_exchange.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "nn/dense_optimizer.h"
#include "telemetry/timeline.h"

namespace simurgh {
namespace {

using Clock = std::chrono::steady_clock;

// Idle memory for gradients and weights.
constexpr size_t kIdleBufferBytes = size_t{1} << 30;

}  // namespace

DenseExchange::DenseExchange(DensePort& port, const DenseExchangeOptions& options)
    : port_(port), options_(options), buffers_(kIdleBufferBytes) {
  SIMURGH_CHECK_LT(0U, options.staleness);
}

DenseExchange::~DenseExchange() {
  Stop();
  const MutexLock lock(mutex_);
  while (calls_in_flight_ > 0) changed_.Wait(mutex_);
}

std::shared_ptr<AlignedBuffer> DenseExchange::CopyOf(std::span<const float> values) {
  auto buffer = buffers_.Lease(values.size_bytes());
  std::ranges::copy(values, buffer->as<float>(values.size()).begin());
  return buffer;
}

Status DenseExchange::Start(std::span<float> parameters, std::span<const float> state) {
  Enqueue({.kind = Operation::Kind::kStart,
           .name = "start of dense weights",
           .sent = CopyOf(parameters),
           .sent_state = CopyOf(state),
           .sent_state_count = state.size(),
           .count = parameters.size()});
  return Pull(parameters);
}

StatusOr<std::vector<float>> DenseExchange::PullState(size_t weights) {
  Enqueue({.kind = Operation::Kind::kPullState,
           .name = "pull of the dense optimizer's state",
           .count = weights});
  SIMURGH_RETURN_IF_ERROR(WaitForPushes());
  const MutexLock lock(mutex_);
  const auto state =
      state_->as<const float>(DenseOptimizer::StateSize(options_.optimizer, weights));
  return std::vector<float>(state.begin(), state.end());
}

Status DenseExchange::Pull(std::span<float> parameters) {
  Enqueue({.kind = Operation::Kind::kPull,
           .name = "pull of dense weights",
           .count = parameters.size()});
  SIMURGH_RETURN_IF_ERROR(WaitForPushes());
  return CopyNewest([parameters] { return parameters; });
}

void DenseExchange::Push(uint64_t step, float learning_rate, std::span<const float> gradients) {
  Enqueue({.kind = Operation::Kind::kPush,
           .name = "push of dense gradients",
           .step = step,
           .push = {.run = options_.run,
                    .rank = options_.rank,
                    .number = pushes_++,
                    .base_versions = taken_versions_,
                    .learning_rate = learning_rate},
           .sent = CopyOf(gradients),
           .count = gradients.size()});
}

Status DenseExchange::TakeWeights(absl::FunctionRef<std::span<float>()> parameters) {
  WaitUntil([this]()
                ABSL_NO_THREAD_SAFETY_ANALYSIS { return operations_.size() < options_.staleness; });
  return CopyNewest(parameters);
}

Status DenseExchange::WaitForPushes() {
  WaitUntil([this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return operations_.empty(); });
  const MutexLock lock(mutex_);
  return status_;
}

Status DenseExchange::CopyNewest(absl::FunctionRef<std::span<float>()> parameters) {
  std::shared_ptr<const AlignedBuffer> newest;
  {
    const MutexLock lock(mutex_);
    if (!status_.ok()) return status_;
    if (newest_versions_ == taken_versions_) return absl::OkStatus();
    newest = newest_;
    taken_versions_ = newest_versions_;
  }
  const std::span<float> to = parameters();
  std::ranges::copy(newest->as<const float>(to.size()), to.begin());
  return absl::OkStatus();
}

std::vector<uint64_t> DenseExchange::TakeGaps() {
  const MutexLock lock(mutex_);
  return std::exchange(gaps_, {});
}

void DenseExchange::Stop() {
  const MutexLock lock(mutex_);
  if (status_.ok()) status_ = absl::CancelledError("training was stopped");
  changed_.NotifyAll();
}

void DenseExchange::Enqueue(Operation operation) {
  std::optional<Operation> started;
  {
    const MutexLock lock(mutex_);
    operations_.push_back(std::move(operation));
    started = StartNext();
  }
  if (started) Call(*started);
}

void DenseExchange::WaitUntil(absl::FunctionRef<bool()> ready) {
  while (true) {
    std::optional<Operation> started;
    {
      const MutexLock lock(mutex_);
      if (!status_.ok() || ready()) return;
      started = StartNext();
      if (!started) {
        if (operations_.empty() || operations_.front().under_way) {
          changed_.Wait(mutex_);
        } else {
          changed_.WaitUntil(mutex_, operations_.front().retry.next_attempt());
        }
      }
    }
    if (started) Call(*started);
  }
}

std::optional<DenseExchange::Operation> DenseExchange::StartNext() {
  if (!status_.ok() || operations_.empty()) return std::nullopt;
  Operation& operation = operations_.front();
  if (operation.under_way || !operation.retry.due(Clock::now())) return std::nullopt;
  operation.under_way = true;
  // Each attempt has its own memory: an earlier one may still write.
  const bool is_state = operation.kind == Operation::Kind::kPullState;
  operation.received = buffers_.Lease(
      sizeof(float) * (is_state ? DenseOptimizer::StateSize(options_.optimizer, operation.count)
                                : operation.count));
  operation.began = Clock::now();
  ++calls_in_flight_;
  return operation;
}

void DenseExchange::Call(const Operation& operation) {
  using Owners = std::pair<std::shared_ptr<void>, std::shared_ptr<void>>;
  const auto done = [this](StatusOr<DenseVersions> answer) { OnAnswer(std::move(answer)); };
  const auto done_without_versions = [done](const Status& status) {
    done(status.ok() ? StatusOr<DenseVersions>(DenseVersions()) : status);
  };
  const std::shared_ptr<AlignedBuffer>& sent = operation.sent;
  const std::shared_ptr<AlignedBuffer>& received = operation.received;
  const size_t count = operation.count;
  switch (operation.kind) {
    case Operation::Kind::kStart:
      return port_.Start(options_.run, options_.optimizer, sent->as<const float>(count),
                         operation.sent_state->as<const float>(operation.sent_state_count),
                         std::make_shared<Owners>(sent, operation.sent_state),
                         done_without_versions);
    case Operation::Kind::kPullState:
      return port_.PullState(
          options_.run, options_.optimizer, count,
          received->as<float>(DenseOptimizer::StateSize(options_.optimizer, count)), received,
          done_without_versions);
    case Operation::Kind::kPull:
      return port_.Pull(options_.run, received->as<float>(count), received, done);
    case Operation::Kind::kPush:
      return port_.Push(operation.push, sent->as<const float>(count), received->as<float>(count),
                        std::make_shared<Owners>(sent, received), done);
  }
}

void DenseExchange::OnAnswer(StatusOr<DenseVersions> answer) {
  std::optional<Operation> started;
  {
    const MutexLock lock(mutex_);
    Operation& operation = operations_.front();
    operation.under_way = false;
    if (!answer.ok()) {
      if (status_.ok()) {
        status_ = operation.retry.OnFailure(Annotate(answer.status(), operation.name), Clock::now(),
                                            options_.retry_deadline);
      }
    } else {
      const bool is_push = operation.kind == Operation::Kind::kPush;
      if (is_push) gaps_.push_back(answer->gap);
      if (is_push && Timeline::is_recording()) {
        Timeline::Add({.name = "dense push",
                       .track = "dense push",
                       .begin = operation.began,
                       .end = Clock::now(),
                       .step = operation.step});
      }
      if (operation.kind == Operation::Kind::kPullState) {
        state_ = std::move(operation.received);
      } else if (operation.kind != Operation::Kind::kStart) {
        newest_ = std::move(operation.received);
        newest_versions_ = std::move(answer->versions);
      }
      operations_.pop_front();
    }
    started = StartNext();
  }
  if (started) Call(*started);
  // Last: once no call is in flight the exchange may be destroyed.
  const MutexLock lock(mutex_);
  --calls_in_flight_;
  changed_.NotifyAll();
}

}  // namespace simurgh
