#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "base/status.h"
#include "config/cluster_config.h"
#include "config/table_config.h"
#include "data/batch/batch.h"
#include "embedding/bucket_map.h"
#include "embedding/pooling.h"
#include "embedding/row_groups.h"
#include "embedding/vector_codec.h"

namespace simurgh {

// The properties that all batches of a cluster share.
struct BatchLayout {
  struct Feature {
    uint32_t table = 0;
    uint32_t first_column = 0;  // First column of the feature's block in the embedding matrix.
    PoolingRule pooling = {};
  };

  std::vector<Feature> features;
  std::vector<uint32_t> table_dims;

  uint32_t dim(size_t feature) const { return table_dims[features[feature].table]; }
  // Width of the feature's block.
  size_t width(size_t feature) const { return features[feature].pooling.width(dim(feature)); }
  size_t embedding_width() const;
  // Columns of features that are pooled by max.
  size_t max_columns() const;
  // Dims of the vectors of a sample: several of a raw feature, one of any other.
  std::vector<uint32_t> vector_dims() const;
  std::vector<FeatureRows> rows() const;
};

BatchLayout LayoutOf(const ClusterConfig& config);

// The configured encoding of embeddings and gradients.
EmbeddingWire WireOf(const ClusterConfig& config);

// A server's share of a batch: contiguous ranges of the plan's ids and of its row floats.
struct ServerShare {
  std::vector<RowGroup> groups;  // In order of tables; only tables with ids.
  size_t first_id = 0;
  size_t id_count = 0;
  size_t first_float = 0;
  size_t float_count = 0;
};

// A batch's distinct rows, ordered by server, table, partition and first appearance. A server's ids
// are thus one segment to send, and its rows one segment to receive in place.
struct BatchPlan {
  std::vector<uint64_t> ids;            // (U)
  std::vector<ServerShare> servers;     // (servers of the map)
  std::vector<uint64_t> row_positions;  // (ids of the batch) first float of each id's row.
  size_t row_floats = 0;                // Size of the row buffer.
};

// Memory for planning. Its content afterwards is unspecified.
struct PlanScratch {
  // The batch's distinct (table, id) pairs in order of first appearance.
  std::vector<uint64_t> ids;        // (U)
  std::vector<uint32_t> tables;     // (U)
  std::vector<uint32_t> row_of_id;  // (ids of the batch) index into `ids` and `tables`.
  // For each table with several lists: the index of each id in `ids`.
  std::vector<absl::flat_hash_map<uint64_t, uint32_t>> seen;

  std::vector<uint32_t> keys;        // (U) Number of each row's (server, table, partition).
  std::vector<uint32_t> counts;      // Number of rows, indexed by key.
  std::vector<uint64_t> next_id;     // Place of the next id, indexed by key.
  std::vector<uint64_t> next_float;  // Place of the next row, indexed by key.
  std::vector<uint64_t> positions;   // (U)
};

// Checks that features that share a list of ids read one table. Requires a valid batch with
// layout.features.size() features. Errors: INVALID_ARGUMENT naming the features.
Status CheckLists(const CompactBatch& batch, const BatchLayout& layout);

// Deduplicates a batch across the features that share a table and orders its rows by owner. Reuses
// the memory of `scratch` and `plan`.
// Requires a valid batch with layout.features.size() features that CheckLists accepts.
// Cost: linear in the batch's ids; reads no occurrences.
void PlanBatch(const CompactBatch& batch, const BatchLayout& layout, const BucketMap& map,
               PlanScratch& scratch, BatchPlan& plan);

}  // namespace simurgh
