#include "tests/unit/nn/cuda/overlapped_run.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include <catch2/catch.hpp>

#include "simurgh/base/random.h"
#include "simurgh/data/batch_builder.h"
#include "tests/unit/nn/cuda/training_run.h"
#include "train/kept_row_plan.h"

namespace simurgh::testing {
namespace {

constexpr size_t kDense = 5;
constexpr size_t kEmbeddings = 24;
constexpr uint64_t kBatches = 28;

// The first ones grow, so that memory moves while batches are under way; then sizes come again, so
// that graphs are replayed.
TestBatch BatchOf(uint64_t step) {
  constexpr size_t kRows[] = {3, 17, 40, 40, 8, 40, 1};
  Random random(step + 1);
  return {kRows[step % std::size(kRows)], kDense, kEmbeddings, random};
}

// Lists of up to four ids, which differ from step to step.
std::shared_ptr<const CompactBatch> IdsOf(uint64_t step, size_t samples) {
  const std::vector<uint32_t> lists = ListsOfEveryPooling();
  BatchBuilder builder(lists, 0);
  Random random(step + 77);
  for (size_t s = 0; s < samples; ++s) {
    for (size_t f = 0; f < lists.size(); ++f) {
      for (uint64_t ids = random.Below(5); ids > 0; --ids) {
        // Every other batch has weights.
        const auto weight = static_cast<float>(random.Normal());
        builder.AddId(f, random.Below(10 + 10 * step), step % 2 == 0 ? 1.0F : weight);
      }
    }
    builder.EndSample();
  }
  return builder.Build()->sparse;
}

using Bytes = std::vector<std::byte>;
using RowKey = std::pair<size_t, uint64_t>;  // List, id.

// The rows of a run's batches: new numbers with each step, and, of those that are kept, the numbers
// of the step that brought them.
class RowSource {
 public:
  RowSource(const RowCodec& code, size_t slots) : code_(code) {
    // Lists stand for tables.
    if (slots > 0) plan_.emplace(slots, 2, ListsOfEveryPooling());
  }

  std::shared_ptr<BatchBlock> BlockOf(DenseNetwork& network, uint64_t step, size_t samples,
                                      bool with_gradients) {
    const auto ids = IdsOf(step, samples);
    std::shared_ptr<const KeptRows> kept;
    if (plan_ && with_gradients) kept = std::make_shared<const KeptRows>(plan_->Next(*ids));
    const std::vector<Bytes> rows = RowsOf(step, *ids, kept.get());
    auto block = network.blocks().LeaseFor(ids, kept, with_gradients);
    if (block->coded_embeddings.form == EmbeddingForm::kPooled) {
      std::vector<const std::byte*> places;
      for (const Bytes& row : rows) places.push_back(row.data());
      code_.Pool(*ids, places, block->embeddings);
      return block;
    }
    Bytes coming;
    for (size_t id = 0; id < rows.size(); ++id) {
      if (kept != nullptr && kept->is_here(id)) continue;
      coming.insert(coming.end(), rows[id].begin(), rows[id].end());
    }
    REQUIRE(block->coded_embeddings.precision == code_.precision());
    REQUIRE(block->coded_embeddings.bytes.size() == coming.size());
    std::ranges::copy(coming, block->coded_embeddings.bytes.begin());
    return block;
  }

  size_t hits() const { return hits_; }

 private:
  // The row of each id, as the batch is to see it.
  std::vector<Bytes> RowsOf(uint64_t step, const CompactBatch& ids, const KeptRows* kept) {
    std::vector<Bytes> rows;
    std::vector<RowKey> keys;
    for (size_t list = 0; list < ids.list_count(); ++list) {
      for (const uint64_t id : ids.list(list)) keys.emplace_back(list, id);
    }
    Random random(step + 177);
    code_.ForEachId(ids, [&](size_t id, const VectorCodec& row) {
      Bytes& bytes = rows.emplace_back(row.row_bytes());
      std::vector<float> numbers(row.columns());
      for (float& number : numbers) number = static_cast<float>(random.Normal());
      row.Encode({numbers.data(), 1, numbers.size()}, 1, std::nullopt, bytes);
      if (kept == nullptr || !kept->is_here(id)) return;
      bytes = in_slots_.at(keys[id]);
      ++hits_;
    });
    for (size_t id = 0; kept != nullptr && id < rows.size(); ++id) {
      if (!kept->is_here(id) && kept->slots[id] != KeptRows::kNoSlot)
        in_slots_[keys[id]] = rows[id];
    }
    return rows;
  }

