#include "train/batch_queue.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace simurgh {

using State = PendingBatch::State;

BatchQueue::BatchQueue(const PipelineOptions& options)
    : options_(options),
      next_step_(options.first_step),
      rows_kept_from_(options.first_step),
      row_staleness_(options.staleness + (options.awaits_pushes ? 1 : 0), options.row_age_steps) {
  SIMURGH_CHECK(options_.staleness > 0 && options_.queue_batches > 0);
  SIMURGH_CHECK(!options_.awaits_pushes || options_.staleness == 1);
}

void BatchQueue::Add(Batch batch, std::shared_ptr<const EncodedBatch> encoded) {
  if (batch.checkpoint_before) Mark();
  auto pending = std::make_unique<PendingBatch>();
  pending->batch = std::move(batch);
  pending->encoded = std::move(encoded);
  pending->step = next_step_++;
  pending_.push_back(std::move(pending));
}

std::vector<StartedCall> BatchQueue::StartCalls(Clock::time_point now) {
  std::vector<StartedCall> calls;
  // Submits and pulls start in the order of the steps, so that a batch with a permit or a place in
  // a full forward buffer never waits for a later batch.
  bool earlier_are_submitted = true;
  bool earlier_have_permits = true;
  bool earlier_are_pulled = true;
  bool earlier_are_pushed = true;
  const auto start = [&](PendingBatch& pending, BatchCall call, State state) {
    pending.state = state;
    calls.push_back({.batch = &pending, .call = call});
  };
  for (const auto& owned : pending_) {
    PendingBatch& pending = *owned;
    if (pending.retry.due(now)) {
      const bool has_turn =
          options_.awaits_pushes
              ? earlier_are_pulled && MayPullAhead(pending)
              : pending.permit || (earlier_have_permits && outstanding_ < options_.staleness);
      if (pending.state == State::kUnsubmitted) {
        if (earlier_are_submitted) start(pending, BatchCall::kSubmit, State::kSubmitting);
      } else if (pending.state == State::kWaiting && pending.computed) {
        if (MayPush(pending)) start(pending, BatchCall::kPush, State::kPushing);
      } else if (pending.state == State::kWaiting && has_turn &&
                 (marks_.empty() || pending.step < marks_.front()) &&
                 (earlier_are_pulled || !options_.reproducible) &&
                 (earlier_are_pushed || !options_.one_by_one)) {
        calls.push_back(StartPull(pending));
      }
    }
    const State state = pending.state;
    earlier_are_submitted &= state != State::kUnsubmitted && state != State::kSubmitting;
    earlier_have_permits &= pending.permit || pending.computed;
    earlier_are_pulled &= pending.is_pulled();
    earlier_are_pushed &= state == State::kPushing || state == State::kDone;
  }
  for (const StartedCall& call : calls) call.batch->call_began = now;
  return calls;
}

bool BatchQueue::MayPullAhead(const PendingBatch& pending) const {
  const PendingBatch& first = *pending_.front();  // The first one that is not acknowledged.
  return pending.step <= first.step + 1;
}

bool BatchQueue::MayPush(const PendingBatch& pending) const {
  if (!options_.reproducible) return true;
  uint64_t last_pull_before = pending.step + options_.staleness - 1;
  // Pulls from a mark on wait for the pushes before it.
  if (!marks_.empty()) last_pull_before = std::min(last_pull_before, marks_.front() - 1);
  if (last_pull_before >= next_step_ && !input_ended_) return false;
  return std::ranges::all_of(pending_, [&](const auto& other) {
    if (other->step < pending.step) return other->state == State::kDone;
    return other->step > last_pull_before || other->is_pulled();
  });
}

