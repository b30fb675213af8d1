#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "simurgh/base/mutex.h"
#include "simurgh/base/status.h"
#include "simurgh/collective/gloo_collective.h"

namespace simurgh::testing {

// Ranks that meet in memory.
class MeetingPlace {
 public:
  explicit MeetingPlace(uint32_t ranks) : addresses_(ranks) {}

  // For rank `rank`; answers when all have come.
  ExchangeAddresses Of(uint32_t rank);

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::string> addresses_ ABSL_GUARDED_BY(mutex_);
  size_t arrived_ ABSL_GUARDED_BY(mutex_) = 0;
};

// What a rank does. It may let go of the collective before it ends.
using RankBody = std::function<Status(std::unique_ptr<Collective>& collective)>;

struct RankOptions {
  uint32_t sharers = 0;  // The first so many ranks share their memory.
  std::chrono::milliseconds timeout{120'000};
};

// Runs `body` as every rank, a thread each, and answers what each one returned. It checks nothing
// there: Catch2's assertions belong to one thread.
std::vector<Status> RunRanks(uint32_t ranks, const RankBody& body, const RankOptions& options = {});

}  // namespace simurgh::testing
