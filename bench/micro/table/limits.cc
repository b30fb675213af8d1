#include "bench/micro/table/limits.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "table/simd/encoded_rows.h"
#include "tensor/half.h"

namespace simurgh::bench {
namespace {

constexpr size_t kTogether = 32;

}  // namespace

BareRows::BareRows(uint64_t rows, const RowKind& kind)
    : kind_(kind), rows_(rows), memory_(rows * kind.format.bytes()) {
  const std::vector<float> values(kind.format.floats(), 0.1F);
  for (uint64_t i = 0; i < rows; ++i) {
    EncodeNewRow(kind.format, values.data(), places()(static_cast<uint32_t>(i)));
  }
}

void BareRows::Gather(const Batch& batch, float* out) const {
  const size_t dim = kind_.dim();
  const size_t bytes = kind_.format.weight_bytes();
  const size_t size = batch.rows.size();
  const bool plain = kind_.format.plain();
  RowConversion reads[kTogether];
  size_t filled = 0;
  const auto at = [place = packed(), rows = batch.rows.data()](size_t i) { return place(rows[i]); };
  ForFetched(gather_fetching_, size, bytes, at, [&](size_t i) {
    if (plain) {
      std::memcpy(out + i * dim, at(i), bytes);
      return;
    }
    reads[filled++] = {at(i), reinterpret_cast<std::byte*>(out + i * dim)};
    if (filled < kTogether && i + 1 < size) return;
    ConvertRows(kind_.format.weights, RowPrecision::kF32, kind_.format.dim, {reads, filled});
    filled = 0;
  });
}

void BareRows::Update(const Batch& batch, const float* gradients) const {
  const size_t size = batch.rows.size();
  const bool plain = kind_.format.plain();
  RowGradient updates[kTogether];
  EncodedRow encoded[kTogether];
  size_t filled = 0;
  const auto at = [place = places(), rows = batch.rows.data()](size_t i) { return place(rows[i]); };
  ForFetched(update_fetching_, size, kind_.format.bytes(), at, [&](size_t i) {
    const float* gradient = gradients + i * kind_.dim();
    if (plain) {
      updates[filled++] = {reinterpret_cast<float*>(at(i)), gradient};
    } else {
      encoded[filled++] = {at(i), gradient, RoundingNoise(1, batch.ids[i], 1)};
    }
    if (filled < kTogether && i + 1 < size) return;
    if (plain) {
      UpdateRows(kind_.update, {updates, filled});
    } else {
      UpdateEncodedRows(kind_.update, kind_.format, {encoded, filled});
    }
    filled = 0;
  });
}

}  // namespace simurgh::bench
