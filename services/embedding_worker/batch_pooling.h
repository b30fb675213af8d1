#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "services/api/vector_wire.h"
#include "services/embedding_worker/batch_pool.h"
#include "simurgh/data/vector_code.h"
#include "simurgh/feature/batch_plan.h"

namespace simurgh {

// Pools all features of a batch into the bytes that travel, and un-pools what comes back, some
// samples at a time, so that a sample's numbers pass through the processor's cache once.
//
// Threads: immutable; any.
class BatchPooling {
 public:
  explicit BatchPooling(const BatchLayout& layout);

  // Bytes of a sample in this precision.
  size_t row_bytes(VectorPrecision precision) const { return CodeOf(precision).row_bytes(); }

  // rows: of the batch's plan. maxima: (B * D) of each feature pooled by max, in their order.
  // Requires target.bytes of the batch's size.
  void Pool(const BufferedBatch& batch, std::span<const float> rows, const EmbeddingTarget& target,
            std::span<uint32_t> maxima) const;

  // The adjoint, divided by the gradients' scale: row_gradients, of the batch's plan, are
  // overwritten. Gradients of a row are added in an order that the batch
  // alone decides: 16 samples at a time, of these by feature, and then by sample.
  // Returns the features whose gradient held NaN or infinity: they leave their rows nothing.
  // Requires gradients.bytes of the batch's size.
  std::vector<size_t> Unpool(const BufferedBatch& batch, const GradientSource& gradients,
                             std::span<const uint32_t> maxima,
                             std::span<float> row_gradients) const;

 private:
  const VectorCode& CodeOf(VectorPrecision precision) const {
    return codes_[static_cast<size_t>(precision)];
  }
  PoolingInput InputOf(const BufferedBatch& batch, size_t feature) const;
  // A feature's part of the maxima of `samples` samples.
  template <typename T>
  std::span<T> MaximaOf(std::span<T> maxima, size_t feature, size_t batch_size, size_t first_sample,
                        size_t samples) const;
  // Adds what all features give that are not `dropped`, where those are dropped that turn out not
  // to be finite. Returns whether that was none.
  bool AddAll(const BufferedBatch& batch, const GradientSource& gradients,
              std::span<const uint32_t> maxima, std::vector<bool>& dropped,
              std::span<float> row_gradients) const;

  const BatchLayout layout_;
  const std::vector<VectorCode> codes_;  // By precision.
  std::vector<size_t> maxima_columns_;   // By feature: of those before it.
};

}  // namespace simurgh
