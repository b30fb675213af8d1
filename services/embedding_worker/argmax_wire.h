#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "simurgh/base/status.h"
#include "simurgh/data/compact_batch.h"
#include "simurgh/feature/batch_plan.h"

namespace simurgh {

// Encodes the argmax of a batch's max-pooled features, in feature order, by
// simurgh/data/argmax_codec.h.
//
// Threads: immutable; any.
class ArgmaxWire {
 public:
  explicit ArgmaxWire(const BatchLayout& layout);

  // Number of positions in the form of BatchPooling.
  size_t count(const CompactBatch& batch) const { return batch.batch_size * columns_; }
  // Encoded size.
  size_t bytes(const CompactBatch& batch) const;
  // Upper bound of bytes() over all batches.
  size_t max_bytes() const;

  // Requires out of bytes() + kArgmaxSlackBytes.
  void Encode(const CompactBatch& batch, std::span<const uint32_t> argmax,
              std::span<std::byte> out) const;

  // Errors: INVALID_ARGUMENT for a size other than bytes(), or a position outside its sample.
  Status Decode(const CompactBatch& batch, std::span<const std::byte> bytes,
                std::span<uint32_t> argmax) const;

 private:
  struct Feature {
    size_t index = 0;
    size_t dim = 0;
  };

  std::vector<Feature> features_;
  const size_t columns_;
};

}  // namespace simurgh
