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

// Says which rows have outlived their table's rules. A row that has is gone for every reader from
// that step on, whether its memory has been taken back or not: what a pull reads never depends on
// how far the table has come with that.
//
// Time is turned into stamps: now and then the newest stamp is noted with the time, and rows that
// are older than the newest note of `idle_time` ago have been idle for so long; they go late by at
// most kNotes-th of it.
//
// Threads: one owner.
class Expiry {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Expiry(const EvictionConfig& config);

  // Whether there are rules at all, and whether one goes by time.
  bool active() const { return active_; }
  bool timed() const { return config_.idle_time.count() > 0; }

  // To be called with every new stamp, before rows are judged.
  void Advance(uint64_t stamp);
  // The same for time, with the stamp that is new; times never go back.
  void Advance(uint64_t stamp, Clock::time_point now);

  // Rows with this stamp and newer ones live.
  uint64_t live_from() const { return live_from_; }

  // Why a row of that stamp is gone, or nothing. squared_norm(): of its weights; only asked for
  // when it matters.
  template <typename SquaredNorm>
  std::optional<EvictionCause> Judge(uint64_t stamp, uint32_t use_count,
                                     const SquaredNorm& squared_norm) const {
    if (stamp >= live_from_) return std::nullopt;
    const uint64_t age = newest_ - stamp;
    if (config_.idle_steps > 0 && age > config_.idle_steps) return EvictionCause::kIdleSteps;
    if (stamp < idle_before_) return EvictionCause::kIdleTime;
    if (use_count < config_.low_use.below && age > config_.low_use.idle_steps) {
      return EvictionCause::kLowUse;
    }
    if (config_.small_norm.below > 0 && age > config_.small_norm.idle_steps &&
        squared_norm() < double{config_.small_norm.below} * double{config_.small_norm.below}) {
      return EvictionCause::kSmallNorm;
    }
    return std::nullopt;
  }

 private:
  static constexpr size_t kNotes = 64;

  // Rows of an older stamp than this had been idle at that time.
  struct Note {
    Clock::time_point time;
    uint64_t stamp;
  };

  const EvictionConfig config_;
  bool active_ = false;
  uint64_t shortest_idle_steps_ = 0;  // Of all rules that count steps; 0: there are none.
  uint64_t newest_ = 0;
  uint64_t idle_before_ = 0;  // Rows of an older stamp have been idle for too long a time.
  uint64_t live_from_ = 0;
  std::array<Note, kNotes + 2> notes_;  // A ring; the oldest at first_.
  size_t first_ = 0;
  size_t count_ = 0;
};

}  // namespace simurgh
