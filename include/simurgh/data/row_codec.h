#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"

#include "simurgh/data/compact_batch.h"
#include "simurgh/data/pooling.h"
#include "simurgh/data/vector_codec.h"

namespace simurgh {

// A batch's rows as bytes, as they travel to a nn-worker that pools them: one for each of the
// batch's ids, in their order, list after list, each a vector as VectorCodec has it. Without those
// that the nn-worker says are there already: `here`, a bit an id, as KeptRows has it, or none.
//
// All take a batch of so many features.
// Threads: immutable.
class RowCodec {
 public:
  // features: in the order of the batch. Those that share a list have rows of one dim.
  RowCodec(VectorPrecision precision, const std::vector<FeatureRows>& features);

  VectorPrecision precision() const { return precision_; }
  const std::vector<FeatureRows>& features() const { return features_; }
  // Of one of the feature's rows.
  const VectorCodec& code(size_t feature) const { return codes_[feature]; }
  // A slot has room for any row.
  size_t slot_bytes() const;

  // Calls visit(id, its row's code) for all ids of a batch, in their order.
  template <typename Visit>
  void ForEachId(const CompactBatch& batch, Visit visit) const {
    const std::vector<size_t> feature_of = FeaturesOfLists(batch);
    size_t id = 0;
    for (size_t list = 0; list < batch.list_count(); ++list) {
      const VectorCodec& row = code(feature_of[list]);
      for (size_t ids = batch.list(list).size(); ids > 0; --ids) visit(id++, row);
    }
  }

  // Of a batch's rows. Cost: that of counting bits.
  size_t bytes(const CompactBatch& batch, std::span<const uint64_t> here = {}) const;
  // (ids) where the row of each begins that comes; of the others 0.
  std::vector<uint64_t> Destinations(const CompactBatch& batch,
                                     std::span<const uint64_t> here = {}) const;

  // rows: row_positions tell where each id's begins. coded: bytes(batch, here), at a multiple of 4.
  void Encode(const CompactBatch& batch, std::span<const float> rows,
              std::span<const uint64_t> row_positions, std::span<const uint64_t> here,
              std::span<std::byte> coded) const;

  // Pools coded rows: every feature's block side by side, as simurgh::Pool of the same numbers.
  // rows: (ids) where each begins. pooled: (B, sum of widths), overwritten. for_each_part: calls
  // work(first, end) for parts that make up [0, count), each about `least` long at least, several
  // at a time if it likes: the result is the same. Requires no feature pooled by max.
  using ForEachPart = absl::FunctionRef<void(size_t count, size_t least,
                                             absl::FunctionRef<void(size_t, size_t)> work)>;
  void Pool(const CompactBatch& batch, std::span<const std::byte* const> rows,
            MatrixView<float> pooled, ForEachPart for_each_part) const;
  // In one part.
  void Pool(const CompactBatch& batch, std::span<const std::byte* const> rows,
            MatrixView<float> pooled) const;

 private:
  // Of the ids in [first, end).
  void Decode(const CompactBatch& batch, std::span<const std::byte* const> rows,
              std::span<const uint64_t> positions, size_t first, size_t end,
              std::span<float> numbers) const;
  // One that has the list, for each.
  std::vector<size_t> FeaturesOfLists(const CompactBatch& batch) const;

  VectorPrecision precision_;
  std::vector<FeatureRows> features_;
  std::vector<VectorCodec> codes_;  // By feature: of one row.
};

}  // namespace simurgh
