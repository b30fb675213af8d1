#pragma once

#include <cstdint>
#include <span>

#include "data/id_index.h"
#include "simurgh/data/compact_batch.h"

namespace simurgh {

// Deduplicates the ids of each list in order of first appearance. Sets ids, occurrences and
// unique_ends of a batch with offsets, lists and the number of lists.
//
// ids: (F) the ids of each feature's occurrences. index: scratch.
void NumberIds(std::span<const std::span<const uint64_t>> ids, IdIndex& index, CompactBatch& batch);

}  // namespace simurgh
