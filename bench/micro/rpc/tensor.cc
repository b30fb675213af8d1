#include "bench/micro/rpc/tensor.h"

namespace simurgh::bench {

void Produce(std::span<std::byte> tensor, uint64_t number) {
  auto* words = reinterpret_cast<uint64_t*>(tensor.data());
  const size_t count = tensor.size() / sizeof(uint64_t);
  for (size_t i = 0; i < count; ++i) words[i] = number + i;
}

std::optional<uint64_t> Consume(std::span<const std::byte> tensor) {
  const auto* words = reinterpret_cast<const uint64_t*>(tensor.data());
  const size_t count = tensor.size() / sizeof(uint64_t);
  uint64_t sum = 0;
  for (size_t i = 0; i < count; ++i) sum += words[i];
  const uint64_t number = words[0];
  // count * (count - 1) / 2, whose factors of which one is even.
  const uint64_t steps = count % 2 == 0 ? count / 2 * (count - 1) : (count - 1) / 2 * count;
  if (sum != count * number + steps) return std::nullopt;
  return number;
}

}  // namespace simurgh::bench
