#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/random.h"
#include "train/ports.h"

namespace simurgh {

// A cluster that answers calls one at a time in a random order, fails at a given rate, and checks
// the order of a pipeline's calls. It fills embeddings with the step's number and expects gradients
// of the step's number + 0.5, with the argmax of the pull.
//
// Threads: as EmbeddingPort; the reports after the pipeline is gone.
class RandomPort : public EmbeddingPort {
 public:
  struct Options {
    uint64_t seed = 1;
    uint32_t staleness = 1;
    bool reproducible = false;
    bool awaits_pushes = false;  // A pull may await the push of the step before.
    uint32_t row_age_steps = 0;  // What pulls must allow; they answer ages up to it.
    double failure_rate = 0;
    std::vector<absl::StatusCode> failures;  // Codes of failures.
    int refused_submissions = 0;             // The first ones: for them there is no room.
  };

  explicit RandomPort(Options options);
  ~RandomPort() override;

  void Submit(SubmittedIds ids, const SubmitOptions& options,
              std::function<void(StatusOr<BatchReference>)> done) override;
  void Pull(BatchReference batch, const PullOptions& options, EmbeddingBuffer embeddings,
            std::function<void(StatusOr<PullAnswer>)> done) override;
  void Push(BatchReference batch, StepId step_id, GradientBuffer gradients,
            std::function<void(Status)> done) override;

  // Steps whose push was acknowledged.
  const std::set<uint64_t>& acknowledged() const { return acknowledged_; }
  // What went against the contract; empty when all was well.
  const std::vector<std::string>& violations() const { return violations_; }
  // By step, the number of earlier steps that the pulled rows may lack.
  const std::map<uint64_t, uint32_t>& lacking() const { return lacking_; }
  uint32_t max_outstanding() const { return max_outstanding_; }
  uint64_t failures() const { return failures_; }
  uint64_t awaiting_pulls() const { return awaiting_pulls_; }

 private:
  void Enqueue(std::function<void()> answer);
  void Run();
  uint32_t DrawAge(uint64_t step, uint32_t oldest) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ok, or a failure drawn at random.
  Status Draw();
  // Whether the reference is one of this step.
  bool IsOf(BatchReference batch, uint64_t step) const;
  void Expect(bool condition, const std::string& what);

  const Options options_;
  Mutex mutex_;
  CondVar changed_;
  Random random_;
  std::vector<std::function<void()>> calls_;
  std::vector<std::function<void()>> held_pulls_;  // Wait for an acknowledgement.
  bool stopped_ = false;
  uint64_t next_number_ = 1;
  std::map<uint64_t, uint64_t> references_;  // The step of each.
  std::set<uint64_t> pull_started_;
  std::set<uint64_t> pull_answered_;
  std::set<uint64_t> acknowledged_;
  std::map<uint64_t, uint64_t> acknowledged_at_pull_;  // By step: how many were at its last pull.
  std::map<uint64_t, uint32_t> lacking_;
  uint64_t pulls_ = 0;                   // Answered.
  std::map<uint64_t, uint64_t> argmax_;  // By step, of the last answered pull.
  std::vector<std::string> violations_;
  uint32_t max_outstanding_ = 0;
  uint64_t failures_ = 0;
  uint64_t awaiting_pulls_ = 0;
  int submissions_ = 0;  // The thread's.
  std::thread thread_;
};

}  // namespace simurgh
