#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "data/encoded/bytes.h"

namespace simurgh {

// Numbers in blocks of 64. A block has a byte with the width of its largest number in bits (0 to
// 64), then the numbers in that width, least significant bit first, padded to a byte.
inline constexpr size_t kPackedBlock = 64;

// The size of AppendPacked's output.
size_t PackedBytes(std::span<const uint64_t> numbers);

void AppendPacked(std::span<const uint64_t> numbers, ByteWriter& out);

// Fills `numbers`. False for truncated bytes or a width above 64; numbers are then undefined.
bool ReadPacked(ByteReader& in, std::span<uint64_t> numbers);

}  // namespace simurgh
