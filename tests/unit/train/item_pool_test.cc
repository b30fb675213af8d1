// Items that training draws as negatives.

#include "train/item_pool.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "config/cluster_config.h"
#include "data/reading/batch_reader.h"
#include "embedding/raw_masks.h"
#include "nn/two_towers.h"
#include "tests/support/temporary_folder.h"
#include "train/dense_weights.h"

namespace simurgh::testing {
namespace {

// Clicks whose rows have all columns, and a file of items with some of them, in another order.
struct Files {
  Files() {
    std::ofstream(folder.Path("train.csv")) << "user,item,price,kinds,click,weight\n"
                                               "u1,a,1.5,x|y,1,2\n"
                                               "u2,b,2.5,y,0,1\n"
                                               "u1,c,0.5,,1,1\n";
    std::ofstream(items) << "kinds,title,item,price\n"
                            "y,second,b,2.5\n"
                            "x|y,first,a,1.5\n"
                            ",third,c,0.5\n"
                            "z,new,d,9\n";
    std::ofstream(folder.Path("config.yaml")) << R"(
cluster: {name: items}
tables:
  - {names: [user, item, kinds], dim: 4}
data:
  format: csv
  train: [train.csv]
  csv: {header: true}
  columns:
    - {name: user, kind: id}
    - {name: item, kind: id}
    - {name: price, kind: dense}
    - {name: kinds, kind: id, separator: "|"}
    - {name: click, kind: label}
    - {name: weight, kind: weight}
features:
  - {name: user, table: user}
  - {name: item, table: item}
  - {name: kinds, table: kinds, pooling: raw, mask: true, max_length: 3}
model:
  towers:
    - {name: user, input: [embeddings.user], layers: [{linear: 4}]}
    - {name: item, input: [dense, embeddings.item, embeddings.kinds], layers: [{linear: 4}]}
    - {name: top, input: [user, item], layers: [{dot: 4}]}
  loss: {kind: in_batch_softmax}
training: {batch_size: 3}
)";
  }

  TemporaryFolder folder;
  std::string items = folder.Path("items.csv");
};

// The pool of a file that may lack the columns of users.
StatusOr<ItemPool> PoolOf(const ClusterConfig& config, const std::string& file) {
  DataConfig data = config.data;
  for (ColumnConfig& column : data.columns) column.may_lack = column.name == "user";
  data.csv.strict = false;
  return ItemPool::Read(data, config.features, {file});
}

TEST_CASE("Uniform negatives are the items' rows, without a user") {
  const Files files;
  const auto config = LoadClusterConfig(files.folder.Path("config.yaml"), {});
  CAPTURE(config.status().ToString());
  REQUIRE(config.ok());
  const auto columns = ColumnsOfTwoTowers(config->model, InputsOf(*config));
  REQUIRE(columns.ok());
  auto pool = PoolOf(*config, files.items);
  CAPTURE(pool.status().ToString());
  REQUIRE(pool.ok());
  CHECK(pool->size() == 4);

  auto reader = OpenBatchReader(config->data, config->features, config->data.train, 3);
  REQUIRE(reader.ok());
  auto read = (*reader)->Next();
  REQUIRE((read.ok() && read->has_value()));
  Batch batch = **std::move(read);
  const RawMasks masks(config->features);
  masks.AppendTo(batch);
  const DenseBatch before = batch.dense;
  REQUIRE(pool->AddTo(batch, {1, 3, 0, 1}).ok());
  REQUIRE(batch.sparse->Validate().ok());
  CHECK(batch.size() == 7);
  CHECK(batch.dense.uniform_negatives == 4);
  SetKeys(*columns, batch);
  const std::vector<uint64_t>& keys = batch.dense.item_keys;
  CHECK(keys[3] == keys[0]);
  CHECK(keys[5] == keys[1]);
  CHECK(keys[6] == keys[0]);
  CHECK(std::ranges::count(keys, keys[4]) == 1);
  CHECK(batch.sparse->feature(0).sample(3).empty());
  CHECK(std::equal(before.values.begin(), before.values.end(), batch.dense.values.begin()));
  CHECK(std::equal(before.labels.begin(), before.labels.begin() + 3, batch.dense.labels.begin()));
  for (size_t i = 3; i < 7; ++i) CHECK(std::isnan(batch.dense.labels[i]));
  REQUIRE(batch.dense.weights().size() == 7);
  CHECK(std::ranges::equal(batch.dense.weights().first(3), before.weights()));
  for (const float weight : batch.dense.weights().subspan(3)) CHECK(weight == 0);

  // A rank without samples of its own.
  Batch none;
  auto sparse = std::make_shared<CompactBatch>();
  sparse->offsets = {0};
  sparse->unique_ends.resize(3);
  none.sparse = sparse;
  none.dense.width = batch.dense.width;
  REQUIRE(pool->AddTo(none, {2}).ok());
  SetKeys(*columns, none);
  CHECK(none.dense.item_keys[0] == keys[2]);
  CHECK(none.dense.labels.size() == 2);
}

TEST_CASE("Draws of a step repeat, and are uniform") {
  const Files files;
  const auto config = LoadClusterConfig(files.folder.Path("config.yaml"), {});
  REQUIRE(config.ok());
  const auto pool = PoolOf(*config, files.items);
  REQUIRE(pool.ok());
  std::vector<int> counts(pool->size());
  for (uint64_t step = 0; step < 1'000; ++step) {
    for (uint64_t n = 0; n < 8; ++n) {
      ++counts[pool->Draw(7, step, n)];
      CHECK(pool->Draw(7, step, n) == pool->Draw(7, step, n));
    }
  }
  // 2,000 each; the deviation is below 39.
  for (const int count : counts) CHECK(std::abs(count - 2'000) < 200);
}

TEST_CASE("A file of items needs the item's columns and a row") {
  const Files files;
  const auto config = LoadClusterConfig(files.folder.Path("config.yaml"), {});
  REQUIRE(config.ok());
  const auto error = [&](const std::string& text) {
    const std::string path = files.folder.Path("bad.csv");
    std::ofstream(path) << text;
    return std::string(PoolOf(*config, path).status().message());
  };
  CHECK_THAT(error("item,price\na,1\n"), Catch::Contains("kinds"));
  CHECK_THAT(error("item,price,kinds\n"), Catch::Contains("has no item"));
  CHECK_THAT(error("item,price,kinds\na,much,x\n"), Catch::Contains("price"));
}

}  // namespace
}  // namespace simurgh::testing
