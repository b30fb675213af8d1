#pragma once

#include <cstdint>
#include <span>

#include "data/encoded/bytes.h"
#include "simurgh/base/status.h"

namespace simurgh {

// The indexes of a feature's occurrences into its list of ids.
//
// Ids lie in the order of first appearance, so an occurrence is either of the next id, which needs
// no index, or of one before. What comes often comes early, so small indexes are the frequent ones.
// An id's index is its number among those of this feature, in the order of their first appearance
// here: features that share a list have small indexes for what is frequent in each.
//
// Symbols: "the next id of the list"; "an id that features before have", when it first occurs here,
// followed by its number in the list; indexes below 64, one each; above, pairs of ranges to each
// power of two, whose symbol is followed by the index's place in its range as it is. Symbols get a
// prefix code by how often they occur; a symbol that is alone takes no bits.
//
// seen: ids of the list that features before have; updated.
// Errors: INVALID_ARGUMENT for an occurrence of an id that has not appeared and is not the next.
Status EncodeOccurrences(std::span<const uint32_t> occurrences, uint32_t& seen, ByteWriter& out);

// Errors: INVALID_ARGUMENT.
Status DecodeOccurrences(ByteReader& in, uint32_t& seen, std::span<uint32_t> occurrences);

}  // namespace simurgh
