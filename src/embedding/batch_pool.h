#pragma once

#include <cstddef>
#include <memory>

#include "base/mutex.h"
#include "base/status.h"
#include "data/batch/batch.h"
#include "data/batch/encoded_batch.h"
#include "embedding/batch_plan.h"

namespace simurgh {

// A submitted batch and the plan of its rows.
struct BufferedBatch {
  std::shared_ptr<const CompactBatch> lent;  // Null unless submitted within the process.
  EncodedBatch encoded;                      // Otherwise: as received; unused once decoded.
  CompactBatch decoded;
  BatchPlan plan;

  const CompactBatch& batch() const { return lent != nullptr ? *lent : decoded; }

  // Memory held, including unused capacity left by an earlier batch.
  size_t bytes() const;
  // Upper bound of bytes() once the batch is decoded and planned. Errors: of DecodedSizes.
  StatusOr<size_t> MaxBytes(size_t cluster_features) const;
};

// Recycles the memory of buffered batches.
//
// Threads: any. Lifetime: batches may outlive the pool.
class BatchPool {
 public:
  // Keeps up to capacity_bytes of idle memory. Drops memory that its last batch hardly used: it
  // would count in full for the next small batch, too.
  explicit BatchPool(size_t capacity_bytes);
  ~BatchPool();

  // The batch may hold data of an earlier one.
  std::shared_ptr<BufferedBatch> Lease();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace simurgh
