#pragma once

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "simurgh/base/status.h"
#include "simurgh/table/partition.h"

namespace simurgh {

// Reports the results of a step's pushes when all are complete. Otherwise a rank could pull rows
// that lack the gradients of later ranks.
//
// Threads: the partition's.
class StepCompletion {
 public:
  using Notify = std::function<void(const Status&, const PushReport&)>;

  explicit StepCompletion(size_t pushes) : pushes_(pushes) { ended_.reserve(pushes); }

  void Add(Notify notify, Status status, const PushReport& report) {
    ended_.push_back({std::move(notify), std::move(status), report});
    if (ended_.size() < pushes_) return;
    for (const Ended& one : ended_) one.notify(one.status, one.report);
  }

 private:
  struct Ended {
    Notify notify;
    Status status;
    PushReport report;
  };

  const size_t pushes_;
  std::vector<Ended> ended_;
};

}  // namespace simurgh