  const RowCodec& code_;
  std::optional<KeptRowPlan> plan_;
  std::map<RowKey, Bytes> in_slots_;
  size_t hits_ = 0;
};

// Of embeddings as they are, where there is no source of rows.
std::shared_ptr<BatchBlock> BlockOf(DenseNetwork& network, uint64_t step, bool with_gradients,
                                    RowSource* rows) {
  const TestBatch batch = BatchOf(step);
  if (rows != nullptr) return rows->BlockOf(network, step, batch.rows, with_gradients);
  auto block = network.blocks().Lease(batch.rows, with_gradients);
  std::ranges::copy(batch.embedding_values, block->embeddings.flat().begin());
  return block;
}

std::vector<float> PredictOn(DenseNetwork& network, RowSource* rows) {
  constexpr uint64_t kStep = 100;
  const TestBatch batch = BatchOf(kStep);
  const auto block = BlockOf(network, kStep, false, rows);
  std::vector<float> predictions(batch.rows);
  CHECK(network.PredictOn(*block, batch.dense(), predictions).ok());
  return predictions;
}

// Takes what has come, and leaves nothing there for anybody who would look too late.
std::vector<float> TakeGradients(DenseNetwork& network, std::shared_ptr<BatchBlock> block) {
  REQUIRE(network.AwaitGradients(*block).ok());
  std::vector<float> gradients(block->gradients.flat().begin(), block->gradients.flat().end());
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  std::ranges::fill(block->gradients.flat(), kNan);
  std::ranges::fill(block->coded_embeddings.bytes, std::byte{0xff});
  return gradients;
}

}  // namespace

std::vector<FeatureRows> EveryPooling() {
  return {{.dim = 4, .rule = {.kind = Pooling::kSum}},
          {.dim = 3, .rule = {.kind = Pooling::kMean, .rows_per_id = 2}},
          {.dim = 4, .rule = {.kind = Pooling::kRaw, .length = 2}},
          {.dim = 5, .rule = {.kind = Pooling::kSqrtN}},
          {.dim = 2, .rule = {.kind = Pooling::kWeightedSum}},
          {.dim = 1, .rule = {.kind = Pooling::kRaw, .length = 2, .rows_per_id = 2}}};
}

std::vector<uint32_t> ListsOfEveryPooling() { return {0, 1, 0, 2, 3, 4}; }

BlockRun TrainInBlocks(DenseNetwork& network, bool overlapped, const RowCodec* row_code,
                       size_t row_slots) {
  std::optional<RowSource> source;
  if (row_code != nullptr) source.emplace(*row_code, row_slots);
  RowSource* const rows = source ? &*source : nullptr;
  BlockRun results;
  std::shared_ptr<BatchBlock> ahead;
  std::shared_ptr<BatchBlock> last;
  const auto take_last = [&] {
    if (last == nullptr) return;
    results.gradients.push_back(TakeGradients(network, std::exchange(last, nullptr)));
  };
  for (uint64_t step = 0; step < kBatches; ++step) {
    const TestBatch batch = BatchOf(step);
    const TestBatch next = BatchOf(step + 1);
    const auto block =
        ahead != nullptr ? std::exchange(ahead, nullptr) : BlockOf(network, step, true, rows);
    std::vector<float> probabilities(batch.rows);
    const auto meanwhile = [&] {
      if (!overlapped) return;
      ahead = BlockOf(network, step + 1, true, rows);
      network.Load(*ahead, next.dense(), next.labels);
      take_last();
    };
    const auto result = network.ForwardBackwardOn(*block, batch.dense(), batch.labels,
                                                  probabilities, {}, meanwhile);
    REQUIRE(result.ok());
    results.losses.push_back(result->loss);
    results.probabilities.push_back(probabilities);
    REQUIRE(network.ApplyGradients(0.05F).ok());
    last = block;
    // Takes the slot of a batch that has been loaded.
    if (step == 9) results.predictions = PredictOn(network, rows);
    if (!overlapped) take_last();
  }
  take_last();
  if (row_slots > 0) CHECK(rows->hits() > 0);
  const auto copy = [](std::span<const float> values) {
    return std::vector<float>(values.begin(), values.end());
  };
  results.parameters = copy(network.parameters());
  results.state = copy(network.state());
  return results;
}

void CheckSameRuns(const BlockRun& actual, const BlockRun& expected) {
  CHECK(actual.losses == expected.losses);
  REQUIRE(actual.gradients.size() == kBatches);
  for (uint64_t step = 0; step < kBatches; ++step) {
    CAPTURE(step);
    CHECK(SameBits(actual.gradients[step], expected.gradients[step]));
    CHECK(SameBits(actual.probabilities[step], expected.probabilities[step]));
  }
  CHECK(SameBits(actual.predictions, expected.predictions));
  CHECK(SameBits(actual.parameters, expected.parameters));
  CHECK(SameBits(actual.state, expected.state));
}

}  // namespace simurgh::testing
