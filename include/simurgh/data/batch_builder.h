#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "simurgh/base/status.h"
#include "simurgh/data/batch.h"

namespace simurgh {

// Collects samples into a Batch and deduplicates their ids, list by list, when it is complete.
//
// Protocol, for each sample: SetLabel, SetDense and AddId in any order, then EndSample. What is not
// set reads as labels 0, dense 0, no ids. Occurrences of a sample keep the order of their AddId
// calls.
//
// Threads: one owner.
class BatchBuilder {
 public:
  // Every feature has a list of its own.
  // tasks: labels of a sample, at least 1.
  BatchBuilder(size_t feature_count, size_t dense_width, size_t tasks = 1);

  // lists: (F) the list of each feature, numbered by first use; features of one list must read one
  // table.
  BatchBuilder(std::vector<uint32_t> lists, size_t dense_width, size_t tasks = 1);

  ~BatchBuilder();
  BatchBuilder(BatchBuilder&&) noexcept;
  BatchBuilder& operator=(BatchBuilder&&) noexcept;

  void SetLabel(float label, size_t task = 0);
  void SetDense(size_t column, float value);
  void AddId(size_t feature, uint64_t id, float weight = 1.0F);
  void EndSample();

  // Whether any label of the open sample is 1.
  bool positive() const;

  // Forgets what was set since the last EndSample (a row that turned out to be bad).
  void AbandonSample();

  // Finished samples so far.
  size_t size() const;

  // The finished samples as a batch; the builder starts anew, keeping its memory.
  // Errors: INVALID_ARGUMENT past kMaxBatchSamples, kMaxBatchOccurrences or kMaxBatchCells.
  StatusOr<Batch> Build();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace simurgh
