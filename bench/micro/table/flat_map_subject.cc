#include "bench/micro/table/flat_map_subject.h"

#include <algorithm>
#include <cstring>

#include "base/random.h"

namespace simurgh::bench {
namespace {

constexpr size_t kUpdateBatch = 32;

}  // namespace

uint32_t FlatMapSubject::Make(uint64_t id) {
  const auto row = static_cast<uint32_t>(map_.size() % rows_.rows());
  auto* const values = reinterpret_cast<float*>(rows_.places()(row));
  Random random(id);
  for (uint32_t i = 0; i < kind_.dim(); ++i) {
    values[i] = static_cast<float>(random() >> 40) * 0x1.0p-24F - 0.5F;
  }
  std::fill_n(values + kind_.dim(), kind_.state_floats(), 0.01F);
  map_.emplace(id, row);
  return row;
}

void FlatMapSubject::Find(const Batch& batch, bool make) {
  const size_t size = batch.ids.size();
  found_.clear();
  for (size_t i = 0; i < std::min(index_ahead_, size); ++i) map_.prefetch(batch.ids[i]);
  for (size_t i = 0; i < size; ++i) {
    if (i + index_ahead_ < size) map_.prefetch(batch.ids[i + index_ahead_]);
    const auto at = map_.find(batch.ids[i]);
    if (at != map_.end()) {
      found_.push_back(at->second);
    } else if (make) {
      found_.push_back(Make(batch.ids[i]));
    }
  }
}

void FlatMapSubject::Pull(const Batch& batch, float* out) {
  Find(batch, true);
  const size_t dim = kind_.dim();
  const size_t bytes = dim * sizeof(float);
  const auto at = PlacesOfFound();
  ForFetched(pull_fetching_, found_.size(), bytes, at,
             [&](size_t i) { std::memcpy(out + i * dim, at(i), bytes); });
}

void FlatMapSubject::Push(const Batch& batch, const float* gradients) {
  Find(batch, false);
  RowGradient updates[kUpdateBatch];
  size_t filled = 0;
  const auto at = PlacesOfFound();
  ForFetched(push_fetching_, found_.size(), kind_.format.bytes(), at, [&](size_t i) {
    updates[filled++] = {reinterpret_cast<float*>(at(i)), gradients + i * kind_.dim()};
    if (filled < kUpdateBatch && i + 1 < found_.size()) return;
    UpdateRows(kind_.update, {updates, filled});
    filled = 0;
  });
}

}  // namespace simurgh::bench
