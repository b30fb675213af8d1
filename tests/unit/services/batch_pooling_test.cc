// Un-pooling of whole batches: the order of sums, bit for bit, and overflow.

#include "embedding/batch_pooling.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "data/batch/batch_builder.h"

namespace simurgh {
namespace {

constexpr size_t kFeatures = 5;
constexpr uint32_t kTables[kFeatures] = {0, 1, 0, 0, 0};
constexpr uint32_t kLists[kFeatures] = {0, 1, 0, 2, 3};

PoolingRule RandomRule(Random& random) {
  const auto rows_per_id = static_cast<uint32_t>(1 + random.Below(2));
  switch (random.Below(6)) {
    case 0:
      return {.kind = Pooling::kSum, .rows_per_id = rows_per_id};
    case 1:
      return {.kind = Pooling::kMean, .rows_per_id = rows_per_id};
    case 2:
      return {.kind = Pooling::kSqrtN, .rows_per_id = rows_per_id};
    case 3:
      return {.kind = Pooling::kWeightedSum};
    case 4:
      return {.kind = Pooling::kMax};
    default:
      return {.kind = Pooling::kRaw, .length = 2, .rows_per_id = rows_per_id};
  }
}

// Four features of one table, two of which share a list of ids, and one feature of another table.
BatchLayout LayoutWith(const std::vector<PoolingRule>& rules) {
  BatchLayout layout{.features = {}, .table_dims = {4, 3}};
  size_t column = 0;
  for (size_t f = 0; f < kFeatures; ++f) {
    layout.features.push_back({kTables[f], static_cast<uint32_t>(column), rules[f]});
    column += layout.width(f);
  }
  return layout;
}

BatchLayout RandomLayout(Random& random) {
  std::vector<PoolingRule> rules;
  for (size_t f = 0; f < kFeatures; ++f) rules.push_back(RandomRule(random));
  return LayoutWith(rules);
}

// A planned batch, its rows, the argmax of its pull, and gradients for it.
struct Setup {
  Setup(BatchLayout of, std::shared_ptr<const CompactBatch> compact, Random& random)
      : layout(std::move(of)), pooling(layout) {
    batch.lent = std::move(compact);
    PlanScratch scratch;
    PlanBatch(*batch.lent, layout, BucketMap(2, 2), scratch, batch.plan);
    samples = batch.lent->batch_size;
    rows.resize(batch.plan.row_floats);
    for (float& value : rows) value = static_cast<float>(random.Normal());
    gradients.resize(samples * layout.embedding_width());
    // Magnitudes differ so much that any other order changes the sums.
    for (float& value : gradients) {
      value = std::ldexp(static_cast<float>(random.Normal()), static_cast<int>(random.Below(24)));
    }
    argmax.resize(samples * layout.max_columns());
    std::vector<float> pooled(gradients.size());
    pooling.Pool(batch, rows, {MatrixView(pooled.data(), 1, pooled.size()), nullptr}, argmax);
  }

  std::vector<size_t> Unpool(std::vector<float>& sums) {
    sums.assign(rows.size(), 7.0F);
    return pooling.Unpool(batch,
                          {MatrixView<const float>(gradients.data(), 1, gradients.size()), nullptr},
                          argmax, sums);
  }

  float& gradient(size_t sample, size_t feature, size_t element) {
    return gradients[sample * layout.embedding_width() + layout.features[feature].first_column +
                     element];
  }
  // Offset of the row of a feature's id.
  size_t position(size_t feature, uint64_t id) const {
    const FeatureView view = batch.lent->feature(feature);
    const auto at = std::ranges::find(view.ids, id) - view.ids.begin();
    return batch.plan.row_positions[view.first_id + static_cast<size_t>(at)];
  }

