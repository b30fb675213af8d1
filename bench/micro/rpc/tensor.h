#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace simurgh::bench {

// Writes every byte of a tensor: 64-bit words that count up from `number`. A remainder of less than
// a word stays as it is.
void Produce(std::span<std::byte> tensor, uint64_t number);

// Reads every byte of a tensor; its number, or nothing if Produce() has not written it.
std::optional<uint64_t> Consume(std::span<const std::byte> tensor);

}  // namespace simurgh::bench
