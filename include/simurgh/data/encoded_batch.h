#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "simurgh/base/status.h"
#include "simurgh/data/compact_batch.h"

namespace simurgh {

// Upper bound on the bytes of codes of a valid batch: 31 bits and a weight for each occurrence,
// a 24-bit length for each cell, ids as differences.
inline constexpr size_t kMaxBatchCodeBytes = size_t{400} << 20;

// A CompactBatch in its wire format. Each list's unique ids are plain or differences, whichever is
// smaller; each occurrence is a prefix code of its id's index. If smaller, as for a few samples,
// the ids of all occurrences are stored bare. src/data/COMPACT_BATCH.md describes the layout.
struct EncodedBatch {
  std::vector<uint64_t> plain_ids;  // Ids of lists that are smallest plain, or of all occurrences.
  std::vector<std::byte> codes;     // Everything else.

  size_t byte_size() const { return plain_ids.size() * sizeof(uint64_t) + codes.size(); }
};

// Encodes a batch from BatchBuilder. Decoding may remove duplicates from a list of ids.
// Cost: two passes over occurrences and ids; about 10 ns an occurrence.
// Errors: INVALID_ARGUMENT for a batch that Validate rejects, ids out of the order of first
// appearance, or more than kMaxBatchOccurrences cells with almost no ids.
StatusOr<EncodedBatch> EncodeBatch(const CompactBatch& batch);

// Element counts of a CompactBatch's arrays.
struct BatchSizes {
  size_t ids = 0;
  size_t occurrences = 0;
  size_t offsets = 0;
  size_t unique_ends = 0;
  size_t lists = 0;
  size_t weights = 0;

  size_t bytes() const;  // Memory of the arrays.
};

// Returns the sizes in the batch's head, an upper bound on what DecodeBatch allocates. All are
// exact except the number of distinct ids of a bare batch. cluster_features: required number of
// features, which bounds the work a peer can cause; none: any number. Cost: a few ns and 20 bytes
// for each feature; none if their number is wrong. Errors: INVALID_ARGUMENT as DecodeBatch, which
// rejects a batch that contradicts its head.
StatusOr<BatchSizes> DecodedSizes(const EncodedBatch& encoded,
                                  std::optional<size_t> cluster_features = {});

// Decodes a batch; the result is valid for any input bytes. Weights that are all 1 are dropped.
// cluster_features: as above.
//
// Cost: about 5 ns an occurrence; if all lists are plain, `plain_ids` becomes the batch's ids.
// Memory: as DecodedSizes, within the limits of a batch. n bytes decode to at most 64 * n
// occurrences, 64 * n ids, and max(64 * n, kMaxBatchOccurrences) cells.
// Errors: INVALID_ARGUMENT naming the list or feature, the byte, the fault and the limit.
StatusOr<CompactBatch> DecodeBatch(EncodedBatch encoded,
                                   std::optional<size_t> cluster_features = {});

// Decodes into `batch` and reuses its memory; may swap buffers with `encoded`. After an error
// `batch` is invalid.
Status DecodeBatch(EncodedBatch& encoded, CompactBatch& batch,
                   std::optional<size_t> cluster_features = {});

}  // namespace simurgh
