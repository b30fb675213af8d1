#include "bench/micro/table/limits.h"

#include <algorithm>
#include <cstring>

namespace simurgh::bench {
namespace {

constexpr size_t kUpdateBatch = 32;

}  // namespace

BareRows::BareRows(uint64_t rows, const RowKind& kind)
    : kind_(kind),
      rows_(rows),
      memory_(rows * kind.floats() * sizeof(float)),
      values_(reinterpret_cast<float*>(memory_.base())) {
  std::fill_n(values_, rows * kind.floats(), 0.1F);
}

void BareRows::Gather(const Batch& batch, float* out) const {
  const size_t dim = kind_.dim();
  const size_t size = batch.rows.size();
  for (size_t i = 0; i < size; ++i) {
    if (const size_t next = i + gather_distance_; next < size) {
      PrefetchBytes(packed(batch.rows[next]), dim * sizeof(float));
    }
    std::memcpy(out + i * dim, packed(batch.rows[i]), dim * sizeof(float));
  }
}

void BareRows::Update(const Batch& batch, const float* gradients) const {
  const size_t size = batch.rows.size();
  RowGradient updates[kUpdateBatch];
  size_t filled = 0;
  for (size_t i = 0; i < size; ++i) {
    if (const size_t next = i + update_distance_; next < size) {
      PrefetchBytes(row(batch.rows[next]), kind_.floats() * sizeof(float));
    }
    updates[filled++] = {row(batch.rows[i]), gradients + i * kind_.dim()};
    if (filled == kUpdateBatch || i + 1 == size) {
      UpdateRows(kind_.update, {updates, filled});
      filled = 0;
    }
  }
}

}  // namespace simurgh::bench