  const BatchLayout layout;
  const BatchPooling pooling;
  BufferedBatch batch;
  size_t samples = 0;
  std::vector<float> rows;
  std::vector<float> gradients;
  std::vector<uint32_t> argmax;
};

std::shared_ptr<const CompactBatch> RandomBatch(const BatchLayout& layout, Random& random) {
  BatchBuilder builder({std::begin(kLists), std::end(kLists)}, 0);
  for (size_t samples = 1 + random.Below(70); samples > 0; --samples) {
    for (size_t f = 0; f < kFeatures; ++f) {
      const uint64_t ids = random.Below(4) * layout.features[f].pooling.rows_per_id;
      for (uint64_t i = 0; i < ids; ++i) {
        builder.AddId(f, random.Below(9), static_cast<float>(random.Normal()));
      }
    }
    builder.EndSample();
  }
  return builder.Build()->sparse;
}

// The gradient of one occurrence by definition, if any.
std::vector<float> ShareOf(const Setup& setup, size_t feature, size_t sample, size_t i) {
  const PoolingRule& rule = setup.layout.features[feature].pooling;
  const FeatureView view = setup.batch.lent->feature(feature);
  const auto occurrences = view.sample(sample);
  const size_t dim = setup.layout.dim(feature);
  const size_t width = setup.layout.embedding_width();
  const float* const gradient =
      setup.gradients.data() + sample * width + setup.layout.features[feature].first_column;
  const size_t n = (occurrences.size() + rule.rows_per_id - 1) / rule.rows_per_id;
  const auto row = [&](size_t occurrence) {
    return setup.rows.data() + setup.position(feature, view.ids[occurrences[occurrence]]);
  };
  std::vector<float> share(gradient, gradient + dim);
  for (size_t d = 0; d < dim; ++d) {
    if (rule.kind == Pooling::kMean) share[d] *= 1.0F / static_cast<float>(n);
    if (rule.kind == Pooling::kSqrtN) share[d] *= 1.0F / std::sqrt(static_cast<float>(n));
    if (rule.kind == Pooling::kWeightedSum && !view.weights.empty()) {
      share[d] *= view.weights[view.offsets[sample] - view.offsets[0] + i];
    }
    if (rule.kind == Pooling::kMax) {
      size_t largest = 0;
      for (size_t o = 1; o < occurrences.size(); ++o) {
        if (row(o)[d] > row(largest)[d]) largest = o;
      }
      if (largest != i) share[d] = 0;
    }
  }
  const size_t place = i / rule.rows_per_id;
  if (rule.kind == Pooling::kRaw && place >= rule.length) return {};
  if (rule.kind == Pooling::kRaw) std::copy_n(gradient + place * dim, dim, share.begin());
  return share;
}

void AddOneByOne(const Setup& setup, size_t feature, size_t sample, std::vector<float>& sums) {
  const FeatureView view = setup.batch.lent->feature(feature);
  const auto occurrences = view.sample(sample);
  for (size_t i = 0; i < occurrences.size(); ++i) {
    const size_t first = setup.position(feature, view.ids[occurrences[i]]);
    const std::vector<float> share = ShareOf(setup, feature, sample, i);
    for (size_t d = 0; d < share.size(); ++d) sums[first + d] += share[d];
  }
}

std::vector<float> BySample(const Setup& setup, size_t dropped = kFeatures) {
  std::vector<float> sums(setup.rows.size());
  for (size_t s = 0; s < setup.samples; ++s) {
    for (size_t f = 0; f < kFeatures; ++f) {
      if (f != dropped) AddOneByOne(setup, f, s, sums);
    }
  }
  return sums;
}

std::vector<float> ByFeature(const Setup& setup) {
  std::vector<float> sums(setup.rows.size());
  for (size_t f = 0; f < kFeatures; ++f) {
    for (size_t s = 0; s < setup.samples; ++s) AddOneByOne(setup, f, s, sums);
  }
  return sums;
}

bool SameBits(const std::vector<float>& one, const std::vector<float>& other) {
  return std::ranges::equal(
      one, other, {}, [](float x) { return std::bit_cast<uint32_t>(x); },
      [](float x) { return std::bit_cast<uint32_t>(x); });
}

TEST_CASE("Gradients of a row are added by sample, then feature, then occurrence, to the bit") {
  size_t other_order_differs = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const BatchLayout layout = RandomLayout(random);
    Setup setup(layout, RandomBatch(layout, random), random);
    std::vector<float> sums;
    REQUIRE(setup.Unpool(sums).empty());
    const std::vector<float> expected = BySample(setup);
    CHECK(SameBits(sums, expected));
    other_order_differs += SameBits(ByFeature(setup), expected) ? 0 : 1;
  }
  CHECK(other_order_differs > 150);
}

TEST_CASE("Sums are bit-identical for any number of un-pooling threads") {
  Random random(1);
  const BatchLayout layout = RandomLayout(random);
  std::vector<std::unique_ptr<Setup>> setups;
  for (int i = 0; i < 12; ++i) {
    setups.push_back(std::make_unique<Setup>(layout, RandomBatch(layout, random), random));
  }
  for (const size_t threads : {1, 2, 3, 4}) {
    CAPTURE(threads);
    std::vector<std::vector<float>> sums(setups.size());
    std::vector<std::thread> running;
    for (size_t thread = 0; thread < threads; ++thread) {
      running.emplace_back([&, thread] {
        for (size_t i = thread; i < setups.size(); i += threads) setups[i]->Unpool(sums[i]);
      });
    }
    for (std::thread& thread : running) thread.join();
    for (size_t i = 0; i < setups.size(); ++i) CHECK(SameBits(sums[i], BySample(*setups[i])));
  }
}

TEST_CASE("A gradient that is not finite drops its feature, in every place") {
  size_t places = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const BatchLayout layout = RandomLayout(random);
    Setup setup(layout, RandomBatch(layout, random), random);
    std::vector<std::vector<float>> expected;
    for (size_t f = 0; f < kFeatures; ++f) expected.push_back(BySample(setup, f));
    std::vector<float> sums;
    for (size_t s = 0; s < setup.samples; ++s) {
      for (size_t f = 0; f < kFeatures; ++f) {
        for (size_t e = 0; e < layout.width(f); ++e, ++places) {
          constexpr float kInfinity = std::numeric_limits<float>::infinity();
          const float bad[] = {std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity};
          const float good = std::exchange(setup.gradient(s, f, e), bad[places % 3]);
          const std::vector<size_t> dropped = setup.Unpool(sums);
          const bool is_right = dropped == std::vector{f} && SameBits(sums, expected[f]);
          CAPTURE(s, f, e);
          if (!is_right) REQUIRE(dropped == std::vector{f});
          REQUIRE(is_right);
          setup.gradient(s, f, e) = good;
        }
      }
    }
  }
  CHECK(places > 1'000);
}

constexpr float kHuge = 0.75F * std::numeric_limits<float>::max();

// Two samples, whose features have these ids each.
Setup TwoSamples(const std::vector<uint64_t>& ids) {
  const BatchLayout layout = LayoutWith(std::vector<PoolingRule>(kFeatures));
  BatchBuilder builder({std::begin(kLists), std::end(kLists)}, 0);
  for (int sample = 0; sample < 2; ++sample) {
    for (size_t f = 0; f < kFeatures; ++f) builder.AddId(f, ids[f]);
    builder.EndSample();
  }
  Random random(1);
  Setup setup(layout, builder.Build()->sparse, random);
  std::ranges::fill(setup.gradients, 1.0F);
  return setup;
}

TEST_CASE("A row sum that overflows drops all features that have the row") {
  // Features 0 and 3 share a row of the first table; 2 and 4 have other rows.
  Setup setup = TwoSamples({1, 1, 2, 1, 4});
  std::vector<float> sums;
  REQUIRE(setup.Unpool(sums).empty());
  const std::vector<float> well = sums;
  for (size_t sample = 0; sample < 2; ++sample) setup.gradient(sample, 0, 3) = kHuge;
  CHECK(setup.Unpool(sums) == std::vector<size_t>{0, 3});
  std::vector<float> expected = well;
  std::fill_n(expected.begin() + static_cast<ptrdiff_t>(setup.position(0, 1)), 4, 0.0F);
  CHECK(SameBits(sums, expected));

  // A feature alone in its table.
  for (size_t sample = 0; sample < 2; ++sample) {
    setup.gradient(sample, 0, 3) = 1.0F;
    setup.gradient(sample, 1, 0) = -kHuge;
  }
  CHECK(setup.Unpool(sums) == std::vector<size_t>{1});
  expected = well;
  std::fill_n(expected.begin() + static_cast<ptrdiff_t>(setup.position(1, 1)), 3, 0.0F);
  CHECK(SameBits(sums, expected));
}

TEST_CASE("Several features are dropped at once, for NaN or for a sum that overflows") {
  // Features 0 and 3 share a row of the first table.
  Setup setup = TwoSamples({1, 1, 2, 1, 4});
  setup.gradient(0, 1, 2) = std::numeric_limits<float>::quiet_NaN();
  setup.gradient(1, 4, 0) = -std::numeric_limits<float>::infinity();
  for (size_t sample = 0; sample < 2; ++sample) setup.gradient(sample, 0, 3) = kHuge;
  std::vector<float> sums;
  CHECK(setup.Unpool(sums) == std::vector<size_t>{0, 1, 3, 4});
  std::vector<float> expected(sums.size());
  std::fill_n(expected.begin() + static_cast<ptrdiff_t>(setup.position(2, 2)), 4, 2.0F);
  CHECK(SameBits(sums, expected));
}

TEST_CASE("An overflow that appears only after a feature was dropped is detected") {
  const BatchLayout layout = LayoutWith(std::vector<PoolingRule>(kFeatures));
  BatchBuilder builder({std::begin(kLists), std::end(kLists)}, 0);
  for (int sample = 0; sample < 2; ++sample) {
    builder.AddId(0, 1);  // Overflows: twice in a sample.
    builder.AddId(0, 1);
    builder.AddId(0, 2);  // Compensates feature 2.
    builder.AddId(2, 2);
    builder.AddId(4, 3);
    builder.EndSample();
  }
  Random random(1);
  Setup setup(layout, builder.Build()->sparse, random);
  std::ranges::fill(setup.gradients, 1.0F);
  for (size_t sample = 0; sample < 2; ++sample) {
    setup.gradient(sample, 0, 0) = -kHuge;
    setup.gradient(sample, 2, 0) = kHuge;
  }
  std::vector<float> sums;
  CHECK(setup.Unpool(sums) == std::vector<size_t>{0, 2});
  std::vector<float> expected(sums.size());
  std::fill_n(expected.begin() + static_cast<ptrdiff_t>(setup.position(4, 3)), 4, 2.0F);
  CHECK(SameBits(sums, expected));
}

}  // namespace
}  // namespace simurgh
