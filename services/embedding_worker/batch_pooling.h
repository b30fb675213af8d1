#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "services/api/vector_wire.h"
#include "services/embedding_worker/batch_pool.h"
#include "simurgh/data/pooling.h"
#include "simurgh/data/vector_codec.h"
#include "simurgh/feature/batch_plan.h"
#include "simurgh/tensor/matrix_view.h"

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

  // rows: of the batch's plan. argmax: (B * D) of each feature pooled by max, in their order; or
  // empty, where nobody will un-pool. Requires target.bytes of the batch's size.
  void Pool(const BufferedBatch& batch, std::span<const float> rows, const EmbeddingBuffer& target,
            std::span<uint32_t> argmax) const;

  // The adjoint, divided by the gradients' scale: row_gradients, of the batch's plan, are
  // overwritten. What is given to a row is added up one by one, from zero on: by sample, in a
  // sample by feature, in a feature by occurrence. Returns the features that leave their rows
  // nothing: those whose gradient held NaN or infinity, and those that have a row whose sum is
  // beyond all finite numbers. Requires gradients.bytes of the batch's size.
  std::vector<size_t> Unpool(const BufferedBatch& batch, const GradientBuffer& gradients,
                             std::span<const uint32_t> argmax,
                             std::span<float> row_gradients) const;

 private:
  const VectorCodec& CodeOf(VectorPrecision precision) const {
    return codes_[static_cast<size_t>(precision)];
  }
  // By feature.
  std::vector<PoolingInput> InputsOf(const BufferedBatch& batch) const;
  // A feature's part of the argmax of `samples` samples.
  template <typename T>
  std::span<T> ArgmaxOf(std::span<T> argmax, size_t feature, size_t batch_size, size_t first_sample,
                        size_t samples) const;
  // What is un-pooled, table after table: only features of one table have rows in common.
  struct Tables {
    std::vector<UnpoolingInput> inputs;
    std::vector<size_t> features;  // Of the inputs.
    std::vector<size_t> ends;      // Of each table in the above.
  };
  Tables TablesOf(const BufferedBatch& batch, const std::vector<bool>& dropped) const;

  // Adds what all features give that are not `dropped`, where those are dropped that turn out not
  // to be finite. Returns whether that was none.
  bool AddAll(const BufferedBatch& batch, const GradientBuffer& gradients,
              std::span<const uint32_t> argmax, std::vector<bool>& dropped,
              std::span<float> row_gradients) const;
  // Of a few samples, whose gradients are `numbers`: drops what is not finite, and returns whether
  // that was none; adds what all tables give.
  bool DropNotFinite(MatrixView<const float> numbers, std::vector<bool>& dropped) const;
  void AddSamples(Tables& tables, size_t batch_size, size_t first_sample,
                  MatrixView<const float> numbers, std::span<const uint32_t> argmax,
                  std::span<float> row_gradients) const;
  // Drops the features that have a row whose gradients add up to more than any finite number.
  // Returns whether that was none.
  bool DropOverflows(const BufferedBatch& batch, std::span<const float> row_gradients,
                     std::vector<bool>& dropped) const;
  // A feature's columns of `numbers`.
  template <typename T>
  MatrixView<T> BlockOf(MatrixView<T> numbers, size_t feature) const {
    return numbers.Columns(layout_.features[feature].first_column, layout_.width(feature));
  }

  const BatchLayout layout_;
  const std::vector<VectorCodec> codes_;  // By precision.
  std::vector<size_t> argmax_columns_;    // By feature: of those before it.
  std::vector<std::vector<size_t>> features_of_tables_;
};

}  // namespace simurgh
