#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/functional/any_invocable.h"

#include "simurgh/base/status.h"
#include "simurgh/serve/model_version.h"
#include "simurgh/serve/score_request.h"

namespace simurgh {

// Predicts requests with its threads. A free thread takes all that waits for one version, up to
// `max_batch_rows`, and predicts it as one batch.
//
// Threads: any.
class Scorer {
 public:
  struct Options {
    uint32_t threads = 1;
    size_t max_batch_rows = 1024;
    std::chrono::microseconds batch_delay{0};  // Longest wait for further requests.
  };

  explicit Scorer(const Options& options);
  // Answers all requests.
  ~Scorer();

  // How long a request of so many rows would wait now for a thread.
  std::chrono::nanoseconds ExpectedWait() const;

  // Calls done(rows) once, on a thread of the scorer. max_wait: time until a thread takes the
  // request.
  // Errors: RESOURCE_EXHAUSTED at once, if the expected wait exceeds max_wait;
  // DEADLINE_EXCEEDED if it has waited longer. Both before anything is computed.
  using Done = absl::AnyInvocable<void(StatusOr<ScoredRows>) &&>;
  void Submit(std::shared_ptr<const ModelVersion> version, ScoreRequest request,
              std::chrono::milliseconds max_wait, Done done);
};

}  // namespace simurgh
