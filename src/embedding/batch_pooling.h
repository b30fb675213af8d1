#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "embedding/batch_calls.h"
#include "embedding/batch_plan.h"
#include "embedding/batch_pool.h"
#include "embedding/pooling.h"
#include "embedding/vector_codec.h"
#include "tensor/matrix_view.h"

namespace simurgh {

// Pools a batch's features into encoded embeddings and un-pools their gradients. Works on a few
// samples at a time, so that pooling and encoding share the processor's cache.
//
// Threads: immutable; any.
class BatchPooling {
 public:
  explicit BatchPooling(const BatchLayout& layout);

  // Bytes of one sample.
  size_t row_bytes(VectorPrecision precision) const { return CodeOf(precision).row_bytes(); }

  // rows: of the batch's plan. argmax: (B * D) of each max-pooled feature, in feature order; empty
  // for an evaluation. Requires embeddings.bytes of the batch's size.
  void Pool(const BufferedBatch& batch, std::span<const float> rows,
            const EmbeddingBuffer& embeddings, std::span<uint32_t> argmax) const;

  // The adjoint, divided by the gradients' scale. Overwrites row_gradients, of the batch's plan.
  // Each row's sum starts at zero and adds by sample, then feature, then occurrence. Returns the
  // dropped features, which contribute nothing: those whose gradient holds NaN or infinity, and
  // those with a row whose sum overflows. Gradients that are those of rows are only put in the
  // plan's order; one that is not finite drops all features of its list. Requires gradients.bytes
  // of the batch's size.
  std::vector<size_t> Unpool(const BufferedBatch& batch, const GradientBuffer& gradients,
                             std::span<uint32_t> argmax, std::span<float> row_gradients) const;

 private:
  const VectorCodec& CodeOf(VectorPrecision precision) const {
    return codecs_[static_cast<size_t>(precision)];
  }
  // Returns the inputs of Pool and Unpool, one per feature.
  std::vector<PoolingInput> InputsOf(const BufferedBatch& batch, std::span<uint32_t> argmax) const;
  // Calls visit(first sample, gradients of samples) for all samples.
  template <typename Visit>
  void ForGradients(const BufferedBatch& batch, const GradientBuffer& gradients,
                    const Visit& visit) const;
  // Overwrites row_gradients with the inputs' sums. Returns false if a gradient or sum is not
  // finite.
  bool Add(const BufferedBatch& batch, const GradientBuffer& gradients,
           std::span<const PoolingInput> inputs, std::span<float> row_gradients) const;
  // Unpool, if the gradients are those of the batch's rows.
  std::vector<size_t> PlaceRows(const BufferedBatch& batch, std::span<const float> gradients,
                                std::span<float> row_gradients) const;

  const BatchLayout layout_;
  const std::vector<VectorCodec> codecs_;  // Indexed by VectorPrecision.
  std::vector<size_t> argmax_columns_;     // Indexed by feature: its first argmax column.
};

}  // namespace simurgh
