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

// Encodes gradients for other ranks with the same bytes as collective/collective.cc, so sums have
// the same bits on CPU and device.
namespace simurgh::cuda {

// Values to encode: values(i) + residual(i). Stores the rounding error. residual: may be null.
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

// Encodes chunks in int8. Runs by ForEachBlock for each chunk: threads find the extremes of
// segments, then each encodes a few values.
struct EncodeChunks {
  static constexpr size_t kSegment = 16;
  static constexpr size_t kCodes = 4;

  // Finds the same extremes as the CPU's loop over all values: of equal values the first counts.
  struct Extremes {
    float least = FLT_MAX;
    float greatest = -FLT_MAX;
    bool finite = true;

    SIMURGH_HOST_DEVICE void Add(const Extremes& next) {
      finite = finite && next.finite;
      least = next.least < least ? next.least : least;
      greatest = greatest < next.greatest ? next.greatest : greatest;
    }
  };

  WireSource source;
  size_t count;
  std::byte* out;

  SIMURGH_HOST_DEVICE static size_t fills() { return kWireChunk / kSegment; }
  SIMURGH_HOST_DEVICE static size_t cells() { return kWireChunk / kCodes; }
  static size_t bytes() { return kWireChunk / kSegment * sizeof(Extremes); }

  SIMURGH_HOST_DEVICE void Fill(size_t chunk, size_t segment, std::byte* block) const {
    Extremes extremes;
    const size_t begin = chunk * kWireChunk + segment * kSegment;
    for (size_t i = begin; i < begin + kSegment && i < count; ++i) {
      const float wanted = source.Wanted(i);
      extremes.Add({wanted, wanted, IsFinite(wanted)});
    }
    reinterpret_cast<Extremes*>(block)[segment] = extremes;
  }

  SIMURGH_HOST_DEVICE void Cell(size_t chunk, size_t cell, const std::byte* block) const {
    constexpr float kLevels = 255.0F;
    Extremes all;
    for (size_t i = 0; i < fills(); ++i) all.Add(reinterpret_cast<const Extremes*>(block)[i]);
    float least = all.least;
    float step = (all.greatest - all.least) / kLevels;
    const bool finite = all.finite && IsFinite(all.greatest - all.least);
    if (!finite) least = step = std::bit_cast<float>(0x7fc00000U);  // NaN.
    std::byte* const to = out + chunk * kWireChunkBytes;
    if (cell == 0) {
      std::memcpy(to, &least, sizeof(least));
      std::memcpy(to + sizeof(least), &step, sizeof(step));
    }
    const size_t first = chunk * kWireChunk;
    for (size_t i = cell * kCodes; i < (cell + 1) * kCodes && first + i < count; ++i) {
      const float wanted = source.Wanted(first + i);
      uint8_t code = 0;
      if (step > 0) {
        const float level = std::nearbyint((wanted - least) / step);
        code = static_cast<uint8_t>(level < 0.0F ? 0.0F : (kLevels < level ? kLevels : level));
      }
      to[2 * sizeof(float) + i] = std::byte{code};
      source.Keep(first + i, finite ? wanted - (least + step * static_cast<float>(code)) : 0.0F);
    }
  }
};

// Returns value i of an encoded part.
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

// Encodes value i in bf16.
struct EncodeHalf {
  WireSource source;
  std::byte* out;

  SIMURGH_HOST_DEVICE void operator()(size_t i) const {
    const float wanted = source.Wanted(i);
    Bfloat16 code;
    Assign(code, wanted);
    std::memcpy(out + i * sizeof(code), &code, sizeof(code));
    source.Keep(i, wanted - ToFloat(code));
  }
};

// sums[i] = the sum of all ranks' values in rank order.
template <bool kInt8>
struct SumParts {
  const std::byte* incoming;  // One part per rank, part_bytes apart.
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
