#pragma once

#include <memory>
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
  std::vector<float> labels;  // (B, tasks) each 0 or 1
  size_t tasks = 1;           // Labels per sample.

  MatrixView<const float> matrix() const { return {values.data(), batch_size, width}; }
};

// B samples. The ids are shared with calls that may send them again.
struct Batch {
  std::shared_ptr<const CompactBatch> sparse;
  DenseBatch dense;
  // Samples of all ranks at this step; 0: there is one rank.
  uint64_t global_samples = 0;
  bool ends_epoch = false;  // The epoch's last batch; set while training.

  bool checkpoint_before = false;  // The model is saved before this batch's step.
  ShareProgress progress;          // With this batch.

  size_t size() const { return dense.batch_size; }
};

}  // namespace simurgh
