#pragma once

#include <cstdint>
#include <span>

#include "data/encoded/bytes.h"
#include "simurgh/base/status.h"

namespace simurgh {

// Encodes the number of ids of each sample in one feature: the most common length and the samples
// with another one, or all lengths if that is shorter. One id per sample takes three bytes.
//
// offsets: (B + 1) ascending.
void EncodeSampleLengths(std::span<const uint32_t> offsets, ByteWriter& out);

// Fills all offsets but the first, which the caller sets.
// Errors: INVALID_ARGUMENT, also when the last would exceed kMaxBatchOccurrences.
Status DecodeSampleLengths(ByteReader& in, std::span<uint32_t> offsets);

}  // namespace simurgh
