#pragma once

#include <cstdint>
#include <span>

namespace simurgh {

// Length of the longest code word, so that decoding reads one table of 16 KB.
inline constexpr int kLongestCode = 11;

// Lengths of an optimal prefix code for symbols that occur `counts` times, none above kLongestCode;
// 0 for symbols that do not occur, and for a single one. Depends on the counts only.
//
// If a length is too long, the counts are halved repeatedly, which costs almost no bits.
// Requires at most 2^kLongestCode symbols, lengths.size() == counts.size().
// Source: Huffman 1952; the halving is bzip2's.
void ChooseCodeLengths(std::span<const uint32_t> counts, std::span<uint8_t> lengths);

// Computes the canonical code of these lengths with reversed bits: a word's first bit is its lowest
// one. False unless the code is complete (every sequence of bits decodes).
bool AssignCodes(std::span<const uint8_t> lengths, std::span<uint16_t> codes);

}  // namespace simurgh
