#include "simurgh/data/argmax_codec.h"

#include <bit>

#include "data/encoded/bits.h"
#include "data/invalid.h"
#include "simurgh/base/check.h"

namespace simurgh {
namespace {

static_assert(kArgmaxSlackBytes == kBitSlackBytes);

size_t CountOf(const FeatureView& feature, size_t sample) {
  return feature.offsets[sample + 1] - feature.offsets[sample];
}

// Bits of a position among `count` occurrences.
int BitsOf(size_t count) { return count == 0 ? 0 : std::bit_width(count - 1); }

}  // namespace

size_t ArgmaxBytes(const FeatureView& feature, size_t dim) {
  uint64_t bits = 0;
  for (size_t b = 0; b + 1 < feature.offsets.size(); ++b) {
    bits += dim * static_cast<size_t>(BitsOf(CountOf(feature, b)));
  }
  return BytesOfBits(bits);
}

void EncodeArgmax(const FeatureView& feature, size_t dim, std::span<const uint32_t> argmax,
                  std::span<std::byte> out) {
  const size_t samples = feature.offsets.size() - 1;
  SIMURGH_CHECK_EQ(argmax.size(), samples * dim);
  SIMURGH_CHECK_EQ(out.size(), ArgmaxBytes(feature, dim) + kArgmaxSlackBytes);
  BitWriter writer(out.data());
  for (size_t b = 0; b < samples; ++b) {
    const int bits = BitsOf(CountOf(feature, b));
    if (bits == 0) continue;
    for (const uint32_t position : argmax.subspan(b * dim, dim)) writer.Put(position, bits);
  }
}

Status DecodeArgmax(const FeatureView& feature, size_t dim, std::span<const std::byte> bytes,
                    std::span<uint32_t> argmax) {
  const size_t samples = feature.offsets.size() - 1;
  SIMURGH_CHECK_EQ(argmax.size(), samples * dim);
  SIMURGH_CHECK_EQ(bytes.size(), ArgmaxBytes(feature, dim));
  BitReader reader(bytes);
  for (size_t b = 0; b < samples; ++b) {
    const size_t count = CountOf(feature, b);
    const int bits = BitsOf(count);
    for (size_t d = 0; d < dim; ++d) {
      const uint64_t position = reader.Take(bits);
      // A sample without occurrences has no positions.
      if (position >= count && count > 0) {
        return Invalid("sample %d: the largest of element %d is occurrence %d of %d", b, d,
                       position, count);
      }
      argmax[b * dim + d] = static_cast<uint32_t>(position);
    }
  }
  return absl::OkStatus();
}

}  // namespace simurgh
