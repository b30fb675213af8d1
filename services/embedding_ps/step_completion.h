#pragma once

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "simurgh/base/status.h"
#include "simurgh/table/partition.h"

namespace simurgh {

// Tells the pushes of a step how they have ended, once all have: a rank that heard of its own one
// before would pull rows without the gradients of the ranks behind it.
//
// Threads: the partition's.
class StepCompletion {
 public:
  using Tell = std::function<void(const Status&, const PushReport&)>;

  explicit StepCompletion(size_t pushes) : pushes_(pushes) { ended_.reserve(pushes); }

  // One of them has ended, and is to be told by `tell`.
  void Add(Tell tell, Status status, const PushReport& report) {
    ended_.push_back({std::move(tell), std::move(status), report});
    if (ended_.size() < pushes_) return;
    for (const Ended& one : ended_) one.tell(one.status, one.report);
  }

 private:
  struct Ended {
    Tell tell;
    Status status;
    PushReport report;
  };

  const size_t pushes_;
  std::vector<Ended> ended_;
};

}  // namespace simurgh
