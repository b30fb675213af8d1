#pragma once

#include <bit>
#include <cfloat>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "nn/cuda/float16.h"
#include "nn/cuda/memory_plan.h"
#include "nn/cuda/reduction_kernels.h"

// Encodes gradients for other ranks with the same bytes as collective/reduce_codec.cc, so sums have
// the same bits on CPU and device.
namespace simurgh::cuda {

// values(i) + residual(i); stores the rounding error. residual: may be null.
struct WireSource {
  const float* values;
  float* residual;

  SIMURGH_HOST_DEVICE float Wanted(size_t i) const {
    return residual == nullptr ? values[i] : values[i] + residual[i];
  }
  SIMURGH_HOST_DEVICE void Keep(size_t i, float lost) const {
    if (residual != nullptr) residual[i] = IsFinite(lost) ? lost : 0.0F;
  }
};

// Encodes `count` values from `first`, at most kWireChunk.
SIMURGH_HOST_DEVICE inline void EncodeChunk(const WireSource& source, size_t first, size_t count,
                                            std::byte* out) {
  constexpr float kLevels = 255.0F;
  float least = FLT_MAX;
  float greatest = -FLT_MAX;
  bool finite = true;
  for (size_t i = 0; i < count; ++i) {
    const float wanted = source.Wanted(first + i);
    finite = finite && IsFinite(wanted);
    least = wanted < least ? wanted : least;
    greatest = greatest < wanted ? wanted : greatest;
  }
  finite = finite && IsFinite(greatest - least);
  float step = (greatest - least) / kLevels;
  if (!finite) least = step = std::bit_cast<float>(0x7fc00000U);  // NaN.
  std::memcpy(out, &least, sizeof(least));
  std::memcpy(out + sizeof(least), &step, sizeof(step));
  out += 2 * sizeof(float);
  for (size_t i = 0; i < count; ++i) {
    const float wanted = source.Wanted(first + i);
    uint8_t code = 0;
    if (step > 0) {
      const float level = std::nearbyint((wanted - least) / step);
      code = static_cast<uint8_t>(level < 0.0F ? 0.0F : (kLevels < level ? kLevels : level));
    }
    out[i] = std::byte{code};
    source.Keep(first + i, finite ? wanted - (least + step * static_cast<float>(code)) : 0.0F);
  }
}

// Value i of an encoded part.
template <bool kInt8>
SIMURGH_HOST_DEVICE float DecodeWire(const std::byte* encoded, size_t i) {
  if constexpr (kInt8) {
    const std::byte* chunk = encoded + i / kWireChunk * kWireChunkBytes;
    float least;
    float step;
    std::memcpy(&least, chunk, sizeof(least));
    std::memcpy(&step, chunk + sizeof(least), sizeof(step));
    const auto code = static_cast<uint8_t>(chunk[2 * sizeof(float) + i % kWireChunk]);
    return least + step * static_cast<float>(code);
  } else {
    Bfloat16 code;
    std::memcpy(&code, encoded + i * sizeof(code), sizeof(code));
    return ToFloat(code);
  }
}

// Calls of EncodePart for `count` values.
template <bool kInt8>
size_t EncodeCalls(size_t count) {
  return kInt8 ? (count + kWireChunk - 1) / kWireChunk : count;
}

// Call i encodes value i, or chunk i.
template <bool kInt8>
struct EncodePart {
  WireSource source;
  size_t count;
  std::byte* out;

  SIMURGH_HOST_DEVICE void operator()(size_t i) const {
    if constexpr (kInt8) {
      const size_t first = i * kWireChunk;
      const size_t left = count - first;
      EncodeChunk(source, first, left < kWireChunk ? left : kWireChunk, out + i * kWireChunkBytes);
    } else {
      const float wanted = source.Wanted(i);
      Bfloat16 code;
      Assign(code, wanted);
      std::memcpy(out + i * sizeof(code), &code, sizeof(code));
      source.Keep(i, wanted - ToFloat(code));
    }
  }
};

// sums[i] = the sum of all ranks' values in rank order.
template <bool kInt8>
struct SumParts {
  const std::byte* incoming;  // By rank, part_bytes apart.
  size_t part_bytes;
  uint32_t rank;
  uint32_t ranks;
  const float* own;
  float* sums;

  SIMURGH_HOST_DEVICE void operator()(size_t i) const {
    float sum = 0.0F;
    for (uint32_t peer = 0; peer < ranks; ++peer) {
      sum += peer == rank ? own[i] : DecodeWire<kInt8>(incoming + peer * part_bytes, i);
    }
    sums[i] = sum;
  }
};

// Decodes value i of a bucket from the sums of its parts.
template <bool kInt8>
struct DecodeSums {
  const std::byte* parts;
  size_t part_bytes;
  size_t part_floats;
  float* values;

  SIMURGH_HOST_DEVICE void operator()(size_t i) const {
    const size_t part = i / part_floats;
    values[i] = DecodeWire<kInt8>(parts + part * part_bytes, i - part * part_floats);
  }
};

}  // namespace simurgh::cuda
