#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/encoded/bytes.h"
#include "simurgh/base/status.h"
#include "simurgh/data/compact_batch.h"

namespace simurgh {

// The bare form: the id of every occurrence as it is, and next to nothing of a feature. It is the
// smaller one where a feature has few ids and they hardly repeat, as in batches of a few samples.

// ids: of all occurrences, overwritten. out: the rest, but the head.
void EncodeBare(const CompactBatch& batch, std::vector<uint64_t>& ids, ByteWriter& out);

// Numbers the ids and fills all of `batch` but batch_size, lists and the size of unique_ends, which
// are given.
// ids: of all occurrences.
// Errors: INVALID_ARGUMENT.
Status DecodeBare(std::span<const uint64_t> ids, bool weighted, ByteReader& in,
                  CompactBatch& batch);

}  // namespace simurgh
