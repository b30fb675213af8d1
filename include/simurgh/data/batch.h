#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "simurgh/data/compact_batch.h"
#include "simurgh/data/data_position.h"
#include "simurgh/tensor/matrix_view.h"

namespace simurgh {

// The part of a batch that never leaves the nn-worker.
struct DenseBatch {
  size_t batch_size = 0;
  size_t width = 0;
  std::vector<float> values;  // (B, width)
  // (B, tasks), see LossConfig; then, if the samples have weights, (B) of at least 0.
  std::vector<float> labels;
  size_t tasks = 1;  // Labels per sample.
  // (B) for evaluations: samples of a number are a group, those of 0 are in none. Empty: all are 0.
  std::vector<uint64_t> groups;

  // Factors of the samples' losses and in metrics; empty: each is 1.
  std::span<const float> weights() const { return std::span(labels).subspan(batch_size * tasks); }

  MatrixView<const float> matrix() const { return {values.data(), batch_size, width}; }
};

// B samples. The ids are shared with calls that may send them again.
struct Batch {
  std::shared_ptr<const CompactBatch> sparse;
  DenseBatch dense;
  // Samples of all ranks at this step; 0: there is one rank.
  uint64_t global_samples = 0;
  bool ends_epoch = false;  // The epoch's last batch; set while training.
  bool idle = false;        // No batch: a stream has no records for one yet, see RecordStream.

  bool checkpoint_before = false;  // The model is saved before this batch's step.
  ShareProgress progress;          // With this batch.

  size_t size() const { return dense.batch_size; }
};

}  // namespace simurgh
