#include "bench/micro/table/limits.h"

#include <cstring>
#include <vector>

#include "simurgh/tensor/half.h"
#include "table/simd/coded_rows.h"

namespace simurgh::bench {
namespace {

constexpr size_t kTogether = 32;

}  // namespace

BareRows::BareRows(uint64_t rows, const RowKind& kind)
    : kind_(kind), rows_(rows), memory_(rows * kind.format.bytes()) {
  const std::vector<float> values(kind.format.floats(), 0.1F);
  for (uint64_t i = 0; i < rows; ++i) {
    EncodeNewRow(kind.format, values.data(), row(static_cast<uint32_t>(i)));
  }
}

void BareRows::Gather(const Batch& batch, float* out) const {
  const size_t dim = kind_.dim();
  const size_t bytes = kind_.format.weight_bytes();
  const size_t size = batch.rows.size();
  const bool plain = kind_.format.plain();
  RowConversion reads[kTogether];
  size_t filled = 0;
  for (size_t i = 0; i < size; ++i) {
    if (const size_t next = i + gather_distance_; next < size) {
      PrefetchBytes(packed(batch.rows[next]), bytes);
    }
    if (plain) {
      std::memcpy(out + i * dim, packed(batch.rows[i]), bytes);
      continue;
    }
    reads[filled++] = {packed(batch.rows[i]), reinterpret_cast<std::byte*>(out + i * dim)};
    if (filled == kTogether || i + 1 == size) {
      ConvertRows(kind_.format.weights, RowPrecision::kF32, kind_.format.dim, {reads, filled});
      filled = 0;
    }
  }
}

void BareRows::Update(const Batch& batch, const float* gradients) const {
  const size_t size = batch.rows.size();
  const bool plain = kind_.format.plain();
  RowGradient updates[kTogether];
  CodedRow coded[kTogether];
  size_t filled = 0;
  for (size_t i = 0; i < size; ++i) {
    if (const size_t next = i + update_distance_; next < size) {
      PrefetchBytes(row(batch.rows[next]), kind_.format.bytes());
    }
    const float* gradient = gradients + i * kind_.dim();
    if (plain) {
      updates[filled++] = {floats(batch.rows[i]), gradient};
    } else {
      coded[filled++] = {row(batch.rows[i]), gradient, RoundingNoise(1, batch.ids[i], 1)};
    }
    if (filled < kTogether && i + 1 < size) continue;
    if (plain) {
      UpdateRows(kind_.update, {updates, filled});
    } else {
      UpdateCodedRows(kind_.update, kind_.format, {coded, filled});
    }
    filled = 0;
  }
}

}  // namespace simurgh::bench
