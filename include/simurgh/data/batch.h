#pragma once

#include <memory>
#include <vector>

#include "simurgh/data/compact_batch.h"
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

// Where reading continues: passes over the data that have begun before, and batches of each rank in
// the present pass.
struct DataPosition {
  uint32_t epoch = 0;
  uint64_t batches = 0;
};

// B samples. The ids are shared with calls that may send them again.
struct Batch {
  std::shared_ptr<const CompactBatch> sparse;
  DenseBatch dense;
  // Samples of all ranks at this step; 0: there is one rank.
  uint64_t global_samples = 0;
  bool ends_epoch = false;  // The epoch's last batch; set while training.

  bool checkpoint_before = false;  // The model is saved before this batch's step.
  DataPosition next;               // After this batch; set while training.

  size_t size() const { return dense.batch_size; }
};

}  // namespace simurgh
