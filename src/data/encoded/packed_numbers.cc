#include "data/encoded/packed_numbers.h"

#include <algorithm>
#include <bit>

#include "data/encoded/bits.h"

namespace simurgh {
namespace {

constexpr int kHalf = 32;  // Numbers wider than kMaxBits are written in two parts.

int WidthOf(std::span<const uint64_t> block) {
  uint64_t all = 0;
  for (const uint64_t number : block) all |= number;
  return std::bit_width(all);
}

template <typename Work>
void ForBlocks(std::span<const uint64_t> numbers, const Work& work) {
  for (size_t first = 0; first < numbers.size(); first += kPackedBlock) {
    work(numbers.subspan(first, std::min(kPackedBlock, numbers.size() - first)));
  }
}

}  // namespace

size_t PackedBytes(std::span<const uint64_t> numbers) {
  size_t bytes = 0;
  ForBlocks(numbers, [&](auto block) { bytes += 1 + BytesOfBits(block.size() * WidthOf(block)); });
  return bytes;
}

void AppendPacked(std::span<const uint64_t> numbers, ByteWriter& out) {
  ForBlocks(numbers, [&](std::span<const uint64_t> block) {
    const int width = WidthOf(block);
    out.Byte(static_cast<uint8_t>(width));
    BitWriter bits(out.Extend(BytesOfBits(block.size() * width) + kBitSlackBytes));
    for (const uint64_t number : block) {
      if (width <= kMaxBits) {
        bits.Put(number, width);
      } else {
        bits.Put(number & 0xffffffff, kHalf);
        bits.Put(number >> kHalf, width - kHalf);
      }
    }
    out.Shorten(kBitSlackBytes);
  });
}

bool ReadPacked(ByteReader& in, std::span<uint64_t> numbers) {
  for (size_t first = 0; first < numbers.size(); first += kPackedBlock) {
    const auto block = numbers.subspan(first, std::min(kPackedBlock, numbers.size() - first));
    const int width = in.Byte();
    if (width > 64) return false;
    BitReader bits(in.Raw(BytesOfBits(block.size() * width)));
    if (!in.ok()) return false;
    if (width <= kMaxBits) {
      for (uint64_t& number : block) number = bits.Take(width);
    } else {
      for (uint64_t& number : block) {
        number = bits.Take(kHalf);
        number |= bits.Take(width - kHalf) << kHalf;
      }
    }
  }
  return in.ok();
}

}  // namespace simurgh
