// Train and evaluation parity: the same rows are the same tensors, masks of raw features and all,
// whether the trainer reads them, evaluates on them, or a loader feeds them.

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "base/random.h"
#include "config/cluster_config.h"
#include "data/batch/encoded_batch.h"
#include "services/nn_worker/loader_buffer.h"
#include "services/nn_worker/training_job.h"
#include "tests/unit/data/data_files.h"

namespace simurgh {
namespace {

constexpr size_t kRows = 500;
constexpr size_t kBatch = 64;

// Label, a number that may be missing, lists of 0 to 7 words, seconds, lists of weighed words.
std::string Rows() {
  Random random(1);
  std::string rows;
  for (size_t r = 0; r < kRows; ++r) {
    absl::StrAppend(&rows, random.Below(2), ",");
    if (random.Below(5) > 0) absl::StrAppend(&rows, random.Below(90));
    absl::StrAppend(&rows, ",");
    const uint64_t words = random.Below(8);
    for (uint64_t i = 0; i < words; ++i) {
      absl::StrAppend(&rows, i > 0 ? " " : "", "w", random.Below(40));
    }
    absl::StrAppend(&rows, ",", 1'600'000'000 + random.Below(90), ",");
    const uint64_t scores = random.Below(4);
    for (uint64_t i = 0; i < scores; ++i) {
      absl::StrAppend(&rows, i > 0 ? "|" : "", "w", random.Below(40), " = 0.", random.Below(9));
    }
    absl::StrAppend(&rows, "\n");
  }
  return rows;
}

class Parity {
 protected:
  Parity() {
    folder_.Write("train.csv", Rows());
    folder_.Write("test.csv", Rows());
    const auto config = LoadClusterConfig(folder_.Write("parity.yaml", R"(

cluster: {name: parity}
embedding_ps: {instances: [{address: "127.0.0.1:1"}]}
embedding_worker: {instances: [{address: "127.0.0.1:2"}]}
nn_worker: {instances: [{}]}
tables: [{name: words, dim: 2}, {name: ages, dim: 2}]
features:
  - {name: first, column: words, table: words, pooling: raw, max_length: 5, mask: true}
  - {name: age, table: ages, quantiles: 4}
  - name: stacked
    column: words
    table: words
    pooling: raw
    max_length: 3
    keep: last
    mask: true
    hash_stack: {rounds: 2, buckets: 100}
  - {name: weighed, column: scores, table: words, pooling: weighted_sum, weight_separator: "="}
  - {name: stamp, table: ages, boundaries: [1600000000.5, 1600000040, 1600000041]}
  - {name: both, columns: [words, stamp], table: words, modulo: 1000}
  - {name: known, column: words, table: words, vocabulary: [w1, w2, w3], oov_ids: 2, missing: id}
data:
  train: [train.csv]
  test: [test.csv]
  columns:
    - {name: label, kind: label}
    - {name: age, kind: dense, fit: true, transform: log1p}
    - {name: words, kind: id, separator: " "}
    - {name: stamp, kind: id}
    - {name: scores, kind: id, separator: "|"}
model: {towers: [{name: top, input: [dense, embeddings], layers: [{linear: 1}]}]}
)"),
                                          {});
    INFO(config.status().ToString());
    REQUIRE(config.ok());
    config_ = *config;
    REQUIRE(FitStatistics(config_.data, config_.features).ok());
    masks_.emplace(config_.features);
  }

  std::unique_ptr<BatchReader> Open(const std::vector<std::string>& files,
                                    const ReadOptions& options) {
    auto reader = OpenBatchReader(config_.data, config_.features, files, kBatch, options);
    REQUIRE(reader.ok());
    return *std::move(reader);
  }

  std::vector<Batch> All(std::unique_ptr<BatchReader> reader) {
    const auto job = NewJobReader(std::move(reader), *masks_, skipped_, &labels_);
    std::vector<Batch> batches;
    while (true) {
      auto batch = job->Next();
      REQUIRE(batch.ok());
      if (!batch->has_value()) return batches;
      batches.push_back(**std::move(batch));
    }
  }

  TemporaryFolder folder_;
  ClusterConfig config_;
  std::optional<RawMasks> masks_;
  Counter skipped_;
  LabelCounts labels_{{"label"}};
};

void RequireSame(const std::vector<Batch>& ones, const std::vector<Batch>& others) {
  REQUIRE(ones.size() == others.size());
  for (size_t i = 0; i < ones.size(); ++i) {
    CAPTURE(i);
    REQUIRE(ones[i].dense.width == others[i].dense.width);
    REQUIRE(ones[i].dense.values == others[i].dense.values);
    REQUIRE(ones[i].dense.labels == others[i].dense.labels);
    REQUIRE(ones[i].sparse->ids == others[i].sparse->ids);
    REQUIRE(ones[i].sparse->lists == others[i].sparse->lists);
    REQUIRE(ones[i].sparse->occurrences == others[i].sparse->occurrences);
    REQUIRE(ones[i].sparse->offsets == others[i].sparse->offsets);
    REQUIRE(ones[i].sparse->weights == others[i].sparse->weights);
  }
}

// How many columns of a sample from `first` on are 1; none behind a 0.
size_t Filled(const Batch& batch, size_t sample, size_t first, size_t count) {
  const float* const mask = batch.dense.matrix().row(sample).data() + first;
  size_t filled = 0;
  while (filled < count && mask[filled] == 1.0F) ++filled;
  for (size_t i = filled; i < count; ++i) REQUIRE(mask[i] == 0.0F);
  return filled;
}

TEST_CASE_METHOD(Parity, "Training and evaluation see the same rows as the same tensors") {
  const std::vector<Batch> train =
      All(Open(config_.data.train, {.keep_negatives = 1.0, .seed = config_.seed}));
  RequireSame(train, All(Open(config_.data.test, {})));
  size_t rows = 0;
  for (const Batch& batch : train) {
    REQUIRE(batch.dense.width == 1 + 5 + 3);
    for (size_t s = 0; s < batch.size(); ++s, ++rows) {
      const size_t first = Filled(batch, s, 1, 5);
      CHECK(first == std::min<size_t>(batch.sparse->feature(0).sample(s).size(), 5));
      CHECK(Filled(batch, s, 6, 3) == std::min<size_t>(first, 3));
    }
  }
  CHECK(rows == kRows);
}

TEST_CASE("Labels of one class are found, by column") {
  LabelCounts labels({"click", "buy"});
  CHECK(labels.Warnings().empty());
  labels.Add({.batch_size = 2, .labels = {1, 0, 1, 0}, .tasks = 2});
  CHECK(labels.Warnings() ==
        std::vector<std::string>{
            "all 2 training labels of column 'click' that this rank read are 1; check the column, "
            "and `positive` if its labels are texts",
            "all 2 training labels of column 'buy' that this rank read are 0; check the column, "
            "and `positive` if its labels are texts"});
  labels.Add({.batch_size = 1, .labels = {1, 1}, .tasks = 2});
  CHECK(labels.Warnings().size() == 1);
  labels.Add({.batch_size = 1, .labels = {0, 0}, .tasks = 2});
  CHECK(labels.Warnings().empty());
}

TEST_CASE_METHOD(Parity, "Fed batches equal those that the trainer would have read") {
  constexpr uint32_t kLoaders = 2;
  LoaderBuffer buffer(kLoaders, kRows, /*capacity_bytes=*/1 << 20, std::chrono::minutes(1));
  for (uint32_t loader = 0; loader < kLoaders; ++loader) {
    REQUIRE(buffer.Open(loader)->taken == 0);
    const auto share = Open(config_.data.train, {.share = loader, .shares = kLoaders});
    uint64_t number = 0;
    while (true) {
      auto batch = *share->Next();
      if (!batch.has_value()) break;
      // As sent.
      batch->sparse =
          std::make_shared<const CompactBatch>(*DecodeBatch(*EncodeBatch(*batch->sparse)));
      auto reserved = *buffer.Reserve(loader, number++, /*bytes=*/1);
      REQUIRE(reserved.answer == LoaderBuffer::Answer::kRoom);
      REQUIRE(reserved.place->Fill(*std::move(batch)).ok());
    }
    REQUIRE(buffer.End(loader, number).ok());
  }
  RequireSame(All(Open(config_.data.train, {})), All(NewLoaderReader(buffer)));
}

}  // namespace
}  // namespace simurgh
