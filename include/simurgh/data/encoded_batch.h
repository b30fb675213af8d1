#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "simurgh/base/status.h"
#include "simurgh/data/compact_batch.h"

namespace simurgh {

// The most bytes of codes that a batch within the limits can need: of an occurrence 31 bits and a
// weight, of a cell a length of 24 bits, ids as differences.
inline constexpr size_t kMaxBatchCodeBytes = size_t{400} << 20;

// A CompactBatch in the bytes that travel: unique ids plain or as differences, whichever is fewer
// bytes, list by list; per occurrence a prefix code of its id's number. Or, where that is fewer
// bytes, as of a few samples, the ids of all occurrences as they are. src/data/COMPACT_BATCH.md has
// the layout and what it costs.
struct EncodedBatch {
  std::vector<uint64_t> plain_ids;  // Of the lists that are smallest plain, or of all occurrences.
  std::vector<std::byte> codes;     // Everything else.

  size_t byte_size() const { return plain_ids.size() * sizeof(uint64_t) + codes.size(); }
};

// Encodes a batch as BatchBuilder makes them.
//
// A list that has an id twice may come back with it once.
// Cost: two passes over occurrences and ids; about 10 ns an occurrence.
// Errors: INVALID_ARGUMENT for a batch that Validate refuses, or whose ids do not lie in the order
// of their first appearance, or of more than kMaxBatchOccurrences cells with next to no ids.
StatusOr<EncodedBatch> EncodeBatch(const CompactBatch& batch);

// How many elements the arrays of a CompactBatch have.
struct BatchSizes {
  size_t ids = 0;
  size_t occurrences = 0;
  size_t offsets = 0;
  size_t unique_ends = 0;
  size_t lists = 0;
  size_t weights = 0;

  size_t bytes() const;  // Of memory.
};

// What DecodeBatch makes of it at most, and takes memory for, as its head says: all but the number
// of distinct ids of a bare batch is exact. Known before there is any memory.
// cluster_features: how many features a batch must have, so that a peer's bytes ask for no more
// work than these; none: any number.
// Cost: a few ns, and 20 bytes of memory, a feature; nothing for a wrong number of them.
// Errors: INVALID_ARGUMENT as of DecodeBatch, which refuses a batch that belies its head.
StatusOr<BatchSizes> DecodedSizes(const EncodedBatch& encoded,
                                  std::optional<size_t> cluster_features = {});

// The batch that was encoded, valid whatever the bytes were. Weights that are all 1 come back as
// none at all. cluster_features: as above.
//
// Cost: some 5 ns an occurrence; a batch whose lists are all plain keeps `plain_ids` as its ids.
// Memory: of DecodedSizes, within the limits of a batch, and of n bytes at most 64 * n occurrences,
// 64 * n ids, and 64 * n or kMaxBatchOccurrences cells, whichever is more.
// Errors: INVALID_ARGUMENT naming the list or feature, the byte, what is wrong and the limit.
StatusOr<CompactBatch> DecodeBatch(EncodedBatch encoded,
                                   std::optional<size_t> cluster_features = {});

// The same into `batch`, whose memory is used again. `encoded` is left with memory of either;
// after an error `batch` is not valid.
Status DecodeBatch(EncodedBatch& encoded, CompactBatch& batch,
                   std::optional<size_t> cluster_features = {});

}  // namespace simurgh
