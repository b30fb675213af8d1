#pragma once

#include <cstdint>
#include <span>

#include "data/encoded/bytes.h"
#include "simurgh/base/status.h"

namespace simurgh {

// How many ids each sample has of one feature. Written as the length that most have and the samples
// that have another, or, where that is fewer bytes, as one length after the other. A feature of one
// id each takes three bytes.
//
// offsets: (B + 1) ascending.
void EncodeSampleLengths(std::span<const uint32_t> offsets, ByteWriter& out);

// Fills offsets behind the first, which is given.
// Errors: INVALID_ARGUMENT, also when the last would exceed kMaxBatchOccurrences.
Status DecodeSampleLengths(ByteReader& in, std::span<uint32_t> offsets);

}  // namespace simurgh
