// Keys of users and items: which inputs they are of, and when they are equal.

#include "nn/two_towers.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "data/batch/batch_builder.h"
#include "tests/unit/nn/test_models.h"

namespace simurgh::testing {
namespace {

ModelInputs Inputs() {
  return {.dense_width = 3,
          .embedding_width = 8,
          .features = {{"user", 2}, {"age", 2}, {"item", 2}, {"kinds", 2}}};
}

TEST_CASE("A side's inputs are those of its towers") {
  ModelConfig model{.towers = {{"mixed", {"embeddings.user", "dense"}, {Linear(4)}},
                               {"user", {"mixed", "embeddings.age"}, {Linear(4)}},
                               {"item", {"embeddings.kinds", "embeddings.item"}, {Linear(4)}},
                               {"top", {"user", "item"}, {Dot(4)}}},
                    .loss = {.kind = LossConfig::Kind::kInBatchSoftmax}};
  const auto found = ColumnsOfTwoTowers(model, Inputs());
  REQUIRE(found.ok());
  CHECK(found->user == TowerColumns{{0, 1}, {0, 1, 2}});
  CHECK(found->item == TowerColumns{{2, 3}, {}});
  // Without towers in between.
  model.towers = {
      {"user", {"embeddings.user", "embeddings.age", "embeddings.kinds", "dense"}, {Linear(2)}},
      {"top", {"user", "embeddings.item"}, {Dot(2)}}};
  const auto direct = ColumnsOfTwoTowers(model, Inputs());
  REQUIRE(direct.ok());
  CHECK(direct->item == TowerColumns{{2}, {}});
  CHECK(direct->user == TowerColumns{{0, 1, 3}, {0, 1, 2}});
  model.towers.pop_back();
  CHECK_FALSE(ColumnsOfTwoTowers(model, Inputs()).ok());
}

struct Sample {
  std::vector<uint64_t> item;
  std::vector<uint64_t> kinds = {};
  float price = 0;
  float weight = 1;  // The last kind has it.

  bool operator==(const Sample&) const = default;
};

std::vector<uint64_t> KeysOf(const std::vector<Sample>& samples, uint64_t users = 0) {
  BatchBuilder builder(/*feature_count=*/3, /*dense_width=*/2);
  for (const Sample& sample : samples) {
    builder.AddId(0, users++);
    for (const uint64_t id : sample.item) builder.AddId(1, id);
    for (size_t i = 0; i < sample.kinds.size(); ++i) {
      builder.AddId(2, sample.kinds[i], i + 1 == sample.kinds.size() ? sample.weight : 1.0F);
    }
    builder.SetDense(0, static_cast<float>(users));
    builder.SetDense(1, sample.price);
    builder.EndSample();
  }
  auto batch = builder.Build();
  REQUIRE(batch.ok());
  SetKeys({.user = {{0}, {0}}, .item = {{1, 2}, {1}}}, *batch);
  for (size_t i = 0; i < samples.size(); ++i) {
    for (size_t j = 0; j < i; ++j) CHECK(batch->dense.user_keys[i] != batch->dense.user_keys[j]);
  }
  return batch->dense.item_keys;
}

TEST_CASE("Equal inputs have equal keys, in any batch, and others do not") {
  const std::vector<Sample> samples = {{{5}},
                                       {{6}},
                                       {{}},
                                       {{5, 6}},
                                       {{6, 5}},
                                       {{5, 5}},
                                       {{5}, {6}},
                                       {{}, {5, 6}},
                                       {{}, {5}},
                                       {{5}, {}, 1.5F},
                                       {{5}, {6}, 0, 0.5F},
                                       {{5}, {6, 6}, 0, 0.5F},
                                       {{5}, {6, 6}},
                                       {{5}}};
  const std::vector<uint64_t> keys = KeysOf(samples);
  for (size_t i = 0; i < samples.size(); ++i) {
    for (size_t j = 0; j < samples.size(); ++j) {
      CAPTURE(i, j);
      CHECK((keys[i] == keys[j]) == (samples[i] == samples[j]));
    }
  }
  // The ids have other numbers there, and no sample has a weight.
  CHECK(KeysOf({samples[12], samples[4], samples[0]}, 100) ==
        std::vector<uint64_t>{keys[12], keys[4], keys[0]});
  CHECK(KeysOf({}).empty());
}

}  // namespace
}  // namespace simurgh::testing
