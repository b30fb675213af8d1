#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "base/status.h"
#include "base/step_id.h"
#include "config/service_config.h"

namespace simurgh {

// Admits the training requests of one run at a time, since two runs would change each other's rows.
// A run is over when all its ranks have ended, or when none of its requests arrived for
// embedding_ps.run_timeout. A rank that failed has stopped its clients and reports no end.
//
// Servers may meet two new runs in different order. As long as the admitted run has not pushed, a
// run with a smaller number therefore replaces it: all servers end with the same one.
//
// The newest start of a training replaces its other starts at once and for good (base/step_id.h). A
// run with a generation must begin before it uses rows. So a server that was restarted, and has no
// rows, does not give the run fresh ones.
//
// Threads: one owner.
class RunGuard {
 public:
  using Clock = std::chrono::steady_clock;

  explicit RunGuard(const EmbeddingPsConfig& config)
      : allows_all_(config.concurrent_runs), timeout_(config.run_timeout) {}

  enum class Request { kProbe, kBegin, kEvaluate, kPull, kPush };

  // Evaluations of the newest start are always admitted, and show that their run goes on.
  // Errors: ABORTED while another run trains; FAILED_PRECONDITION for an older start of a training,
  // or for a run that another one has replaced after the timeout; DATA_LOSS for a run that has not
  // begun.
  Status Admit(uint64_t run, Request request, Clock::time_point now);

  // The rows are those that the run begins with.
  void Begin(uint64_t run);

  // step_id: its run, rank and ranks.
  void End(const StepId& step_id);

 private:
  struct Start {
    uint64_t run = 0;
    bool has_begun = false;
  };

  Status AdmitStart(uint64_t run, Request request);

  const bool allows_all_;
  const std::chrono::milliseconds timeout_;
  std::map<uint64_t, Start> newest_;  // The newest start of each training.
  bool active_ = false;               // A run is admitted, and the rest is its state.
  uint64_t run_ = 0;
  bool pushed_ = false;
  Clock::time_point seen_;
  std::set<uint32_t> ended_ranks_;
  std::optional<uint64_t> ended_run_;
  std::optional<uint64_t> replaced_run_;
};

}  // namespace simurgh
