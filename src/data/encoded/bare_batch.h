#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/encoded/bytes.h"
#include "simurgh/base/status.h"
#include "simurgh/data/compact_batch.h"

namespace simurgh {

// The bare form: the plain id of every occurrence, and almost no bytes per feature. It is smaller
// if features have few ids that rarely repeat, as in batches of a few samples.

// ids: those of all occurrences, overwritten. out: the rest, except the head.
void EncodeBare(const CompactBatch& batch, std::vector<uint64_t>& ids, ByteWriter& out);

// Numbers the ids and fills `batch`, of which the caller sets batch_size, lists and the size of
// unique_ends. ids: those of all occurrences.
// Errors: INVALID_ARGUMENT.
Status DecodeBare(std::span<const uint64_t> ids, bool weighted, ByteReader& in,
                  CompactBatch& batch);

}  // namespace simurgh
