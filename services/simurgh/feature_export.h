#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simurgh/base/status.h"
#include "simurgh/config/cluster_config.h"
#include "simurgh/data/batch.h"
#include "simurgh/feature/raw_masks.h"
#include "simurgh/model/tensor_spool.h"

namespace simurgh {

// Samples as a trainer processes them, for a file of tensors. F: a feature's name.
//
//   F.ids      U64 [n]        ids of rows, sample after sample; those of a hash stack after it
//   F.offsets  U64 [N + 1]    sample b has the ids [offsets[b], offsets[b + 1])
//   F.weights  F32 [n]        only of features with a weight_separator or a plug-in
//   dense      F32 [N, D]     scaled, then the masks of raw features; left out without columns
//   labels     F32 [N, T]     0 or 1
//
// Threads: one owner.
class FeatureExport {
 public:
  // config: with fitted statistics. folder: of a temporary file. has_labels: false to leave them
  // out. Errors: of TensorSpool.
  static StatusOr<FeatureExport> Create(const ClusterConfig& config, const std::string& folder,
                                        bool has_labels);

  // Errors: of TensorSpool::Append.
  Status Add(Batch batch);
  TensorSpool& tensors() { return spool_; }
  uint64_t samples() const { return samples_; }

 private:
  struct Feature {
    size_t ids;  // Index of its first tensor; offsets and weights follow.
    bool has_weights;
    uint64_t occurrences = 0;
  };

  FeatureExport(const ClusterConfig& config, TensorSpool spool, std::vector<Feature> features,
                size_t dense)
      : masks_(config.features),
        spool_(std::move(spool)),
        features_(std::move(features)),
        dense_(dense) {}

  RawMasks masks_;
  TensorSpool spool_;
  std::vector<Feature> features_;
  size_t dense_;  // Index of the tensor; labels follow.
  bool has_dense_ = false;
  bool has_labels_ = false;
  uint64_t samples_ = 0;
};

}  // namespace simurgh
