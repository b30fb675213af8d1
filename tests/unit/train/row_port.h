#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "simurgh/base/mutex.h"
#include "simurgh/data/row_codec.h"
#include "tests/unit/train/random_port.h"

namespace simurgh::testing {

// A RandomPort of two embedding workers that gives rows: new numbers with each pull. Before that
// their place is full of ones, and whenever a pull fails.
//
// Threads: as EmbeddingPort; the reports any.
class RowPort : public EmbeddingPort {
 public:
  struct Options {
    RandomPort::Options calls = {};
    std::vector<uint32_t> tables;  // By list.
    // The worker of the first pull of these steps dies with it, and with all else that it has.
    std::set<uint64_t> deaths;
    uint64_t bad_step = UINT64_MAX;  // Some rows of it hold NaN.
  };

  // Lifetime: of code.
  RowPort(const RowCodec& code, Options options);

  void Submit(std::shared_ptr<const CompactBatch> batch, const SubmitOptions& terms,
              std::function<void(StatusOr<BatchReference>)> done) override;
  void Pull(BatchReference reference, const PullOptions& terms, EmbeddingBuffer target,
            std::function<void(StatusOr<PullAnswer>)> done) override;
  void Push(BatchReference reference, StepId position, GradientBuffer gradients,
            std::function<void(Status)> done) override;

  // The rows of a batch's ids as the answered pull of the step gave them, or would have.
  std::vector<std::vector<std::byte>> RowsOf(uint64_t step, const CompactBatch& batch) const;
  // The gradients of each step, as its last push had them.
  std::map<uint64_t, std::vector<float>> pushed() const;
  // After the pipeline is gone.
  const RandomPort& calls() const { return calls_; }
  uint64_t lost() const;  // Calls about batches that a dead worker had.

 private:
  bool Lives(const BatchReference& reference) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return reference.worker_incarnation == epochs_[reference.worker];
  }
  // Ok, or the worker is gone.
  Status Ask(const BatchReference& reference);
  void Answer(uint64_t step, const CompactBatch& batch, const EmbeddingBuffer& target);

  const RowCodec& code_;
  const Options options_;
  mutable Mutex mutex_;
  std::vector<uint64_t> epochs_ ABSL_GUARDED_BY(mutex_) = {1, 1};
  std::set<uint64_t> deaths_ ABSL_GUARDED_BY(mutex_);  // To come.
  std::map<uint64_t, std::shared_ptr<const CompactBatch>> batches_ ABSL_GUARDED_BY(mutex_);
  uint64_t answered_ ABSL_GUARDED_BY(mutex_) = 0;                        // Pulls.
  std::map<uint64_t, uint64_t> number_of_pull_ ABSL_GUARDED_BY(mutex_);  // By step.
  std::map<uint64_t, std::vector<float>> pushed_ ABSL_GUARDED_BY(mutex_);
  uint64_t lost_ ABSL_GUARDED_BY(mutex_) = 0;
  RandomPort calls_;  // Last: its thread ends first.
};

}  // namespace simurgh::testing
