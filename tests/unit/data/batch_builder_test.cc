#include "data/batch/batch_builder.h"

#include <algorithm>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"

namespace simurgh {
namespace {

struct Sample {
  float label = 0.0F;
  std::vector<float> dense;
  std::vector<std::vector<uint64_t>> ids;  // Per feature.
};

Sample RandomSample(Random& random, size_t features, size_t width) {
  Sample sample{.label = static_cast<float>(random.Below(2)),
                .dense = std::vector<float>(width),
                .ids = std::vector<std::vector<uint64_t>>(features)};
  for (float& value : sample.dense) value = static_cast<float>(random.Normal());
  for (auto& ids : sample.ids) {
    ids.resize(random.Below(5));
    for (uint64_t& id : ids) id = random.Below(2) == 0 ? random.Below(20) : random.Below(100'000);
  }
  return sample;
}

void Add(BatchBuilder& builder, const Sample& sample) {
  builder.SetLabel(sample.label);
  for (size_t c = 0; c < sample.dense.size(); ++c) builder.SetDense(c, sample.dense[c]);
  for (size_t f = 0; f < sample.ids.size(); ++f) {
    for (const uint64_t id : sample.ids[f]) builder.AddId(f, id);
  }
}

// The slow, obvious reading of the contract.
void CheckEqual(const Batch& batch, const std::vector<Sample>& samples) {
  REQUIRE(batch.sparse->Validate().ok());
  REQUIRE(batch.size() == samples.size());
  REQUIRE(batch.sparse->batch_size == samples.size());
  for (size_t b = 0; b < samples.size(); ++b) {
    for (size_t c = 0; c < samples[b].dense.size(); ++c) {
      REQUIRE(batch.dense.values[b * batch.dense.width + c] == samples[b].dense[c]);
    }
    REQUIRE(batch.dense.labels[b] == samples[b].label);
  }
  for (size_t f = 0; f < batch.sparse->feature_count(); ++f) {
    const FeatureView view = batch.sparse->feature(f);
    std::vector<uint64_t> appearance;
    for (size_t b = 0; b < samples.size(); ++b) {
      std::vector<uint64_t> ids;
      for (const uint32_t occurrence : view.sample(b)) ids.push_back(view.ids[occurrence]);
      REQUIRE(ids == samples[b].ids[f]);
      for (const uint64_t id : ids) {
        if (std::find(appearance.begin(), appearance.end(), id) == appearance.end()) {
          appearance.push_back(id);
        }
      }
    }
    REQUIRE(std::vector(view.ids.begin(), view.ids.end()) == appearance);
  }
}

TEST_CASE("Batches equal the samples that went in, batch after batch, whatever was abandoned") {
  const uint64_t seed = GENERATE(range(1, 31));
  INFO("seed " << seed);
  Random random(seed);
  const size_t features = random.Below(4);
  const size_t width = random.Below(4);
  BatchBuilder builder(features, width);
  for (int round = 0; round < 4; ++round) {
    std::vector<Sample> samples;
    for (size_t count = random.Below(300); count > 0; --count) {
      const Sample sample = RandomSample(random, features, width);
      Add(builder, sample);
      if (random.Below(4) == 0) {
        builder.AbandonSample();
      } else {
        builder.EndSample();
        samples.push_back(sample);
      }
      REQUIRE(builder.size() == samples.size());
    }
    if (random.Below(2) == 0) Add(builder, RandomSample(random, features, width));  // Left open.
    const StatusOr<Batch> batch = builder.Build();
    REQUIRE(batch.ok());
    CheckEqual(*batch, samples);
  }
}

TEST_CASE("Samples of other builders are as if they had been set here") {
  Random random(11);
  BatchBuilder whole({0, 1, 0}, 2, 2, /*is_weighted=*/true);
  BatchBuilder all({0, 1, 0}, 2, 2, true);
  for (int round = 0; round < 4; ++round) {
    const bool one_each = round == 3;
    BatchBuilder part({0, 1, 0}, 2, 2, true);
    const size_t samples = 100 + random.Below(100);
    std::vector<uint64_t> column;  // Ids of feature 1.
    std::vector<uint32_t> ends;
    for (size_t s = 0; s < samples; ++s) {
      const uint64_t id = random.Below(30);
      const size_t ids = one_each ? 1 : random.Below(3);
      for (BatchBuilder* builder : {&part, &whole}) {
        builder->SetLabel(static_cast<float>(s % 2), 1);
        builder->SetDense(1, static_cast<float>(s));
        builder->SetWeight(static_cast<float>(s % 7));
        if (round == 1 && s % 3 == 0) builder->SetGroup(s + 1);
        builder->AddId(0, id, round == 2 && s == 50 ? 0.5F : 1.0F);
        builder->AddId(2, id + s % 2);
        for (size_t i = 0; builder == &whole && i < ids; ++i) builder->AddId(1, s + i);
        builder->EndSample();
        builder->AddId(0, 77);
        builder->AbandonSample();
      }
      for (size_t i = 0; i < ids; ++i) column.push_back(s + i);
      ends.push_back(static_cast<uint32_t>(column.size()));
    }
    if (one_each) ends.clear();
    part.SetIds(1, column, ends);
    const size_t first = random.Below(samples);
    if (first > 0) all.Append(part, 0, first);
    all.Append(part, first, samples - first);
    part.Clear();
    CHECK(part.size() == 0);
  }
  REQUIRE(all.size() == whole.size());
  const auto one = all.Build();
  const auto other = whole.Build();
  REQUIRE(one.ok());
  REQUIRE(other.ok());
  CHECK(one->dense.labels == other->dense.labels);
  CHECK(one->dense.values == other->dense.values);
  CHECK(one->dense.groups == other->dense.groups);
  CHECK(one->sparse->ids == other->sparse->ids);
  CHECK(one->sparse->offsets == other->sparse->offsets);
  CHECK(one->sparse->occurrences == other->sparse->occurrences);
  CHECK(one->sparse->weights == other->sparse->weights);
}

TEST_CASE("Appended samples have no more ids than others") {
  BatchBuilder part(1, 0);
  part.LiftLimit();
  for (size_t i = 0; i <= kMaxBatchOccurrences; ++i) part.AddId(0, i % 7);
  part.EndSample();
  BatchBuilder whole(1, 0);
  whole.Append(part, 0, 1);
  CHECK(absl::IsInvalidArgument(whole.Build().status()));
  part.Clear();
  part.AddId(0, 1);
  part.EndSample();
  whole.Append(part, 0, 1);
  CHECK(whole.Build().ok());
}

TEST_CASE("Unset values read as zero, unset features as no ids") {
  BatchBuilder builder(1, 2);
  builder.SetLabel(1.0F);
  builder.SetDense(1, 5.0F);
  builder.AddId(0, 42);
  builder.EndSample();
  builder.EndSample();
  const StatusOr<Batch> batch = builder.Build();
  REQUIRE(batch.ok());
  CheckEqual(*batch, {{1.0F, {0.0F, 5.0F}, {{42}}}, {0.0F, {0.0F, 0.0F}, {{}}}});
}

TEST_CASE("Too many samples are refused, and the builder starts anew") {
  BatchBuilder builder(1, 1);
  for (size_t b = 0; b < kMaxBatchSamples; ++b) builder.EndSample();
  SECTION("at the limit") { CHECK(builder.Build().ok()); }
  SECTION("past the limit") {
    builder.EndSample();
    const StatusOr<Batch> batch = builder.Build();
    CHECK(batch.status().code() == absl::StatusCode::kInvalidArgument);
    CHECK_THAT(std::string(batch.status().message()), Catch::Contains("65536 samples"));
    CHECK(builder.size() == 0);
    builder.EndSample();
    CHECK(builder.Build()->size() == 1);
  }
}

TEST_CASE("Too many occurrences are refused, unless the sample is abandoned") {
  BatchBuilder builder(1, 0);
  builder.AddId(0, 1);
  builder.EndSample();
  for (size_t n = 0; n < kMaxBatchOccurrences; ++n) builder.AddId(0, 7);
  SECTION("finished") {
    builder.EndSample();
    const StatusOr<Batch> batch = builder.Build();
    CHECK(batch.status().code() == absl::StatusCode::kInvalidArgument);
    CHECK_THAT(std::string(batch.status().message()), Catch::Contains("10000001 ids"));
  }
  SECTION("abandoned") {
    builder.AbandonSample();
    const StatusOr<Batch> batch = builder.Build();
    REQUIRE(batch.ok());
    CHECK(batch->sparse->ids == std::vector<uint64_t>{1});
  }
}

TEST_CASE("Features that share a list read the ids that were added") {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    BatchBuilder builder({0, 1, 0, 1, 2}, 0);
    std::vector<std::vector<std::vector<uint64_t>>> ids(5);  // By feature and sample.
    const size_t samples = random.Below(50);
    for (size_t b = 0; b < samples; ++b) {
      const bool abandon = random.Below(4) == 0;
      for (size_t f = 0; f < 5; ++f) {
        std::vector<uint64_t> of_sample(random.Below(4));
        for (uint64_t& id : of_sample) {
          id = random.Below(40);
          builder.AddId(f, id);
        }
        if (!abandon) ids[f].push_back(of_sample);
      }
      if (abandon) {
        builder.AbandonSample();
      } else {
        builder.EndSample();
      }
    }
    const auto batch = builder.Build()->sparse;
    REQUIRE(batch->Validate().ok());
    REQUIRE(batch->lists == std::vector<uint32_t>{0, 1, 0, 1, 2});
    std::vector<std::vector<uint64_t>> appearance(3);  // By list, feature after feature.
    for (size_t f = 0; f < 5; ++f) {
      const FeatureView view = batch->feature(f);
      for (size_t b = 0; b < batch->batch_size; ++b) {
        std::vector<uint64_t> read;
        for (const uint32_t occurrence : view.sample(b)) read.push_back(view.ids[occurrence]);
        REQUIRE(read == ids[f][b]);
        for (const uint64_t id : read) {
          auto& seen = appearance[batch->lists[f]];
          if (std::ranges::find(seen, id) == seen.end()) seen.push_back(id);
        }
      }
    }
    for (size_t l = 0; l < 3; ++l) {
      const auto list = batch->list(l);
      REQUIRE(std::vector(list.begin(), list.end()) == appearance[l]);
    }
  }
}

TEST_CASE("Weights stay with their occurrences") {
  BatchBuilder builder(2, 0);
  builder.AddId(0, 1);
  builder.AddId(1, 2, 0.5F);
  builder.EndSample();
  builder.AddId(1, 3, 9.0F);
  builder.AbandonSample();
  builder.AddId(0, 1);
  builder.AddId(1, 2);
  builder.AddId(1, 3, -2.0F);
  builder.EndSample();
  CHECK(builder.Build()->sparse->weights == std::vector<float>{1, 1, 0.5F, 1, -2});
  builder.AddId(0, 1);
  builder.EndSample();
  CHECK(builder.Build()->sparse->weights.empty());
}

}  // namespace
}  // namespace simurgh
