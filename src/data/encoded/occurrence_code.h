#pragma once

#include <cstdint>
#include <span>

#include "data/encoded/bytes.h"
#include "simurgh/base/status.h"

namespace simurgh {

// Encodes the indexes of a feature's occurrences into its list of ids.
//
// Ids are in order of first appearance. An occurrence has either the next id, which needs no index,
// or an earlier one. Frequent ids appear early and so have small indexes. An index counts the ids
// of this feature, in order of their first appearance in it, so that features that share a list
// have small indexes for their own frequent ids.
//
// Symbols, listed in src/data/COMPACT_BATCH.md, have a prefix code by frequency. A single symbol
// takes no bits.
//
// seen: number of ids of the list in earlier features; updated.
// Errors: INVALID_ARGUMENT for an occurrence of an id that has not appeared and is not the next.
Status EncodeOccurrences(std::span<const uint32_t> occurrences, uint32_t& seen, ByteWriter& out);

// Errors: INVALID_ARGUMENT.
Status DecodeOccurrences(ByteReader& in, uint32_t& seen, std::span<uint32_t> occurrences);

}  // namespace simurgh
