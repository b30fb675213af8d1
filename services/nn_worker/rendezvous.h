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

// Collects the addresses of a run's ranks. It is complete when all ranks have arrived.
//
// Threads: any.
class Rendezvous {
 public:
  // plan: settings that all ranks must agree on, see SettingsDifference.
  Rendezvous(uint32_t ranks, std::string plan);

  // on_complete: called from any thread when all have arrived. Call before the first Arrive.
  void SetOnComplete(std::function<void()> on_complete) { on_complete_ = std::move(on_complete); }

  // Adds a rank. Until all have arrived, a rank may arrive again; its last addresses count.
  // Errors: INVALID_ARGUMENT for a rank out of range, another number of ranks or another plan;
  // FAILED_PRECONDITION for other addresses after all have arrived.
  Status Arrive(uint32_t rank, uint32_t ranks, const std::string& plan, std::string addresses);

  // By rank; nothing until all have arrived.
  std::optional<std::vector<std::string>> Addresses() const;

  // Waits for all.
  // Errors: DEADLINE_EXCEEDED, naming the missing ranks; CANCELLED after a stop.
  StatusOr<std::vector<std::string>> Await(std::chrono::steady_clock::time_point deadline,
                                           std::stop_token stop);

  // For errors: "ranks 1, 3".
  std::string Missing() const;

 private:
  bool IsComplete() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string plan_;
  std::function<void()> on_complete_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<std::optional<std::string>> addresses_ ABSL_GUARDED_BY(mutex_);  // By rank.
};

}  // namespace simurgh
