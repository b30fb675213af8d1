#pragma once

#include <cstdint>
#include <span>

namespace simurgh {

// Longest code word: decoding then takes one look into a table of 16 KB.
inline constexpr int kLongestCode = 11;

// Lengths of an optimal prefix code for symbols that occur `counts` times, none above kLongestCode;
// 0 for those that do not occur, and for one that is alone. Determined by the counts.
//
// Where a length would be too long the counts are halved until it is not, which costs next to
// nothing in bits. Requires at most 2^kLongestCode symbols, lengths.size() == counts.size().
// Source: Huffman 1952; the halving is bzip2's.
void ChooseCodeLengths(std::span<const uint32_t> counts, std::span<uint8_t> lengths);

// The words of the canonical code of these lengths, bits reversed: a word is read from its first,
// lowest bit. False unless the code is complete (every sequence of bits means something).
bool AssignCodes(std::span<const uint8_t> lengths, std::span<uint16_t> codes);

}  // namespace simurgh
