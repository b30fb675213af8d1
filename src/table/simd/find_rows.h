#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "table/row_index.h"

namespace simurgh {

// Searches the home bucket of each id. Writes the hashes, and to `candidates` the first row whose
// tag matches, or kNoRow. Writes to `unsettled` the positions of ids that may be in another bucket,
// which it prefetches, and returns their number.
//
// Requires at most 65,536 ids and results of the same size.
size_t FindAtHome(const RowIndex::Homes& homes, std::span<const uint64_t> ids, uint64_t* hashes,
                  uint32_t* candidates, uint16_t* unsettled);

}  // namespace simurgh
