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
// Symbols: "the next id"; indexes below 64, one each; above, pairs of ranges to each power of two,
// whose symbol is followed by the index's place in its range as it is. Symbols get a prefix code by
// how often they occur; a symbol that is alone takes no bits.
//
// seen: ids of the list that had appeared before; updated.
// Errors: INVALID_ARGUMENT for an occurrence of an id that has not appeared and is not the next.
Status EncodeOccurrences(std::span<const uint32_t> occurrences, uint32_t& seen, ByteWriter& out);

// Errors: INVALID_ARGUMENT.
Status DecodeOccurrences(ByteReader& in, uint32_t& seen, std::span<uint32_t> occurrences);

}  // namespace simurgh
