#pragma once

#include <cstdint>
#include <span>

#include "data/id_index.h"
#include "simurgh/data/compact_batch.h"

namespace simurgh {

// Deduplicates the ids of each list, in the order of their first appearance: fills ids, occurrences
// and unique_ends of a batch whose offsets, lists and number of lists are given.
//
// ids: (F) those of each feature's occurrences, as many as its offsets say.
// index: scratch.
void NumberIds(std::span<const std::span<const uint64_t>> ids, IdIndex& index, CompactBatch& batch);

}  // namespace simurgh
