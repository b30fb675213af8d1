#include "train/checkpoint_schedule.h"

#include "base/check.h"

namespace simurgh {

bool CheckpointSchedule::IsDue(uint64_t step, Clock::time_point now) {
  bool due = config_.at_steps.contains(step) ||
             (config_.every_steps > 0 && step % config_.every_steps == 0);
  // A save that could wait is not due here, because training would wait for the earlier save.
  if (due_.empty() && !busy_) {
    due = due || has_request();
    if (config_.every.count() > 0 && now - last_due_ >= config_.every) {
      skipped_ += static_cast<uint64_t>((now - last_due_) / config_.every) - 1;
      due = true;
    }
  }
  if (due) {
    last_due_ = now;
    due_.insert(step);
  }
  return due;
}

void CheckpointSchedule::BeginSave(std::optional<uint64_t> mark) {
  SIMURGH_CHECK(!busy_);
  busy_ = true;
  at_mark_ = mark.has_value();
  rows_noted_ = false;
  taken_ = requests_;
  if (mark) due_.erase(*mark);
}

void CheckpointSchedule::End() {
  busy_ = false;
  answered_ = taken_;
}

void CheckpointSchedule::OnSaved(uint64_t step) {
  newest_ = step;
  End();
}

void CheckpointSchedule::OnSaveFailed(const Status& error) {
  End();
  const bool ends =
      absl::IsCancelled(error) || config_.on_error == CheckpointConfig::OnError::kStop;
  if (at_mark_ && ends) failure_ = error;
}

void CheckpointSchedule::OnLoaded(const Status& status) {
  busy_ = false;
  if (!status.ok()) failure_ = status;
}

bool CheckpointSchedule::RepeatsAfter(const Status& error) const {
  // DATA_LOSS: the servers have lost the rows.
  return !error.ok() && !absl::IsCancelled(error) && !absl::IsDataLoss(error) &&
         config_.on_error == CheckpointConfig::OnError::kContinue;
}

}  // namespace simurgh
