#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"

#include "simurgh/base/mutex.h"
#include "simurgh/base/status.h"

namespace simurgh {

// Who of a run's ranks has come, and where each can be reached. Once all have come, it is over.
//
// Threads: any.
class Rendezvous {
 public:
  // plan: a hash of what all ranks must agree on.
  Rendezvous(uint32_t ranks, uint64_t plan);

  // Called, from any thread, when all have come. Before the first Arrive.
  void SetOnComplete(std::function<void()> on_complete) { on_complete_ = std::move(on_complete); }

  // A rank comes. One that comes again before all have is taken at its last word.
  // Errors: INVALID_ARGUMENT for a rank that is none, or one of another number or plan;
  // FAILED_PRECONDITION for another one after all have come.
  Status Arrive(uint32_t rank, uint32_t ranks, uint64_t plan, std::string addresses);

  // The addresses of all, by rank; nothing until all have come.
  std::optional<std::vector<std::string>> Everyone() const;

  // Waits for all.
  // Errors: DEADLINE_EXCEEDED, naming who is missing; CANCELLED after a stop.
  StatusOr<std::vector<std::string>> Await(std::chrono::steady_clock::time_point deadline,
                                           std::stop_token stop);

  // Who is missing: "ranks 1, 3".
  std::string Missing() const;

 private:
  bool IsComplete() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint64_t plan_;
  std::function<void()> on_complete_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<std::optional<std::string>> addresses_ ABSL_GUARDED_BY(mutex_);  // By rank.
};

}  // namespace simurgh
