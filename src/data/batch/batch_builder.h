#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "data/batch/batch.h"

namespace simurgh {

// Collects samples into a Batch and deduplicates their ids, list by list.
//
// Protocol, for each sample: SetLabel, SetWeight, SetGroup, SetDense and AddId in any order, then
// EndSample. Defaults are labels 0, weight 1, no group, dense 0 and no ids. Occurrences of a sample
// keep the order of their AddId calls.
//
// Threads: one owner.
class BatchBuilder {
 public:
  // Makes batches with one list per feature. tasks: labels per sample, at least 1.
  BatchBuilder(size_t feature_count, size_t dense_width, size_t tasks = 1);

  // lists: (F) the list of each feature, numbered by first use. Features of a list share a table.
  // is_weighted: whether the batches have the samples' weights.
  BatchBuilder(std::vector<uint32_t> lists, size_t dense_width, size_t tasks = 1,
               bool is_weighted = false);

  ~BatchBuilder();
  BatchBuilder(BatchBuilder&&) noexcept;
  BatchBuilder& operator=(BatchBuilder&&) noexcept;

  void SetLabel(float label, size_t task = 0);
  // Sets the sample's weight, which is finite and at least 0. Has no effect without is_weighted.
  void SetWeight(float weight);
  void SetGroup(uint64_t group);
  void SetDense(size_t column, float value);
  // Sets the value of the sample before. Requires that it is kept: see Build().
  void RepeatDense(size_t column);
  void AddId(size_t feature, uint64_t id, float weight = 1.0F);
  void EndSample();

  // Returns whether any label of the open sample is 1.
  bool positive() const;

  // Drops what was set since the last EndSample.
  void AbandonSample();

  // Returns the number of finished samples.
  size_t size() const;

  // Lets samples have any number of ids. Requires that they are only appended to other builders.
  void LiftLimit();

  // Adds the finished samples [first, first + count) of a builder of the same shape, as if they had
  // been set here. Requires that no sample is open.
  void Append(const BatchBuilder& other, size_t first, size_t count);

  // Writes the finished samples as records, in which a sample's values are side by side. words:
  // gets the records, and grows if need be. begins: gets the begin of each record in `words`.
  void Pack(std::vector<uint32_t>& words, std::vector<size_t>& begins) const;

  // Adds samples that Pack() of a builder of the same shape has written, as if they had been set
  // here. records: where each one begins. Requires that no sample is open.
  void AppendPacked(std::span<const uint32_t* const> records);

  // Sets the ids of a feature for all finished samples; AddId then no longer adds any. `ids` gets a
  // buffer for reuse, with any content. ends: where each sample ends in `ids`; empty: each sample
  // has one id. Requires that the samples are only appended to other builders.
  void SetIds(size_t feature, std::vector<uint64_t>& ids, std::span<const uint32_t> ends);

  // Drops all samples.
  void Clear();

  // Returns the finished samples and starts the next batch, reusing memory.
  // Errors: INVALID_ARGUMENT beyond kMaxBatchSamples, kMaxBatchOccurrences or kMaxBatchCells.
  StatusOr<Batch> Build();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace simurgh
