#include "simurgh/train/batch_pipeline.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include <spdlog/spdlog.h>

#include "absl/strings/str_cat.h"

#include "simurgh/base/aligned_buffer.h"
#include "simurgh/base/check.h"
#include "simurgh/base/mutex.h"
#include "train/retry.h"
#include "train/row_staleness.h"

namespace simurgh {
namespace {

using Clock = std::chrono::steady_clock;

// Idle memory kept for the matrices of coming batches.
constexpr size_t kIdleBufferBytes = size_t{256} << 20;

enum class State {
  kUnsubmitted,  // No embedding worker knows it.
  kSubmitting,
  kWaiting,  // Submitted; waits for its turn to be pulled or, when computed, pushed.
  kPulling,
  kPulled,  // The trainer has it, or will.
  kPushing,
  kDone,
};

struct PendingBatch {
  Batch batch;
  uint64_t step = 0;
  State state = State::kUnsubmitted;
  bool permit = false;    // Counts into the staleness: from its first pull to its acknowledgement.
  bool computed = false;  // Gradients are there.
  BatchReference reference;
  std::shared_ptr<AlignedBuffer> embeddings;
  std::shared_ptr<AlignedBuffer> gradients;
  RetryClock retry;
  uint32_t staleness = 0;
  Clock::time_point call_began;

  bool pulled() const { return computed || state == State::kPulled; }
  bool unacknowledged() const { return computed && state != State::kDone; }
};

}  // namespace

class BatchPipeline::Impl {
 public:
  Impl(EmbeddingPort& port, PipelineOptions options)
      : port_(port),
        options_(options),
        buffers_(kIdleBufferBytes),
        row_staleness_(options.staleness, options.row_age_steps) {
    SIMURGH_CHECK(options_.staleness > 0 && options_.queue_batches > 0);
  }

  ~Impl() {
    Stop();
    MutexLock lock(mutex_);
    while (calls_in_flight_ > 0) changed_.Wait(mutex_);
  }

  bool Feed(Batch batch);
  void EndInput(Status status);
  StatusOr<const PulledBatch*> Next();
  void Finish();
  Status WaitForPushes();
  void Stop();

 private:
  using Call = std::function<void()>;
  using Calls = std::vector<Call>;

  // Which calls can start now. Marks them as started; the caller makes them after unlocking.
  Calls StartableCalls() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayPush(const PendingBatch& pending) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Call StartSubmit(PendingBatch& pending) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Call StartPull(PendingBatch& pending) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Call StartPush(PendingBatch& pending) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // A call has been answered: `update` moves the batch on, then whatever became possible starts.
  void OnAnswer(PendingBatch& pending, const char* what, const Status& status,
                const std::function<void()>& update);
  void OnFailure(PendingBatch& pending, const char* what, const Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LetGo(PendingBatch& pending) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Waits until `ready` holds or the pipeline has failed, starting retries as they fall due.
  void WaitUntil(const std::function<bool()>& ready);

  TrainerPosition position(const PendingBatch& pending) const {
    return {.run = options_.run,
            .rank = options_.rank,
            .step = pending.step,
            .ranks = options_.ranks,
            .order = options_.order};
  }
  // The matrix of a batch in its buffer.
  MatrixView<float> matrix(const PendingBatch& pending, const AlignedBuffer& buffer) const {
    const size_t rows = pending.batch.size();
    return {buffer.as<float>(rows * options_.embedding_width).data(), rows,
            options_.embedding_width};
  }
  PendingBatch* NextToCompute() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  EmbeddingPort& port_;
  const PipelineOptions options_;
  BufferPool buffers_;

  Mutex mutex_;
  CondVar changed_;
  // In the order of their steps; batches leave at the front once done.
  std::deque<std::unique_ptr<PendingBatch>> pending_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_step_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t outstanding_ ABSL_GUARDED_BY(mutex_) = 0;  // Batches that hold a permit.
  RowStaleness row_staleness_ ABSL_GUARDED_BY(mutex_);
  bool input_ended_ ABSL_GUARDED_BY(mutex_) = false;
  Status status_ ABSL_GUARDED_BY(mutex_);
  uint64_t calls_in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  PulledBatch handed_out_;  // The trainer's.
};

bool BatchPipeline::Impl::Feed(Batch batch) {
  const auto has_room = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return static_cast<size_t>(std::ranges::count_if(pending_, [](const auto& pending) {
             return !pending->permit && pending->state != State::kDone;
           })) < options_.queue_batches;
  };
  WaitUntil(has_room);

