#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "config/service_config.h"

namespace simurgh {

// The stamps of each rank's last two complete training pulls. Their rows, which their pushes will
// change, have at least that recency.
//
// Threads: one owner.
class PullMarks {
 public:
  // A repeated pull of a step does not raise its stamp: it may not have read all rows yet.
  void Note(uint64_t run, uint32_t rank, uint64_t step, uint64_t stamp) {
    Mark& mark = FindOrAdd(run, rank).marks[step % 2];
    if (mark.is_set && mark.step == step) {
      mark.stamp = std::min(mark.stamp, stamp);
    } else if (!mark.is_set || mark.step < step) {
      mark = {.step = step, .stamp = stamp, .is_set = true};
    }
  }

  // The stamp of the rank's pull of a step. Unset before its end, and after later ones.
  std::optional<uint64_t> StampOf(uint64_t run, uint32_t rank, uint64_t step) const {
    for (const Rank& known : ranks_) {
      const Mark& mark = known.marks[step % 2];
      if (known.run != run || known.rank != rank || !mark.is_set || mark.step != step) continue;
      return mark.stamp;
    }
    return std::nullopt;
  }

 private:
  struct Mark {
    uint64_t step = 0;
    uint64_t stamp = 0;
    bool is_set = false;
  };

  struct Rank {
    uint64_t run = 0;
    uint32_t rank = 0;
    std::array<Mark, 2> marks{};  // Indexed by step modulo 2.
  };

  Rank& FindOrAdd(uint64_t run, uint32_t rank) {
    const auto found = std::ranges::find_if(
        ranks_, [&](const Rank& known) { return known.run == run && known.rank == rank; });
    if (found != ranks_.end()) return *found;
    // Older runs go first.
    if (ranks_.size() == kMaxRanks) ranks_.erase(ranks_.begin());
    return ranks_.emplace_back(Rank{.run = run, .rank = rank});
  }

  std::vector<Rank> ranks_;  // In the order of their first pulls.
};

}  // namespace simurgh