StartedCall BatchQueue::StartPull(PendingBatch& pending) {
  // In training, the oldest pending step is the first unacknowledged one.
  const uint64_t acknowledged_steps =
      options_.mode == LookupMode::kEvaluate ? options_.trained_steps : pending_.front()->step;
  pending.awaits_pushes = options_.awaits_pushes && acknowledged_steps < pending.step;
  if (!pending.permit) {
    pending.permit = true;
    row_staleness_.Note(pending.step, pending.awaits_pushes ? 0 : outstanding_);
    ++outstanding_;
  }
  pending.state = State::kPulling;
  // A run that continues from a checkpoint has no rows from before: no run uses them.
  const bool uses_old_rows =
      rows_kept_from_ == 0 || pending.step >= rows_kept_from_ + options_.row_age_steps;
  return {.batch = &pending,
          .call = BatchCall::kPull,
          .needed = {.acknowledged_steps = acknowledged_steps,
                     .awaited_steps = pending.awaits_pushes ? pending.step : 0},
          .row_age_steps = uses_old_rows ? options_.row_age_steps : 0};
}

void BatchQueue::OnSubmitted(PendingBatch& pending, const BatchReference& reference) {
  pending.reference = reference;
  pending.state = State::kWaiting;
  // A submit repeated after a failed pull or push does not end the failure.
  if (!pending.permit) pending.retry.Reset();
}

void BatchQueue::OnPulled(PendingBatch& pending, PullAnswer answer) {
  pending.state = State::kPulled;
  pending.staleness = row_staleness_.Of(pending.step, answer.row_age_steps);
  pending.argmax = std::move(answer.argmax);
  pending.retry.Reset();
}

void BatchQueue::ReleaseBatch(PendingBatch& pending) {
  pending.state = State::kDone;
  --outstanding_;
  while (!pending_.empty() && pending_.front()->state == State::kDone) pending_.pop_front();
}

void BatchQueue::OnFailed(PendingBatch& pending, BatchCall call, bool must_resubmit) {
  const bool is_unsubmitted = must_resubmit || call == BatchCall::kSubmit;
  pending.state = is_unsubmitted ? State::kUnsubmitted : State::kWaiting;
}

bool BatchQueue::at_mark() const {
  const PendingBatch* next = NextForTrainer();
  return !marks_.empty() && (next == nullptr ? next_step_ : next->step) == marks_.front();
}

void BatchQueue::Lift() {
  SIMURGH_CHECK(at_mark());
  rows_kept_from_ = marks_.front();
  marks_.pop_front();
}

PendingBatch* BatchQueue::NextForTrainer() const {
  const auto found =
      std::ranges::find_if(pending_, [](const auto& pending) { return !pending->handed_out; });
  return found == pending_.end() ? nullptr : found->get();
}

const PulledBatch* BatchQueue::Take(PendingBatch& pending) {
  SIMURGH_CHECK(pending.state == State::kPulled);
  pending.handed_out = true;
  pending.pulled = {.batch = &pending.batch,
                    .step = pending.step,
                    .trace = pending.reference.trace,
                    .block = pending.block.get(),
                    .staleness = pending.staleness};
  return &pending.pulled;
}

void BatchQueue::Finish() {
  const auto found = std::ranges::find_if(
      pending_, [](const auto& pending) { return pending->handed_out && !pending->computed; });
  SIMURGH_CHECK(found != pending_.end());
  (*found)->computed = true;
  (*found)->state = State::kWaiting;
  if (options_.mode == LookupMode::kEvaluate) ReleaseBatch(**found);
}

size_t BatchQueue::waiting() const {
  return static_cast<size_t>(std::ranges::count_if(pending_, [](const auto& pending) {
    return !pending->permit && pending->state != State::kDone;
  }));
}

bool BatchQueue::all_acknowledged() const {
  return std::ranges::none_of(pending_,
                              [](const auto& pending) { return pending->is_unacknowledged(); });
}

BatchQueue::Clock::time_point BatchQueue::next_retry(Clock::time_point now) const {
  Clock::time_point wake = Clock::time_point::max();
  for (const auto& pending : pending_) {
    if (!pending->retry.due(now)) wake = std::min(wake, pending->retry.next_attempt());
  }
  return wake;
}

}  // namespace simurgh
