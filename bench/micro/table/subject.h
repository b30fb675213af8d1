#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bench/micro/table/batches.h"
#include "table/row_layout.h"

namespace simurgh::bench {

// Something that stores rows under ids. All subjects do the same work: a pull copies the rows of a
// batch to `out`, side by side, making those that are missing; a push applies one gradient each.
//
// Threads: one at a time.
class Subject {
 public:
  virtual ~Subject() = default;

  // out: (U, D) of the batch.
  virtual void Pull(const Batch& batch, float* out) = 0;

  // gradients: (U, D).
  virtual void Push(const Batch& batch, const float* gradients) = 0;
};

// The format of rows and their update rule.
struct RowKind {
  RowUpdateParameters update;
  RowFormat format;

  uint32_t dim() const { return update.dim; }
  uint32_t state_floats() const { return format.floats() - format.dim; }
};

}  // namespace simurgh::bench
