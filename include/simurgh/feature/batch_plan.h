#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "simurgh/base/status.h"
#include "simurgh/config/table_config.h"
#include "simurgh/data/compact_batch.h"
#include "simurgh/data/pooling.h"
#include "simurgh/feature/bucket_map.h"

namespace simurgh {

// What all batches of a cluster have in common.
struct BatchLayout {
  struct Feature {
    uint32_t table = 0;         // Index of its table.
    uint32_t first_column = 0;  // Of its block in the embedding matrix.
    PoolingRule pooling = {};
  };

  std::vector<Feature> features;     // In the order of the batch.
  std::vector<uint32_t> table_dims;  // By table.

  uint32_t dim(size_t feature) const { return table_dims[features[feature].table]; }
  // Of the feature's block.
  size_t width(size_t feature) const { return features[feature].pooling.width(dim(feature)); }
  size_t embedding_width() const;
  // Of the blocks of features that are pooled by max.
  size_t max_columns() const;
  // Of the vectors that a sample's row of the embedding matrix consists of: one a feature, a raw
  // one has several.
  std::vector<uint32_t> vector_dims() const;
  // By feature.
  std::vector<FeatureRows> rows() const;
};

// The rows of one table that a batch needs from one server.
struct RowGroup {
  uint32_t table = 0;
  uint32_t dim = 0;
  std::vector<uint32_t> counts;                 // (partitions of the server) ids of each partition.
  RowPrecision precision = RowPrecision::kF32;  // Of rows and gradients on their way.
};

// A server's share of a batch: contiguous ranges of the plan's ids and of its row floats.
struct ServerShare {
  std::vector<RowGroup> groups;  // In the order of their tables; only those with ids.
  size_t first_id = 0;
  size_t id_count = 0;
  size_t first_float = 0;
  size_t float_count = 0;
};

// A batch's distinct rows, ordered server by server, there table by table, there partition by
// partition, there by first appearance. A server's ids are thus one segment to send, and its rows
// one segment to receive in place.
struct BatchPlan {
  std::vector<uint64_t> ids;         // (U)
  std::vector<ServerShare> servers;  // (servers of the map)
  std::vector<uint64_t>
      row_positions;      // (ids of the batch) where in the row floats each has its row.
  size_t row_floats = 0;  // Size of the row buffer that goes with this plan.
};

// Memory that planning needs; what it holds afterwards is of no use.
struct PlanScratch {
  // The batch's distinct (table, id) pairs in order of first appearance.
  std::vector<uint64_t> ids;        // (U)
  std::vector<uint32_t> tables;     // (U)
  std::vector<uint32_t> row_of_id;  // (ids of the batch) index into the two above.
  std::vector<absl::flat_hash_map<uint64_t, uint32_t>> seen;  // By table.

  std::vector<uint32_t> keys;        // (U) the group and partition of each row.
  std::vector<uint32_t> counts;      // By key.
  std::vector<uint64_t> next_id;     // By key.
  std::vector<uint64_t> next_float;  // By key.
  std::vector<uint64_t> positions;   // (U)
};

// Whether features that share a list of ids read one table; what a received batch must pass.
// Requires a valid batch with layout.features.size() features.
// Errors: INVALID_ARGUMENT naming the features.
Status CheckLists(const CompactBatch& batch, const BatchLayout& layout);

// Deduplicates a batch across the features that share a table and orders its rows by owner.
// Requires a valid batch with layout.features.size() features that CheckLists accepts.
// Cost: linear in the batch's ids; occurrences are not looked at.
BatchPlan PlanBatch(const CompactBatch& batch, const BatchLayout& layout, const BucketMap& map);

// The same into a plan whose memory, like that of the scratch, is used again.
void PlanBatch(const CompactBatch& batch, const BatchLayout& layout, const BucketMap& map,
               PlanScratch& scratch, BatchPlan& plan);

}  // namespace simurgh
