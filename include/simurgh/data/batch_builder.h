#pragma once

#include <cstdint>
#include <memory>

#include "simurgh/base/status.h"
#include "simurgh/data/batch.h"

namespace simurgh {

// Collects samples into a Batch and deduplicates their ids feature by feature in the same pass.
//
// Protocol, for each sample: SetLabel, SetDense and AddId in any order, then EndSample. What is not
// set reads as label 0, dense 0, no ids. Occurrences of a sample keep the order of their AddId
// calls.
//
// Threads: one owner.
class BatchBuilder {
 public:
  BatchBuilder(size_t feature_count, size_t dense_width);
  ~BatchBuilder();
  BatchBuilder(BatchBuilder&&) noexcept;
  BatchBuilder& operator=(BatchBuilder&&) noexcept;

  void SetLabel(float label);
  void SetDense(size_t column, float value);
  void AddId(size_t feature, uint64_t id);
  void EndSample();

  // Forgets what was set since the last EndSample (a row that turned out to be bad).
  void AbandonSample();

  // Finished samples so far.
  size_t size() const;

  // The finished samples as a batch; the builder starts anew, keeping its memory.
  // Errors: INVALID_ARGUMENT past kMaxBatchSamples or kMaxBatchOccurrences.
  StatusOr<Batch> Build();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace simurgh
