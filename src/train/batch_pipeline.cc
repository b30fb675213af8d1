#include "train/batch_pipeline.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "telemetry/timeline.h"
#include "train/batch_queue.h"

namespace simurgh {
namespace {

using Clock = std::chrono::steady_clock;

// Names in errors, traces and profiles, by BatchCall.
constexpr const char* kCallNames[] = {"submit", "pull", "push"};

const char* NameOf(BatchCall call) { return kCallNames[static_cast<size_t>(call)]; }

}  // namespace

BatchPipeline::BatchPipeline(EmbeddingPort& port, PipelineOptions options)
    : port_(port), options_(options), queue_(std::make_unique<BatchQueue>(options)) {}

BatchPipeline::~BatchPipeline() {
  Stop();
  MutexLock lock(mutex_);
  while (calls_in_flight_ > 0) changed_.Wait(mutex_);
}

bool BatchPipeline::Feed(Batch batch) {
  auto encoded = port_.Encode(*batch.sparse);
  WaitUntil([this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return queue_->waiting() < options_.queue_batches;
  });
  return Update([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (status_.ok() && !encoded.ok()) status_ = Annotate(encoded.status(), "submit");
    if (status_.ok()) queue_->Add(std::move(batch), *std::move(encoded));
  });
}

void BatchPipeline::Mark() {
  Update([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    queue_->Mark();
    changed_.NotifyAll();
  });
}

void BatchPipeline::EndInput(Status status) {
  Update([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    queue_->EndInput();
    if (status_.ok()) status_ = std::move(status);
    changed_.NotifyAll();
  });
}

StatusOr<const PulledBatch*> BatchPipeline::Next() {
  WaitUntil([this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    const PendingBatch* next = queue_->NextForTrainer();
    return queue_->at_mark() || (next != nullptr ? next->is_pulled() : queue_->input_ended());
  });
  MutexLock lock(mutex_);
  if (!status_.ok()) return status_;
  PendingBatch* next = queue_->NextForTrainer();
  return next == nullptr || queue_->at_mark() ? nullptr : queue_->Take(*next);
}

const PulledBatch* BatchPipeline::TakeNext() {
  MutexLock lock(mutex_);
  PendingBatch* next = queue_->NextForTrainer();
  if (!status_.ok() || next == nullptr || !next->is_pulled()) return nullptr;
  return queue_->Take(*next);
}

size_t BatchPipeline::queued() {
  MutexLock lock(mutex_);
  return queue_->waiting();
}

bool BatchPipeline::at_mark() {
  MutexLock lock(mutex_);
  return queue_->at_mark();
}

void BatchPipeline::Lift() {
  Update([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { queue_->Lift(); });
}

void BatchPipeline::Finish() {
  Update([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    queue_->Finish();
    changed_.NotifyAll();
  });
}

Status BatchPipeline::WaitForPushes() {
  WaitUntil([this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return queue_->all_acknowledged(); });
  MutexLock lock(mutex_);
  return status_;
}

void BatchPipeline::Stop() {
  MutexLock lock(mutex_);
  if (status_.ok()) status_ = absl::CancelledError("training was stopped");
  changed_.NotifyAll();
}

void BatchPipeline::WaitUntil(absl::FunctionRef<bool()> ready) {
  while (true) {
    std::vector<StartedCall> calls;
    {
      MutexLock lock(mutex_);
      if (!status_.ok() || ready()) return;
      // One time for both, so that no retry falls due unnoticed between them.
      const Clock::time_point now = Clock::now();
      calls = StartCalls(now);
      if (calls.empty()) {
        const Clock::time_point wake = queue_->next_retry(now);
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

bool BatchPipeline::Update(absl::FunctionRef<void()> change) {
  std::vector<StartedCall> calls;
  bool works = false;
  {
    MutexLock lock(mutex_);
    change();
    works = status_.ok();
    calls = StartCalls(Clock::now());
  }
  MakeCalls(calls);
  return works;
}

std::vector<StartedCall> BatchPipeline::StartCalls(Clock::time_point now) {
  if (!status_.ok()) return {};
  std::vector<StartedCall> calls = queue_->StartCalls(now);
  calls_in_flight_ += calls.size();
  return calls;
}

void BatchPipeline::MakeCalls(const std::vector<StartedCall>& calls) {
  for (const StartedCall& started : calls) {
    PendingBatch& pending = *started.batch;
    pending.profile_range = BeginProfileRange(NameOf(started.call), pending.step);
    switch (started.call) {
      case BatchCall::kSubmit:
        Submit(pending);
        break;
      case BatchCall::kPull:
        Pull(started);
        break;
      case BatchCall::kPush:
        Push(pending);
        break;
    }
  }
}

StepId BatchPipeline::StepIdOf(const PendingBatch& pending) const {
  return {.run = options_.run,
          .rank = options_.rank,
          .step = pending.step,
          .ranks = options_.ranks,
          .order = options_.order};
}

void BatchPipeline::Submit(PendingBatch& pending) {
  // A reproducible run sends a push after the pulls that must not see it.
  const SubmitOptions options{.mode = options_.mode,
                              .run = options_.run,
                              .rank = options_.rank,
                              .step = pending.step,
                              .lookahead_steps = options_.reproducible ? options_.staleness : 1};
  // The bytes are released once they are sent: a repeated submit, which is rare, encodes again.
  port_.Submit(
      {pending.batch.sparse, std::move(pending.encoded)}, options,
      [this, &pending](StatusOr<BatchReference> reference) {
        OnAnswer(
            pending, BatchCall::kSubmit, reference.status(), reference.ok() ? reference->trace : 0,
            [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { queue_->OnSubmitted(pending, *reference); });
      });
}

void BatchPipeline::Pull(const StartedCall& started) {
  PendingBatch& pending = *started.batch;
  if (pending.block == nullptr) {
    pending.block =
        options_.blocks->LeaseFor(pending.batch.sparse, options_.mode == LookupMode::kTrain);
    pending.block->rounding.step = pending.step;
    pending.block->rounding.first_row = FirstRowOf(options_.rank);
  }
  const BatchBlock::Encoded& embeddings = pending.block->encoded_embeddings;
  EmbeddingBuffer target(embeddings.precision, embeddings.bytes, pending.block);
  target.form = embeddings.form;
  port_.Pull(pending.reference,
             {.mode = options_.mode,
              .step_id = StepIdOf(pending),
              .needed = started.needed,
              .row_age_steps = started.row_age_steps},
             std::move(target), [this, &pending](StatusOr<PullAnswer> answer) {
               OnAnswer(pending, BatchCall::kPull, answer.status(), pending.reference.trace,
                        [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
                          queue_->OnPulled(pending, *std::move(answer));
                        });
             });
}

void BatchPipeline::Push(PendingBatch& pending) {
  const BatchBlock::Encoded& encoded = pending.block->encoded_gradients;
  GradientBuffer gradients(encoded.precision, pending.block->gradient_factor, encoded.bytes,
                           pending.block);
  gradients.form = encoded.form;
  gradients.argmax = pending.argmax;
  port_.Push(pending.reference, StepIdOf(pending), std::move(gradients),
             [this, &pending](const Status& status) {
               OnAnswer(pending, BatchCall::kPush, status, pending.reference.trace,
                        [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { queue_->ReleaseBatch(pending); });
             });
}

void BatchPipeline::OnAnswer(PendingBatch& pending, BatchCall call, const Status& status,
                             uint64_t trace, absl::FunctionRef<void()> on_success) {
  const char* const what = NameOf(call);
  EndProfileRange(pending.profile_range);
  Update([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (Timeline::is_recording()) {
      Timeline::Add({.name = what,
                     .track = what,
                     .begin = pending.call_began,
                     .end = Clock::now(),
                     .step = pending.step,
                     .trace_id = trace});
    }
    if (status.ok()) return on_success();
    const bool awaited = call == BatchCall::kPull && pending.awaits_pushes;
    queue_->OnFailed(pending, call, absl::IsUnavailable(status) || absl::IsNotFound(status));
    if (!status_.ok()) return;
    // A full worker frees memory at the latest when the run waits for this batch. A pull that
    // awaits a push fails if the step before it takes longer than a call may.
    const bool is_endless = (call == BatchCall::kSubmit && absl::IsResourceExhausted(status)) ||
                            (awaited && absl::IsDeadlineExceeded(status));
    status_ =
        pending.retry.OnFailure(Annotate(status, absl::StrCat("step ", pending.step, ": ", what)),
                                Clock::now(), options_.retry_deadline, is_endless);
  });
  // Last: once no call is in flight the pipeline may be destroyed.
  MutexLock lock(mutex_);
  --calls_in_flight_;
  changed_.NotifyAll();
}

StatusOr<const PulledBatch*> StepBatches::Next() {
  if (ahead_ != nullptr) return std::exchange(ahead_, nullptr);
  return pipeline_.Next();
}

Status StepBatches::Overlap() {
  Prefetch();
  return Flush();
}

void StepBatches::Prefetch() {
  if (!network_.loads_ahead() || ahead_ != nullptr) return;
  ahead_ = pipeline_.TakeNext();
  if (ahead_ == nullptr) return;
  const TimelineSpan span("copy in", ahead_->step, ahead_->trace);
  const DenseBatch& dense = ahead_->batch->dense;
  network_.Load(*ahead_->block, dense.matrix(), dense.labels);
}

Status StepBatches::Release(const PulledBatch& pulled, bool applied) {
  SIMURGH_RETURN_IF_ERROR(Flush());
  const bool overlaps = network_.overlaps();
  if (overlaps) Prefetch();
  last_ = &pulled;
  if (!applied) {
    SIMURGH_RETURN_IF_ERROR(network_.AwaitGradients(*pulled.block));
    std::ranges::fill(pulled.block->encoded_gradients.bytes, std::byte{0});
  } else if (overlaps && ahead_ != nullptr) {
    return absl::OkStatus();  // The next step pushes the gradients while the device computes.
  }
  return Flush();
}

Status StepBatches::Flush() {
  if (last_ == nullptr) return absl::OkStatus();
  const PulledBatch& last = *std::exchange(last_, nullptr);
  if (network_.overlaps()) {
    const TimelineSpan span("copy out", last.step, last.trace);
    SIMURGH_RETURN_IF_ERROR(network_.AwaitGradients(*last.block));
  }
  pipeline_.Finish();
  return absl::OkStatus();
}

}  // namespace simurgh
