#include "embedding/raw_masks.h"

#include <algorithm>
#include <utility>

namespace simurgh {

RawMasks::RawMasks(std::span<const FeatureConfig> features) {
  for (size_t f = 0; f < features.size(); ++f) {
    if (!features[f].mask) continue;
    masks_.push_back({.feature = f,
                      .rule = {.kind = Pooling::kRaw,
                               .length = features[f].processing.max_length,
                               .rows_per_id = std::max(features[f].hash_stack.rounds, 1U)}});
    width_ += features[f].mask_width();
  }
}

void RawMasks::AppendTo(Batch& batch) const {
  if (masks_.empty()) return;
  DenseBatch& dense = batch.dense;
  const size_t width = dense.width + width_;
  std::vector<float> values(dense.batch_size * width);
  for (size_t b = 0; b < dense.batch_size; ++b) {
    std::copy_n(dense.values.data() + b * dense.width, dense.width, values.data() + b * width);
  }
  size_t column = dense.width;
  for (const Mask& mask : masks_) {
    const FeatureView feature = batch.sparse->feature(mask.feature);
    for (size_t b = 0; b < dense.batch_size; ++b) {
      std::fill_n(values.data() + b * width + column, TrueLength(mask.rule, feature, b), 1.0F);
    }
    column += mask.rule.length;
  }
  dense.values = std::move(values);
  dense.width = width;
}

}  // namespace simurgh
