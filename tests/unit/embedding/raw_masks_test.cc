#include "embedding/raw_masks.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "data/batch/batch_builder.h"

namespace simurgh {
namespace {

FeatureConfig Raw(uint32_t length, bool mask, uint32_t rounds = 0) {
  FeatureConfig feature;
  feature.pooling = Pooling::kRaw;
  feature.processing.max_length = length;
  feature.hash_stack.rounds = rounds;
  feature.mask = mask;
  return feature;
}

// lengths: of each sample, of each feature.
Batch BatchOf(const std::vector<std::vector<size_t>>& lengths, size_t dense_width) {
  BatchBuilder builder(lengths.front().size(), dense_width);
  float value = 10;
  for (const std::vector<size_t>& sample : lengths) {
    for (size_t c = 0; c < dense_width; ++c) builder.SetDense(c, value++);
    for (size_t f = 0; f < sample.size(); ++f) {
      for (size_t i = 0; i < sample[f]; ++i) builder.AddId(f, 7 + i);
    }
    builder.EndSample();
  }
  return *builder.Build();
}

TEST_CASE("Masks of features with mask follow the dense columns, in their order") {
  const std::vector<FeatureConfig> features = {Raw(3, true), Raw(2, false), Raw(2, true, 2)};
  const RawMasks masks(features);
  CHECK(masks.width() == 5);
  // Ids of the last are two rows each.
  Batch batch = BatchOf({{2, 1, 0}, {0, 0, 2}, {5, 1, 6}}, 2);
  masks.AppendTo(batch);
  CHECK(batch.dense.width == 7);
  CHECK(batch.dense.values == std::vector<float>{10, 11, 1, 1, 0, 0, 0,  //
                                                 12, 13, 0, 0, 0, 1, 0,  //
                                                 14, 15, 1, 1, 1, 1, 1});
}

TEST_CASE("Masks are all dense columns where the data has none") {
  const std::vector<FeatureConfig> features = {Raw(2, true)};
  Batch batch = BatchOf({{1}, {0}}, 0);
  RawMasks(features).AppendTo(batch);
  CHECK(batch.dense.width == 2);
  CHECK(batch.dense.values == std::vector<float>{1, 0, 0, 0});
}

TEST_CASE("Batches without masked features are unchanged") {
  const std::vector<FeatureConfig> features = {Raw(2, false)};
  Batch batch = BatchOf({{1}, {2}}, 1);
  const float* const values = batch.dense.values.data();
  RawMasks(features).AppendTo(batch);
  CHECK(batch.dense.width == 1);
  CHECK(batch.dense.values.data() == values);
}

// The places that a mask leaves out are those that hold nothing and give nothing.
TEST_CASE("What is masked is zero, and its gradient reaches no row") {
  constexpr size_t kDim = 3;
  constexpr size_t kPlaces = 4;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const auto rounds = static_cast<uint32_t>(1 + random.Below(2));
    const std::vector<FeatureConfig> features = {Raw(kPlaces, true, rounds)};
    std::vector<std::vector<size_t>> lengths;
    for (size_t b = 0; b < 20; ++b) lengths.push_back({rounds * random.Below(kPlaces + 3)});
    Batch batch = BatchOf(lengths, 0);
    RawMasks(features).AppendTo(batch);

    const FeatureView view = batch.sparse->feature(0);
    std::vector<uint64_t> positions;
    for (size_t u = 0; u < view.ids.size(); ++u) positions.push_back(u * kDim);
    const std::vector<float> rows(view.ids.size() * kDim, 1.0F);
    const PoolingInput input{.rule = {Pooling::kRaw, kPlaces, rounds},
                             .feature = view,
                             .dim = kDim,
                             .row_positions = positions};
    const size_t width = kPlaces * kDim;
    std::vector<float> pooled(lengths.size() * width, 9.0F);
    Pool({&input, 1}, rows, 0, {pooled.data(), lengths.size(), width});

    std::vector<float> gradient(pooled.size());
    std::vector<float> of_places(pooled.size());  // Without that of masked places.
    for (size_t i = 0; i < gradient.size(); ++i) {
      const float mask = batch.dense.values[i / kDim];
      CHECK((pooled[i] != 0.0F) == (mask == 1.0F));
      gradient[i] = static_cast<float>(random.Normal());
      of_places[i] = gradient[i] * mask;
    }
    std::vector<float> all(rows.size());
    std::vector<float> masked(rows.size());
    Unpool({&input, 1}, 0, {gradient.data(), lengths.size(), width}, all);
    Unpool({&input, 1}, 0, {of_places.data(), lengths.size(), width}, masked);
    CHECK(all == masked);
  }
}

}  // namespace
}  // namespace simurgh
