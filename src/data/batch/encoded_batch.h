#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/status.h"
#include "data/batch/batch.h"

namespace simurgh {

// Upper bound on the bytes of codes that a daemon accepts: far more than 26 bits and a weight for
// each occurrence, 25 bits for each cell, and 14 bytes for each feature.
inline constexpr size_t kMaxBatchCodeBytes = size_t{400} << 20;

// A CompactBatch in its wire format: the distinct ids, and a stream of bits. An occurrence of a new
// id is one bit; any other is an index in the bits that the number of ids so far takes.
// src/data/batch/COMPACT_BATCH.md describes the layout.
struct EncodedBatch {
  std::vector<uint64_t> plain_ids;  // Ids, list after list.
  std::vector<std::byte> codes;     // Everything else, as bits.

  size_t byte_size() const { return plain_ids.size() * sizeof(uint64_t) + codes.size(); }
};

// Encodes a batch from BatchBuilder. Cost: about 4 ns an occurrence.
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

  size_t bytes() const;  // Returns the memory of the arrays.
};

// Returns the sizes in the batch's head, an upper bound on what DecodeBatch allocates; those of a
// valid batch are exact, but it may have no weights. cluster_features: required number of features,
// which bounds the work a peer can cause; none: any number. Cost: a few ns. Errors: those of
// DecodeBatch, which rejects a batch that contradicts its head.
StatusOr<BatchSizes> DecodedSizes(const EncodedBatch& encoded,
                                  std::optional<size_t> cluster_features = {});

// Decodes a batch; the result is valid for any input bytes.
// cluster_features: see DecodedSizes.
//
// Cost: about 5 ns an occurrence; `plain_ids` becomes the batch's ids.
// Memory: at most DecodedSizes, within the limits of a batch. n bytes decode to at most 8 * n
// occurrences and max(64 * n, kMaxBatchOccurrences) cells.
// Errors: INVALID_ARGUMENT naming the list or feature, the byte, the fault and the limit.
StatusOr<CompactBatch> DecodeBatch(EncodedBatch encoded,
                                   std::optional<size_t> cluster_features = {});

// Decodes into `batch` and reuses its memory; swaps buffers with `encoded`. After an error
// `batch` is invalid.
Status DecodeBatch(EncodedBatch& encoded, CompactBatch& batch,
                   std::optional<size_t> cluster_features = {});

}  // namespace simurgh
