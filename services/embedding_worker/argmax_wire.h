#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "simurgh/base/status.h"
#include "simurgh/data/compact_batch.h"
#include "simurgh/feature/batch_plan.h"

namespace simurgh {

// The argmax of all features of a batch that are pooled by max, feature after feature, on their way
// to the trainer and back: simurgh/data/argmax_codec.h.
//
// Threads: immutable; any.
class ArgmaxWire {
 public:
  explicit ArgmaxWire(const BatchLayout& layout);

  // Of the batch as BatchPooling has them: so many positions.
  size_t count(const CompactBatch& batch) const { return batch.batch_size * columns_; }
  // The same as they travel.
  size_t bytes(const CompactBatch& batch) const;
  // What no batch exceeds.
  size_t max_bytes() const;

  // out: bytes() and kArgmaxSlackBytes.
  void Encode(const CompactBatch& batch, std::span<const uint32_t> argmax,
              std::span<std::byte> out) const;

  // Errors: INVALID_ARGUMENT for other than bytes() bytes, or for a position that its sample does
  // not have, naming the feature and what DecodeArgmax names.
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
