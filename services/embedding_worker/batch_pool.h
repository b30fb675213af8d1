#pragma once

#include <cstddef>
#include <memory>

#include "simurgh/base/mutex.h"
#include "simurgh/base/status.h"
#include "simurgh/data/compact_batch.h"
#include "simurgh/data/encoded_batch.h"
#include "simurgh/feature/batch_plan.h"

namespace simurgh {

// A submitted batch with the way to its rows.
struct BufferedBatch {
  std::shared_ptr<const CompactBatch> lent;  // Where the batch was submitted inside the process.
  EncodedBatch encoded;                      // Else: as it came; of no use once decoded,
  CompactBatch decoded;                      // and as it is.
  BatchPlan plan;

  const CompactBatch& batch() const { return lent != nullptr ? *lent : decoded; }

  // Of all memory behind it, what an earlier batch has left included.
  size_t bytes() const;
  // What bytes() becomes at most once the batch is decoded and planned.
  // Errors: of DecodedSizes, for one that has not these features.
  StatusOr<size_t> MaxBytes(size_t cluster_features) const;
};

// Buffered batches whose memory is used again and again.
//
// Threads: any. Lifetime: batches may outlive the pool.
class BatchPool {
 public:
  // Keeps at most so many bytes of batches that nobody uses, and none of which the last batch has
  // used next to nothing: it would count as so much with the next small one, too.
  explicit BatchPool(size_t capacity_bytes);
  ~BatchPool();

  // Holds what an earlier batch left.
  std::shared_ptr<BufferedBatch> Lease();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace simurgh
