#include "embedding/argmax_wire.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"

namespace simurgh {
namespace {

// Calls work(feature, sample, number of ids) in the order of the array, until it returns an error.
template <typename Work>
Status ForSamples(const BatchLayout& layout, const CompactBatch& batch, const Work& work) {
  for (size_t f = 0; f < layout.features.size(); ++f) {
    if (layout.features[f].pooling.kind != Pooling::kMax) continue;
    for (size_t b = 0; b < batch.batch_size; ++b) {
      const uint32_t* offsets = batch.offsets.data() + f * batch.batch_size + b;
      SIMURGH_RETURN_IF_ERROR(work(f, b, offsets[1] - offsets[0]));
    }
  }
  return absl::OkStatus();
}

// Returns the bytes of a position.
size_t PositionBytes(const BatchLayout& layout, const CompactBatch& batch) {
  uint32_t longest = 1;
  const auto look = [&longest](size_t, size_t, uint32_t count) {
    longest = std::max(longest, count);
    return absl::OkStatus();
  };
  ForSamples(layout, batch, look).IgnoreError();
  return (std::bit_width(longest - 1) + 7) / 8;
}

}  // namespace

size_t ArgmaxBytes(const BatchLayout& layout, const CompactBatch& batch) {
  return layout.max_columns() * batch.batch_size * PositionBytes(layout, batch);
}

void EncodeArgmax(const BatchLayout& layout, const CompactBatch& batch,
                  std::span<const uint32_t> argmax, std::span<std::byte> out) {
  const size_t bytes = PositionBytes(layout, batch);
  auto element = argmax.begin();
  auto byte = out.begin();
  const auto encode = [&](size_t feature, size_t, uint32_t count) {
    for (uint32_t d = 0; d < layout.dim(feature); ++d) {
      uint32_t position = count == 0 ? 0 : *element;
      ++element;
      for (size_t i = 0; i < bytes; ++i, position >>= 8) *byte++ = static_cast<std::byte>(position);
    }
    return absl::OkStatus();
  };
  ForSamples(layout, batch, encode).IgnoreError();
}

Status DecodeArgmax(const BatchLayout& layout, const CompactBatch& batch,
                    std::span<const std::byte> bytes, std::span<uint32_t> argmax) {
  const size_t expected = ArgmaxBytes(layout, batch);
  if (bytes.size() != expected) {
    return absl::InvalidArgumentError(
        absl::StrCat("push: ", bytes.size(), " bytes of argmax, the batch has ", expected));
  }
  const size_t position_bytes = PositionBytes(layout, batch);
  auto element = argmax.begin();
  auto byte = bytes.begin();
  const auto decode = [&](size_t feature, size_t sample, uint32_t count) -> Status {
    for (uint32_t d = 0; d < layout.dim(feature); ++d) {
      uint32_t position = 0;
      for (size_t i = 0; i < position_bytes; ++i) {
        position |= std::to_integer<uint32_t>(*byte++) << (8 * i);
      }
      if (position >= std::max(count, 1U)) {
        return absl::InvalidArgumentError(absl::StrCat("push: feature ", feature, ": sample ",
                                                       sample, ": the largest of element ", d,
                                                       " is occurrence ", position, " of ", count));
      }
      *element++ = position;
    }
    return absl::OkStatus();
  };
  return ForSamples(layout, batch, decode);
}

}  // namespace simurgh
