#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "data/encoded/bytes.h"

namespace simurgh {

// Numbers in blocks of 64, each in the fewest bits that its largest needs: per block a byte that
// says how many (0 to 64), then the numbers, least significant bit first, filled up to a byte.
inline constexpr size_t kPackedBlock = 64;

// What AppendPacked would write.
size_t PackedBytes(std::span<const uint64_t> numbers);

void AppendPacked(std::span<const uint64_t> numbers, ByteWriter& out);

// Fills `numbers`. False for bytes that end early or a width above 64; numbers are then undefined.
bool ReadPacked(ByteReader& in, std::span<uint64_t> numbers);

}  // namespace simurgh
