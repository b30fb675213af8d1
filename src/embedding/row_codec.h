#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"

#include "data/batch/batch.h"
#include "embedding/pooling.h"
#include "embedding/vector_codec.h"

namespace simurgh {

// Encodes a batch's rows for an nn-worker that pools them: one VectorCodec vector for each of the
// batch's ids, list after list. Gradients of rows are in the same order, in f32.
//
// Requires: batches have the features of the constructor.
// Threads: immutable.
class RowCodec {
 public:
  // features: in the order of the batch. Those that share a list have rows of one dim.
  RowCodec(VectorPrecision precision, const std::vector<FeatureRows>& features);

  VectorPrecision precision() const { return precision_; }
  const std::vector<FeatureRows>& features() const { return features_; }
  // Returns the codec of one row of the feature.
  const VectorCodec& codec(size_t feature) const { return codecs_[feature]; }

  // Calls visit(id, codec of its row) for all ids of a batch, in order.
  template <typename Visit>
  void ForEachId(const CompactBatch& batch, Visit visit) const {
    const std::vector<size_t> feature_of = FeaturesOfLists(batch);
    size_t id = 0;
    for (size_t list = 0; list < batch.list_count(); ++list) {
      const VectorCodec& row = codec(feature_of[list]);
      for (size_t ids = batch.list(list).size(); ids > 0; --ids) visit(id++, row);
    }
  }

  // Returns the size of the encoded rows of a batch.
  size_t bytes(const CompactBatch& batch) const;
  // Returns the numbers of the rows of a batch.
  size_t floats(const CompactBatch& batch) const;

  // row_positions: (ids) where each id's row begins in `rows`. encoded: bytes(batch), aligned to 4.
  void Encode(const CompactBatch& batch, std::span<const float> rows,
              std::span<const uint64_t> row_positions, std::span<std::byte> encoded) const;

  // The features of a batch, whose rows lie side by side in the order of its ids. Has no copies:
  // they would refer to the original.
  struct Inputs {
    Inputs() = default;
    Inputs(Inputs&&) = default;
    Inputs& operator=(Inputs&&) = default;

    std::vector<uint64_t> positions;   // (ids) first float of each row.
    size_t floats = 0;                 // Size of all rows.
    std::vector<PoolingInput> inputs;  // (features) in order of lists, then features.
    std::vector<size_t> list_ends;     // (lists) end of each list's inputs.
  };
  Inputs InputsOf(const CompactBatch& batch) const;

  // Pools the rows of Encode as simurgh::Pool does, features side by side. pooled: (B, sum of
  // widths), overwritten. for_each_part: calls work(first, end), concurrently or not, for parts of
  // [0, count) of about `least` elements or more. Requires no feature pooled by max.
  using ForEachPart = absl::FunctionRef<void(size_t count, size_t least,
                                             absl::FunctionRef<void(size_t, size_t)> work)>;
  void Pool(const CompactBatch& batch, std::span<const std::byte> encoded, MatrixView<float> pooled,
            ForEachPart for_each_part) const;

  // The adjoint: sums the gradients of pooled vectors to those of rows, as simurgh::Unpool does.
  // gradients: (B, sum of widths). row_gradients: (floats of InputsOf), overwritten. Requires no
  // feature pooled by max.
  void Unpool(const CompactBatch& batch, MatrixView<const float> gradients,
              std::span<float> row_gradients, ForEachPart for_each_part) const;
  // Adds those of the samples from `first` on, and of the lists in [first_list, end_list).
  static void AddGradients(const Inputs& all, size_t first_list, size_t end_list, size_t first,
                           MatrixView<const float> gradients, std::span<float> row_gradients);

 private:
  // Decodes the rows of the ids in [first, end).
  void Decode(const CompactBatch& batch, std::span<const std::byte> encoded,
              std::span<const uint64_t> positions, size_t first, size_t end,
              std::span<float> numbers) const;
  // Returns a feature of each list.
  std::vector<size_t> FeaturesOfLists(const CompactBatch& batch) const;

  VectorPrecision precision_;
  std::vector<FeatureRows> features_;
  std::vector<VectorCodec> codecs_;  // The codec of one row, indexed by feature.
};

// Returns whether a batch is sent as rows. rows: the codec of wire.rows.
inline bool SendsRows(const EmbeddingWire& wire, const RowCodec& rows, const CompactBatch& batch,
                      size_t pooled_bytes) {
  return !rows.features().empty() && (!wire.smaller || rows.bytes(batch) < pooled_bytes);
}

// Returns whether the gradients of a batch that is sent as rows are those of its rows: where that
// has the same numbers and is fewer bytes. rows: the codec of wire.rows.
bool SendsRowGradients(const EmbeddingWire& wire, const RowCodec& rows, const CompactBatch& batch,
                       size_t pooled_bytes);

}  // namespace simurgh
