#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "table/row_index.h"

namespace simurgh {

// Looks for ids in the first buckets of their hashes, fetching buckets ahead. Writes the hashes,
// and to `candidates` the first row whose tag fits, or kNoRow. Returns how many have none there
// but may have one in another bucket, which is on its way then; their positions are in `unsettled`.
//
// Requires at most 65,536 ids, and room for as many results of each kind.
size_t FindAtHome(const RowIndex::Homes& homes, std::span<const uint64_t> ids, uint64_t* hashes,
                  uint32_t* candidates, uint16_t* unsettled);

}  // namespace simurgh
