#include "nn/cpu/finite.h"

#include <atomic>
#include <bit>
#include <cstdint>

#include "nn/cpu/compute_threads.h"

namespace simurgh::cpu {
namespace {

constexpr uint32_t kExponent = 0x7f800000;  // All ones in NaN and infinity, in nothing else.

// No branch in the loop.
bool AllFiniteOf(std::span<const float> values) {
  uint32_t found = 0;
  for (const float value : values) {
    found |= (std::bit_cast<uint32_t>(value) & kExponent) == kExponent ? 1U : 0U;
  }
  return found == 0;
}

}  // namespace

bool AllFinite(std::span<const float> values) {
  std::atomic<bool> finite = true;
  ForEachPart(values.size(), kPartElements, [&](size_t first, size_t end) {
    if (!AllFiniteOf(values.subspan(first, end - first))) finite = false;
  });
  return finite;
}

bool AllRowsFinite(MatrixView<const float> values) {
  if (values.contiguous()) return AllFinite(values.flat());
  std::atomic<bool> finite = true;
  ForEachPart(values.rows(), LeastRows(values.columns()), [&](size_t first, size_t end) {
    for (size_t row = first; row < end; ++row) {
      if (!AllFiniteOf(values.row(row))) finite = false;
    }
  });
  return finite;
}

}  // namespace simurgh::cpu