  Calls calls;
  {
    MutexLock lock(mutex_);
    if (!status_.ok()) return false;
    auto pending = std::make_unique<PendingBatch>();
    const size_t bytes = batch.size() * options_.embedding_width * sizeof(float);
    pending->batch = std::move(batch);
    pending->step = next_step_++;
    pending->embeddings = buffers_.Lease(bytes);
    if (options_.purpose == PullPurpose::kTrain) pending->gradients = buffers_.Lease(bytes);
    pending_.push_back(std::move(pending));
    calls = StartableCalls();
  }
  for (const Call& call : calls) call();
  return true;
}

void BatchPipeline::Impl::EndInput(Status status) {
  Calls calls;
  {
    MutexLock lock(mutex_);
    input_ended_ = true;
    if (status_.ok()) status_ = std::move(status);
    calls = StartableCalls();
    changed_.NotifyAll();
  }
  for (const Call& call : calls) call();
}

StatusOr<const PulledBatch*> BatchPipeline::Impl::Next() {
  WaitUntil([this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    const PendingBatch* next = NextToCompute();
    return next != nullptr ? next->state == State::kPulled : input_ended_;
  });
  MutexLock lock(mutex_);
  if (!status_.ok()) return status_;
  const PendingBatch* next = NextToCompute();
  if (next == nullptr) return nullptr;
  handed_out_ = {.batch = &next->batch,
                 .step = next->step,
                 .embeddings = matrix(*next, *next->embeddings),
                 .gradients = {},
                 .staleness = next->staleness};
  if (next->gradients != nullptr) handed_out_.gradients = matrix(*next, *next->gradients);
  return &handed_out_;
}

void BatchPipeline::Impl::Finish() {
  Calls calls;
  {
    MutexLock lock(mutex_);
    PendingBatch* pending = NextToCompute();
    SIMURGH_CHECK(pending != nullptr && pending->state == State::kPulled);
    pending->computed = true;
    pending->state = State::kWaiting;
    if (options_.purpose == PullPurpose::kEvaluate) LetGo(*pending);
    calls = StartableCalls();
    changed_.NotifyAll();
  }
  for (const Call& call : calls) call();
}

Status BatchPipeline::Impl::WaitForPushes() {
  WaitUntil([this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return std::ranges::none_of(pending_,
                                [](const auto& pending) { return pending->unacknowledged(); });
  });
  MutexLock lock(mutex_);
  return status_;
}

void BatchPipeline::Impl::Stop() {
  MutexLock lock(mutex_);
  if (status_.ok()) status_ = absl::CancelledError("training was stopped");
  changed_.NotifyAll();
}

PendingBatch* BatchPipeline::Impl::NextToCompute() {
  for (const auto& pending : pending_) {
    if (!pending->computed) return pending.get();
  }
  return nullptr;
}

void BatchPipeline::Impl::WaitUntil(const std::function<bool()>& ready) {
  while (true) {
    Calls calls;
    {
      MutexLock lock(mutex_);
      if (!status_.ok() || ready()) return;
      const auto now = Clock::now();
      Clock::time_point wake = Clock::time_point::max();
      for (const auto& pending : pending_) {
        if (!pending->retry.due(now)) wake = std::min(wake, pending->retry.next_attempt());
      }
      if (wake == Clock::time_point::max()) {
        changed_.Wait(mutex_);
      } else {
        changed_.WaitUntil(mutex_, wake);
      }
      calls = StartableCalls();
    }
    for (const Call& call : calls) call();
  }
}

BatchPipeline::Impl::Calls BatchPipeline::Impl::StartableCalls() {
  Calls calls;
  if (!status_.ok()) return calls;
  const auto now = Clock::now();
  // Submits and pulls start in the order of the steps, so that neither a place in a full forward
  // buffer nor a permit ever waits for a batch behind it.
  bool earlier_are_submitted = true;
  bool earlier_have_permits = true;
  bool earlier_are_pulled = true;
  bool earlier_are_pushed = true;
  for (const auto& owned : pending_) {
    PendingBatch& pending = *owned;
    if (pending.retry.due(now)) {
      const bool may_pull =
          (pending.permit || (earlier_have_permits && outstanding_ < options_.staleness)) &&
          (earlier_are_pulled || !options_.reproducible) &&
          (earlier_are_pushed || !options_.one_by_one);
      if (pending.state == State::kUnsubmitted) {
        if (earlier_are_submitted) calls.push_back(StartSubmit(pending));
      } else if (pending.state == State::kWaiting && pending.computed) {
        if (MayPush(pending)) calls.push_back(StartPush(pending));
      } else if (pending.state == State::kWaiting && may_pull) {
        calls.push_back(StartPull(pending));
      }
    }
    earlier_are_submitted = earlier_are_submitted && pending.state != State::kUnsubmitted &&
                            pending.state != State::kSubmitting;
    earlier_have_permits = earlier_have_permits && (pending.permit || pending.computed);
    earlier_are_pulled = earlier_are_pulled && pending.pulled();
    earlier_are_pushed =
        earlier_are_pushed && (pending.state == State::kPushing || pending.state == State::kDone);
  }
  return calls;
}

bool BatchPipeline::Impl::MayPush(const PendingBatch& pending) const {
  if (!options_.reproducible) return true;
  const uint64_t last_pull_before = pending.step + options_.staleness - 1;
  if (last_pull_before >= next_step_ && !input_ended_) return false;
  return std::ranges::all_of(pending_, [&](const auto& other) {
    if (other->step < pending.step) return other->state == State::kDone;
    return other->step > last_pull_before || other->pulled();
  });
}

BatchPipeline::Impl::Call BatchPipeline::Impl::StartSubmit(PendingBatch& pending) {
  pending.state = State::kSubmitting;
  pending.call_began = Clock::now();
  ++calls_in_flight_;
  return [this, &pending] {
    port_.Submit(pending.batch.sparse, [this, &pending](StatusOr<BatchReference> reference) {
      OnAnswer(pending, "submit", reference.status(), [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
        pending.reference = *reference;
        pending.state = State::kWaiting;
        // A submission repeated for the sake of a failed pull or push is no success yet.
        if (!pending.permit) pending.retry.Reset();
      });
    });
  };
}

BatchPipeline::Impl::Call BatchPipeline::Impl::StartPull(PendingBatch& pending) {
  if (!pending.permit) {
    pending.permit = true;
    row_staleness_.Note(pending.step, outstanding_++);
  }
  pending.state = State::kPulling;
  pending.call_began = Clock::now();
  ++calls_in_flight_;
  // In training the oldest pending step is the first that is not acknowledged.
  const uint64_t acknowledged =
      options_.purpose == PullPurpose::kEvaluate ? options_.trained_steps : pending_.front()->step;
  return [this, &pending, acknowledged] {
    port_.Pull(pending.reference,
               {.purpose = options_.purpose,
                .position = position(pending),
                .acknowledged_steps = acknowledged,
                .row_age_steps = options_.row_age_steps},
               matrix(pending, *pending.embeddings), pending.embeddings,
               [this, &pending](StatusOr<uint32_t> row_age) {
                 OnAnswer(pending, "pull", row_age.status(), [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
                   pending.state = State::kPulled;
                   pending.staleness = row_staleness_.Of(pending.step, *row_age);
                   pending.retry.Reset();
                 });
               });
  };
}

BatchPipeline::Impl::Call BatchPipeline::Impl::StartPush(PendingBatch& pending) {
  pending.state = State::kPushing;
  pending.call_began = Clock::now();
  ++calls_in_flight_;
  return [this, &pending] {
    port_.Push(pending.reference, position(pending), matrix(pending, *pending.gradients),
               pending.gradients, [this, &pending](const Status& status) {
                 OnAnswer(pending, "push", status,
                          [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { LetGo(pending); });
               });
  };
}

void BatchPipeline::Impl::LetGo(PendingBatch& pending) {
  pending.state = State::kDone;
  --outstanding_;
  while (!pending_.empty() && pending_.front()->state == State::kDone) pending_.pop_front();
}

void BatchPipeline::Impl::OnAnswer(PendingBatch& pending, const char* what, const Status& status,
                                   const std::function<void()>& update) {
  Calls calls;
  {
    MutexLock lock(mutex_);
    if (options_.timeline != nullptr) {
      options_.timeline->Add(what, what, pending.step, pending.call_began, Clock::now());
    }
    if (status.ok()) {
      update();
    } else {
      OnFailure(pending, what, status);
    }
    calls = StartableCalls();
  }
  for (const Call& call : calls) call();
  // Last: once no call is in flight the pipeline may be destroyed.
  MutexLock lock(mutex_);
  --calls_in_flight_;
  changed_.NotifyAll();
}

void BatchPipeline::Impl::OnFailure(PendingBatch& pending, const char* what, const Status& status) {
  const bool must_resubmit = absl::IsUnavailable(status) || absl::IsNotFound(status);
  const bool was_submitting = pending.state == State::kSubmitting;
  pending.state = must_resubmit || was_submitting ? State::kUnsubmitted : State::kWaiting;
  const Status annotated = Annotate(status, absl::StrCat("step ", pending.step, ": ", what));
  if (!IsWorthARetry(status)) {
    if (status_.ok()) status_ = annotated;
    return;
  }
  auto left = pending.retry.OnFailure(Clock::now(), options_.retry_deadline);
  // A worker that is full is well: it will have room, at the latest when batches expire there.
  if (left.count() <= 0 && was_submitting && absl::IsResourceExhausted(status)) {
    pending.retry.Reset();
    left = pending.retry.OnFailure(Clock::now(), options_.retry_deadline);
  }
  if (left.count() <= 0) {
    if (status_.ok()) {
      status_ =
          Annotate(annotated, absl::StrCat("gave up after ", options_.retry_deadline.count() / 1000,
                                           " s (training.retry_deadline)"));
    }
    return;
  }
  if (status_.ok()) {
    spdlog::warn("{}; retrying for another {:.1f} s", std::string(annotated.message()),
                 static_cast<double>(left.count()) / 1000.0);
  }
}

BatchPipeline::BatchPipeline(EmbeddingPort& port, PipelineOptions options)
    : impl_(std::make_unique<Impl>(port, options)) {}
BatchPipeline::~BatchPipeline() = default;
bool BatchPipeline::Feed(Batch batch) { return impl_->Feed(std::move(batch)); }
void BatchPipeline::EndInput(Status status) { impl_->EndInput(std::move(status)); }
StatusOr<const PulledBatch*> BatchPipeline::Next() { return impl_->Next(); }
void BatchPipeline::Finish() { impl_->Finish(); }
Status BatchPipeline::WaitForPushes() { return impl_->WaitForPushes(); }
void BatchPipeline::Stop() { impl_->Stop(); }

}  // namespace simurgh
