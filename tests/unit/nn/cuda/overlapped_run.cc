#include "tests/unit/nn/cuda/overlapped_run.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "data/batch/batch_builder.h"
#include "tests/unit/nn/cuda/training_run.h"

namespace simurgh::testing {
namespace {

constexpr size_t kDense = 5;
constexpr size_t kEmbeddings = 24;
constexpr uint64_t kBatches = 28;

// Growing sizes reallocate memory while batches are in flight; repeated sizes replay graphs.
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

// With rows that differ from step to step.
std::shared_ptr<BatchBlock> RowBlockOf(DenseNetwork& network, uint64_t step, size_t samples,
                                       bool with_gradients, const RowCodec& codec) {
  const auto ids = IdsOf(step, samples);
  std::vector<std::byte> encoded;
  Random random(step + 177);
  codec.ForEachId(*ids, [&](size_t, const VectorCodec& row) {
    std::vector<float> numbers(row.columns());
    for (float& number : numbers) number = static_cast<float>(random.Normal());
    std::vector<std::byte> bytes(row.row_bytes());
    row.Encode({numbers.data(), 1, numbers.size()}, 1, std::nullopt, bytes);
    encoded.insert(encoded.end(), bytes.begin(), bytes.end());
  });
  auto block = network.blocks().LeaseFor(ids, with_gradients);
  if (block->encoded_embeddings.form == EmbeddingForm::kPooled) {
    codec.Pool(*ids, encoded, block->embeddings,
               [](size_t count, size_t, auto work) { work(0, count); });
    return block;
  }
  REQUIRE(block->encoded_embeddings.precision == codec.precision());
  REQUIRE(block->encoded_embeddings.bytes.size() == encoded.size());
  std::ranges::copy(encoded, block->encoded_embeddings.bytes.begin());
  return block;
}

// rows: null for embeddings as they are.
std::shared_ptr<BatchBlock> BlockOf(DenseNetwork& network, uint64_t step, bool with_gradients,
                                    const RowCodec* rows) {
  const TestBatch batch = BatchOf(step);
  if (rows != nullptr) {
    return RowBlockOf(network, step, batch.rows, with_gradients, *rows);
  }
  auto block = network.blocks().Lease(batch.rows, with_gradients);
  std::ranges::copy(batch.embedding_values, block->embeddings.flat().begin());
  return block;
}

std::vector<float> PredictOn(DenseNetwork& network, const RowCodec* rows) {
  constexpr uint64_t kStep = 100;
  const TestBatch batch = BatchOf(kStep);
  const auto block = BlockOf(network, kStep, false, rows);
  std::vector<float> predictions(batch.rows);
  CHECK(network.Predict(*block, batch.dense(), predictions).ok());
  return predictions;
}

// Returns the gradients and clears them, to detect late reads.
std::vector<float> TakeGradients(DenseNetwork& network, std::shared_ptr<BatchBlock> block) {
  REQUIRE(network.AwaitGradients(*block).ok());
  std::vector<float> gradients(block->gradients.flat().begin(), block->gradients.flat().end());
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  std::ranges::fill(block->gradients.flat(), kNan);
  std::ranges::fill(block->encoded_embeddings.bytes, std::byte{0xff});
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

BlockRun TrainInBlocks(DenseNetwork& network, Overlap overlap, const RowCodec* rows) {
  constexpr float kRate = 0.05F;
  constexpr uint64_t kPrediction = 9;  // The step before it.
  BlockRun results;
  std::deque<std::shared_ptr<BatchBlock>> ahead;
  std::vector<std::shared_ptr<BatchBlock>> done;
  const auto load = [&](uint64_t step) {
    const TestBatch batch = BatchOf(step);
    ahead.push_back(BlockOf(network, step, true, rows));
    network.Load(*ahead.back(), batch.dense(), batch.labels);
  };
  const auto take_gradients = [&] {
    for (std::shared_ptr<BatchBlock>& block : std::exchange(done, {})) {
      results.gradients.push_back(TakeGradients(network, std::move(block)));
    }
  };
  size_t started = 0;
  for (uint64_t step = 0; step < kBatches; ++step) {
    const TestBatch batch = BatchOf(step);
    const TestBatch next = BatchOf(step + 1);
    if (ahead.empty()) ahead.push_back(BlockOf(network, step, true, rows));
    const auto block = ahead.front();
    ahead.pop_front();
    std::vector<float> probabilities(batch.rows);
    const auto meanwhile = [&] {
      if (overlap == Overlap::kNone) return;
      if (ahead.empty()) load(step + 1);
      if (overlap == Overlap::kCopies) return take_gradients();
      if (step == kPrediction || step + 1 == kBatches) return;
      if (!network.StartNext(*ahead.front(), next.dense(), next.labels, {.step = step + 1})) {
        return;
      }
      ++started;
      load(step + 2);
    };
    if (overlap == Overlap::kPasses) REQUIRE(network.ApplyNext(kRate));
    const auto result = network.ForwardBackward(*block, batch.dense(), batch.labels, probabilities,
                                                {.step = step}, meanwhile);
    REQUIRE(result.ok());
    results.losses.push_back(result->loss);
    results.probabilities.push_back(probabilities);
    if (overlap != Overlap::kPasses) REQUIRE(network.ApplyGradients(kRate).ok());
    done.push_back(block);
    // Takes the slot of a batch that has been loaded.
    if (step == kPrediction) results.predictions = PredictOn(network, rows);
    if (overlap == Overlap::kNone) take_gradients();
  }
  CHECK((started > kBatches / 2) == (overlap == Overlap::kPasses));
  take_gradients();
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
