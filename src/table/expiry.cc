#include "table/expiry.h"

#include <algorithm>
#include <limits>

namespace simurgh {

Expiry::Expiry(const EvictionConfig& config) : config_(config) {
  uint64_t shortest = std::numeric_limits<uint64_t>::max();
  if (config_.idle_steps > 0) shortest = config_.idle_steps;
  if (config_.low_use.below > 0) {
    shortest = std::min<uint64_t>(shortest, config_.low_use.idle_steps);
  }
  if (config_.small_norm.below > 0) {
    shortest = std::min<uint64_t>(shortest, config_.small_norm.idle_steps);
  }
  if (shortest < std::numeric_limits<uint64_t>::max()) shortest_idle_steps_ = shortest;
  active_ = shortest_idle_steps_ > 0 || timed();
}

void Expiry::Advance(uint64_t stamp, Clock::time_point now) {
  if (timed()) AdvanceTime(stamp, now);
  newest_ = stamp;
  live_from_ = idle_before_;
  if (shortest_idle_steps_ > 0 && stamp > shortest_idle_steps_) {
    live_from_ = std::max(live_from_, stamp - shortest_idle_steps_);
  }
}

// Rows with an older stamp were last used before `now`.
void Expiry::AdvanceTime(uint64_t stamp, Clock::time_point now) {
  const bool due = count_ == 0 || now - notes_[(first_ + count_ - 1) % notes_.size()].time >=
                                      config_.idle_time / kNotes;
  if (due && count_ < notes_.size()) {
    notes_[(first_ + count_) % notes_.size()] = {now, stamp};
    ++count_;
  }
  while (count_ > 0 && now - notes_[first_].time >= config_.idle_time) {
    idle_before_ = notes_[first_].stamp;
    first_ = (first_ + 1) % notes_.size();
    --count_;
  }
}

}  // namespace simurgh
