#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"

#include "base/mutex.h"
#include "base/status.h"
#include "predict/model_version.h"
#include "predict/predictor.h"
#include "telemetry/metrics.h"

namespace simurgh {

// Predicts requests with its threads. A free thread takes the waiting requests for one version, up
// to `max_batch_rows`, and predicts them as one batch: batches grow by themselves under load.
//
// Threads: any.
class Scorer {
 public:
  struct Options {
    uint32_t threads = 1;
    size_t max_batch_rows = 1024;
    std::chrono::microseconds batch_delay{0};  // Longest wait for further requests.
  };

  // Lifetime: the registry outlives the scorer.
  Scorer(const Options& options, MetricRegistry& registry);
  // Answers all requests.
  ~Scorer();
  Scorer(const Scorer&) = delete;
  Scorer& operator=(const Scorer&) = delete;

  // Returns whether a request would wait longer than max_wait, and counts it as late then. Callers
  // save the work before Submit().
  bool Refuses(std::chrono::milliseconds max_wait);

  // Calls done(rows) once, on a thread of the scorer, or at once for an error of the wait.
  // max_wait: longest time until a thread takes the request.
  // Requires: request.columns fit version.format().
  // Errors: RESOURCE_EXHAUSTED if the expected wait exceeds max_wait; DEADLINE_EXCEEDED if the
  // request has waited longer: nothing has been computed; those of Predictor.
  using Done = absl::AnyInvocable<void(StatusOr<ScoredRows>) &&>;
  void Submit(std::shared_ptr<const ModelVersion> version, ScoreRequest request,
              std::chrono::milliseconds max_wait, Done done);

 private:
  using Clock = std::chrono::steady_clock;
  struct Waiting {
    std::shared_ptr<const ModelVersion> version;
    ScoreRequest request;
    Clock::time_point since;
    Clock::time_point deadline;
    Done done;
  };
  struct Worker;

  void Run();
  // Calls `done` of all requests. Requires requests for the same of one version.
  void Answer(Worker& worker, std::vector<Waiting> taken);
  // Waits for requests. Returns none when the scorer ends.
  std::vector<Waiting> Take();
  std::chrono::nanoseconds WaitOf(size_t rows) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  Histogram& batch_rows_;
  Counter& late_requests_;
  MetricRegistry& registry_;
  mutable Mutex mutex_;
  CondVar wake_;
  std::deque<Waiting> queue_ ABSL_GUARDED_BY(mutex_);
  size_t waiting_rows_ ABSL_GUARDED_BY(mutex_) = 0;
  // Sums over batches, each older one counting less: their quotient is the time of a row.
  double recent_seconds_ ABSL_GUARDED_BY(mutex_) = 0;
  double recent_rows_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::jthread> threads_;
};

}  // namespace simurgh
