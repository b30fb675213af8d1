#include "data/reading/replay_reader.h"

#include <utility>

namespace simurgh {

StatusOr<std::optional<Batch>> ReplayReader::Next() {
  if (!next_) {
    SIMURGH_ASSIGN_OR_RETURN(next_, reader_->Next());
  }
  if (!next_ || next_->idle || due_ < 1) {
    if (next_ && !next_->idle) {
      due_ += per_batch_;
      progress_ = next_->progress;
    }
    return std::exchange(next_, std::nullopt);
  }
  due_ -= 1;
  SIMURGH_ASSIGN_OR_RETURN(Batch old, NextOld());
  old.progress = progress_;
  return old;
}

StatusOr<Batch> ReplayReader::NextOld() {
  constexpr int kMostReadings = 10;  // More than one, since a small sample may be empty.
  for (int readings = 0; readings < kMostReadings;) {
    if (old_ == nullptr) {
      SIMURGH_ASSIGN_OR_RETURN(old_, open_old_(times_++));
      ++readings;
    }
    SIMURGH_ASSIGN_OR_RETURN(std::optional<Batch> batch, old_->Next());
    if (batch && batch->size() >= least_) return *std::move(batch);
    if (batch) continue;
    skipped_old_rows_ += old_->skipped_rows();
    old_.reset();
  }
  return absl::InvalidArgumentError(
      "data.replay: the files have no full batch of rows; name others, or lower "
      "training.batch_size");
}

}  // namespace simurgh
