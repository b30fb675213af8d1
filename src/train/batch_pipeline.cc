#include "simurgh/train/batch_pipeline.h"

#include <functional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "simurgh/base/log.h"
#include "simurgh/base/mutex.h"
#include "train/batch_queue.h"
#include "train/retry.h"

namespace simurgh {
namespace {

using Clock = std::chrono::steady_clock;

// As logs, traces and profiles call them.
const char* NameOf(BatchCall call) {
  switch (call) {
    case BatchCall::kSubmit:
      return "submit";
    case BatchCall::kPull:
      return "pull";
    case BatchCall::kPush:
      break;
  }
  return "push";
}

}  // namespace

class BatchPipeline::Impl {
 public:
  Impl(EmbeddingPort& port, const PipelineOptions& options)
      : port_(port), options_(options), queue_(options) {}

  ~Impl() {
    Stop();
    MutexLock lock(mutex_);
    while (calls_in_flight_ > 0) changed_.Wait(mutex_);
  }

  bool Feed(Batch batch);
  void EndInput(Status status);
  StatusOr<const PulledBatch*> Next();
  const PulledBatch* TakeNext();
  void Finish();
  Status WaitForPushes();
  void Stop();

 private:
  using Calls = std::vector<StartedCall>;

  // The calls that can start now, for MakeCalls after unlocking.
  Calls StartCalls(Clock::time_point now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MakeCalls(const Calls& calls);
  void Submit(PendingBatch& pending);
  void Pull(PendingBatch& pending, uint64_t acknowledged_steps);
  // Memory for what comes. Not under the lock: a pool may have to make it.
  void LeaseBlock(PendingBatch& pending) const;
  void Push(PendingBatch& pending);

  // A call has been answered: `update` moves the batch on, then whatever became possible starts.
  void OnAnswer(PendingBatch& pending, BatchCall call, const Status& status,
                const std::function<void()>& update);
  void OnFailure(PendingBatch& pending, const char* what, const Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Waits until `ready` holds or the pipeline has failed, starting retries as they fall due.
  void WaitUntil(const std::function<bool()>& ready);

  StepId position(const PendingBatch& pending) const {
    return {.run = options_.run,
            .rank = options_.rank,
            .step = pending.step,
            .ranks = options_.ranks,
            .order = options_.order};
  }

  EmbeddingPort& port_;
  const PipelineOptions options_;

  Mutex mutex_;
  CondVar changed_;
  BatchQueue queue_ ABSL_GUARDED_BY(mutex_);
  Status status_ ABSL_GUARDED_BY(mutex_);
  uint64_t calls_in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
};

bool BatchPipeline::Impl::Feed(Batch batch) {
  WaitUntil([this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return queue_.waiting() < options_.queue_batches;
  });
  Calls calls;
  {
    MutexLock lock(mutex_);
    if (!status_.ok()) return false;
    queue_.Add(std::move(batch));
    calls = StartCalls(Clock::now());
  }
  MakeCalls(calls);
  return true;
}

void BatchPipeline::Impl::EndInput(Status status) {
  Calls calls;
  {
    MutexLock lock(mutex_);
    queue_.EndInput();
    if (status_.ok()) status_ = std::move(status);
    calls = StartCalls(Clock::now());
    changed_.NotifyAll();
  }
  MakeCalls(calls);
}

StatusOr<const PulledBatch*> BatchPipeline::Impl::Next() {
  WaitUntil([this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    const PendingBatch* next = queue_.NextForTrainer();
    return next != nullptr ? next->is_pulled() : queue_.input_ended();
  });
  MutexLock lock(mutex_);
  if (!status_.ok()) return status_;
  PendingBatch* next = queue_.NextForTrainer();
  return next == nullptr ? nullptr : queue_.Take(*next);
}

const PulledBatch* BatchPipeline::Impl::TakeNext() {
  MutexLock lock(mutex_);
  PendingBatch* next = queue_.NextForTrainer();
  if (!status_.ok() || next == nullptr || !next->is_pulled()) return nullptr;
  return queue_.Take(*next);
}

void BatchPipeline::Impl::Finish() {
  Calls calls;
  {
    MutexLock lock(mutex_);
    queue_.Finish();
    calls = StartCalls(Clock::now());
    changed_.NotifyAll();
  }
  MakeCalls(calls);
}

Status BatchPipeline::Impl::WaitForPushes() {
  WaitUntil([this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return queue_.all_acknowledged(); });
  MutexLock lock(mutex_);
  return status_;
}

void BatchPipeline::Impl::Stop() {
  MutexLock lock(mutex_);
  if (status_.ok()) status_ = absl::CancelledError("training was stopped");
  changed_.NotifyAll();
}

void BatchPipeline::Impl::WaitUntil(const std::function<bool()>& ready) {
  while (true) {
    Calls calls;
    {
      MutexLock lock(mutex_);
      if (!status_.ok() || ready()) return;
      // Both of one moment: a retry that came due between the two would be slept through.
      const Clock::time_point now = Clock::now();
      calls = StartCalls(now);
      if (calls.empty()) {
        const Clock::time_point wake = queue_.next_retry(now);
        if (wake == Clock::time_point::max()) {
          changed_.Wait(mutex_);
        } else {
          changed_.WaitUntil(mutex_, wake);
        }
      }
    }
    MakeCalls(calls);
  }
}

BatchPipeline::Impl::Calls BatchPipeline::Impl::StartCalls(Clock::time_point now) {
  if (!status_.ok()) return {};
  Calls calls = queue_.StartCalls(now);
  calls_in_flight_ += calls.size();
  return calls;
}

void BatchPipeline::Impl::MakeCalls(const Calls& calls) {
  for (const StartedCall& started : calls) {
    PendingBatch& pending = *started.batch;
    pending.profile_range = BeginProfileRange(NameOf(started.call), pending.step);
    switch (started.call) {
      case BatchCall::kSubmit:
        Submit(pending);
        break;
      case BatchCall::kPull:
        Pull(pending, started.acknowledged_steps);
        break;
      case BatchCall::kPush:
        Push(pending);
        break;
    }
  }
}

void BatchPipeline::Impl::Submit(PendingBatch& pending) {
  // A push of reproducible runs leaves after the pulls that must not see it.
  const SubmitOptions options{.purpose = options_.purpose,
                              .run = options_.run,
                              .rank = options_.rank,
                              .step = pending.step,
                              .lookahead_steps = options_.reproducible ? options_.staleness : 1};
  port_.Submit(pending.batch.sparse, options, [this, &pending](StatusOr<BatchReference> reference) {
    OnAnswer(pending, BatchCall::kSubmit, reference.status(),
             [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { queue_.OnSubmitted(pending, *reference); });
  });
}

void BatchPipeline::Impl::LeaseBlock(PendingBatch& pending) const {
  pending.block =
      options_.blocks->LeaseFor(pending.batch.sparse, options_.purpose == LookupMode::kTrain);
  pending.block->rounding.step = pending.step;
  pending.block->rounding.first_row = FirstRowOf(options_.rank);
}

void BatchPipeline::Impl::Pull(PendingBatch& pending, uint64_t acknowledged_steps) {
  if (pending.block == nullptr) LeaseBlock(pending);
  const BatchBlock::Coded& embeddings = pending.block->coded_embeddings;
  EmbeddingBuffer target(embeddings.precision, embeddings.bytes, pending.block);
  target.form = embeddings.form;
  port_.Pull(pending.reference,
             {.purpose = options_.purpose,
              .position = position(pending),
              .acknowledged_steps = acknowledged_steps,
              .row_age_steps = options_.row_age_steps},
             std::move(target), [this, &pending](StatusOr<PullAnswer> answer) {
               OnAnswer(pending, BatchCall::kPull, answer.status(),
                        [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
                          queue_.OnPulled(pending, *std::move(answer));
                        });
             });
}

void BatchPipeline::Impl::Push(PendingBatch& pending) {
  const BatchBlock::Coded& coded = pending.block->coded_gradients;
  GradientBuffer gradients(coded.precision, pending.block->gradient_factor, coded.bytes,
                           pending.block);
  gradients.argmax = pending.argmax;
  port_.Push(pending.reference, position(pending), std::move(gradients),
             [this, &pending](const Status& status) {
               OnAnswer(pending, BatchCall::kPush, status,
                        [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { queue_.OnPushed(pending); });
             });
}

void BatchPipeline::Impl::OnAnswer(PendingBatch& pending, BatchCall call, const Status& status,
                                   const std::function<void()>& update) {
  const char* const what = NameOf(call);
  EndProfileRange(pending.profile_range);
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
    calls = StartCalls(Clock::now());
  }
  MakeCalls(calls);
  // Last: once no call is in flight the pipeline may be destroyed.
  MutexLock lock(mutex_);
  --calls_in_flight_;
  changed_.NotifyAll();
}

void BatchPipeline::Impl::OnFailure(PendingBatch& pending, const char* what, const Status& status) {
  const bool must_resubmit = absl::IsUnavailable(status) || absl::IsNotFound(status);
  const bool was_submitting = queue_.OnFailed(pending, must_resubmit);
  const Status annotated = Annotate(status, absl::StrCat("step ", pending.step, ": ", what));
  if (!IsWorthARetry(status)) {
    if (status_.ok()) status_ = annotated;
    return;
  }
  auto left = pending.retry.OnFailure(Clock::now(), options_.retry_deadline);
  // A worker that is full is well: it will have room, at the latest when the run waits for this
  // batch.
  if (left.count() <= 0 && was_submitting && absl::IsResourceExhausted(status)) {
    pending.retry.Reset();
    left = pending.retry.OnFailure(Clock::now(), options_.retry_deadline);
  }
  if (left.count() <= 0) {
    if (status_.ok()) {
      status_ =
          Annotate(annotated, absl::StrCat("retried for ", options_.retry_deadline.count() / 1000,
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
const PulledBatch* BatchPipeline::TakeNext() { return impl_->TakeNext(); }
void BatchPipeline::Finish() { impl_->Finish(); }
Status BatchPipeline::WaitForPushes() { return impl_->WaitForPushes(); }
void BatchPipeline::Stop() { impl_->Stop(); }

}  // namespace simurgh
