#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "simurgh/base/mutex.h"
#include "simurgh/base/status.h"
#include "simurgh/collective/gloo_collective.h"

namespace simurgh::testing {

// Exchanges addresses of ranks in one process.
class MeetingPlace {
 public:
  explicit MeetingPlace(uint32_t ranks) : addresses_(ranks) {}

  // For rank `rank`; returns when all ranks have called it.
  ExchangeAddresses Of(uint32_t rank);

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::string> addresses_ ABSL_GUARDED_BY(mutex_);
  size_t arrived_ ABSL_GUARDED_BY(mutex_) = 0;
};

// The body of a rank. It may destroy the collective before it ends.
using RankBody = std::function<Status(std::unique_ptr<Collective>& collective)>;

struct RankOptions {
  uint32_t sharers = 0;  // Number of ranks, from the first, that share memory.
  std::chrono::milliseconds timeout{120'000};
};

// Runs `body` on one thread per rank and returns the results. `body` must not use Catch2's
// assertions, which belong to one thread.
std::vector<Status> RunRanks(uint32_t ranks, const RankBody& body, const RankOptions& options = {});

}  // namespace simurgh::testing
