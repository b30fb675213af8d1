#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "simurgh/config/table_config.h"
#include "simurgh/table/eviction.h"
#include "table/row_layout.h"

namespace simurgh {

// Decides which rows have expired by the eviction rules. An expired row is invisible from that step
// on, whether or not its memory has been reclaimed, so results do not depend on the sweep.
//
// idle_time is converted to stamps: the newest stamp is recorded with the time kNotes times per
// idle_time. Rows older than the newest note of idle_time ago have expired, late by at most
// idle_time / kNotes.
//
// Threads: one owner.
class Expiry {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Expiry(const EvictionConfig& config);

  // Whether there is any rule, and whether one depends on time.
  bool active() const { return active_; }
  bool timed() const { return config_.idle_time.count() > 0; }

  // Call with every new stamp before CauseOf(). now: used if timed(); must never decrease.
  void Advance(uint64_t stamp, Clock::time_point now);

  // Rows with this stamp or a newer one have not expired.
  uint64_t live_from() const { return live_from_; }

  // Returns why a row with this stamp has expired, or nothing. squared_norm(): of its weights;
  // called only if needed.
  template <typename SquaredNorm>
  std::optional<EvictionCause> CauseOf(uint64_t stamp, uint32_t use_count,
                                       const SquaredNorm& squared_norm) const {
    if (stamp >= live_from_) return std::nullopt;
    const uint64_t age = newest_ - stamp;
    if (config_.idle_steps > 0 && age > config_.idle_steps) return EvictionCause::kIdleSteps;
    if (stamp < idle_before_) return EvictionCause::kIdleTime;
    if (use_count < config_.low_use.below && age > config_.low_use.idle_steps) {
      return EvictionCause::kLowUse;
    }
    const double bound = config_.small_norm.below;
    const bool idle = bound > 0 && age > config_.small_norm.idle_steps;
    if (idle && squared_norm() < bound * bound) return EvictionCause::kSmallNorm;
    return std::nullopt;
  }

 private:
  static constexpr size_t kNotes = 64;

  void AdvanceTime(uint64_t stamp, Clock::time_point now);

  // The newest stamp at that time.
  struct Note {
    Clock::time_point time;
    uint64_t stamp;
  };

  const EvictionConfig config_;
  bool active_ = false;
  uint64_t shortest_idle_steps_ = 0;  // Over all rules that count steps; 0: none.
  uint64_t newest_ = 0;
  uint64_t idle_before_ = 0;  // Rows with an older stamp exceed idle_time.
  uint64_t live_from_ = 0;
  std::array<Note, kNotes + 2> notes_;  // A ring; first_ is the oldest.
  size_t first_ = 0;
  size_t count_ = 0;
};

}  // namespace simurgh
