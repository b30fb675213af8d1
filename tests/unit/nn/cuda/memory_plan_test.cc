#include "nn/cuda/memory_plan.h"

#include <algorithm>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/unit/nn/test_models.h"

namespace simurgh::testing {
namespace {

using cuda::BatchMemory;
using cuda::MatrixRegion;
using cuda::Region;
using cuda::RegionPlanner;

ModelPlan PlanOf(const ModelConfig& model) {
  auto plan = PlanModel(model, TestInputs(3));
  REQUIRE(plan.ok());
  return *plan;
}

cuda::WireCodes CodesOf(const ModelPlan& plan, VectorPrecision precision = VectorPrecision::kF32) {
  return {plan, {.dims = {5, 1}, .embeddings = precision, .gradients = precision}};
}

void CheckMatrix(const MatrixRegion& matrix, size_t rows, size_t columns, size_t element_bytes) {
  CHECK(matrix.columns == columns);
  CHECK(matrix.stride >= columns);
  CHECK(matrix.stride * element_bytes % cuda::kRowAlignment == 0);
  CHECK(matrix.region.bytes >= rows * matrix.stride * element_bytes);
}

TEST_CASE("regions of a block are disjoint and aligned") {
  RegionPlanner planner;
  Random random(7);
  size_t end = 0;
  for (int i = 0; i < 1'000; ++i) {
    const Region region = planner.Add(random.Below(1'000));
    CHECK(region.offset % cuda::kRegionAlignment == 0);
    CHECK(region.offset >= end);
    end = region.offset + region.bytes;
    CHECK(end <= planner.bytes());
  }
}

TEST_CASE("matrices of a batch are aligned and large enough, for any model and batch") {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const ModelPlan plan = PlanOf(RandomModel(random));
    for (const size_t element_bytes : {2, 4}) {
      const size_t rows = 1 + random.Below(300);
      const BatchMemory memory = cuda::PlanBatch(plan, CodesOf(plan), rows, element_bytes);
      REQUIRE(memory.towers.size() == plan.towers.size());
      for (size_t t = 0; t < plan.towers.size(); ++t) {
        const TowerPlan& tower = plan.towers[t];
        CheckMatrix(memory.towers[t].input, rows, tower.input_width, element_bytes);
        REQUIRE(memory.towers[t].layers.size() == tower.layers.size());
        for (size_t i = 0; i < tower.layers.size(); ++i) {
          const bool is_logit = t + 1 == plan.towers.size() && i + 1 == tower.layers.size();
          const cuda::LayerMemory& layer = memory.towers[t].layers[i];
          CheckMatrix(layer.output, rows, tower.layers[i].output_width,
                      is_logit ? 4 : element_bytes);
          CheckMatrix(layer.output_gradient, rows, tower.layers[i].output_width, element_bytes);
        }
      }
    }
  }
}

TEST_CASE("a linear layer and the gelu after it share only their gradient") {
  const ModelPlan plan = PlanOf(Chain({Linear(130), Gelu(), Gelu(), Linear(1)}));
  const BatchMemory memory = cuda::PlanBatch(plan, CodesOf(plan), 33, 2);
  const std::vector<cuda::LayerMemory>& layers = memory.towers[0].layers;
  CHECK(layers[0].has_gelu);
  CHECK(layers[1].is_fused_gelu);
  CHECK(layers[0].output.region.offset != layers[1].output.region.offset);
  CHECK(layers[0].output_gradient.region.offset == layers[1].output_gradient.region.offset);
  CHECK_FALSE(layers[2].is_fused_gelu);
  CHECK(layers[2].output_gradient.region.offset != layers[1].output_gradient.region.offset);
}

TEST_CASE("a linear layer and the relu after it share their output and have a mask") {
  const ModelPlan plan =
      PlanOf(Chain({Linear(130), Relu(), Linear(5), BatchNorm(), Relu(), Linear(1)}));
  const BatchMemory memory = cuda::PlanBatch(plan, CodesOf(plan), 33, 2);
  const std::vector<cuda::LayerMemory>& layers = memory.towers[0].layers;
  CHECK(layers[0].has_relu);
  CHECK(layers[1].is_fused);
  CHECK(layers[0].output.region.offset == layers[1].output.region.offset);
  CHECK(layers[0].output_gradient.region.offset == layers[1].output_gradient.region.offset);
  CHECK(layers[0].relu_mask.row_bits == 256);
  CHECK(layers[0].relu_mask.region.bytes == 33 * 256 / 8);
  CHECK_FALSE(layers[2].has_relu);
  CHECK_FALSE(layers[4].is_fused);
  CHECK(layers[3].output.region.offset != layers[4].output.region.offset);
}

TEST_CASE("scores of two towers have bounded memory, for any batch and block") {
  Random random(11);
  for (const bool counts : {false, true}) {
    ModelPlan plan = PlanOf(Chain({Linear(1)}));
    plan.is_in_batch = true;
    plan.counts_items = counts;
    for (int i = 0; i < 300; ++i) {
      const size_t capacity = 1 + random.Below(300);
      const size_t gathered = random.Below(2) * random.Below(900);
      const size_t floats = 1 + random.Below(1 << random.Below(18));
      const BatchMemory memory =
          cuda::PlanBatch(plan, CodesOf(plan), capacity, 2, 0, {floats, gathered});
      const size_t items = capacity + random.Below(std::max(capacity, gathered) - capacity + 1);
      const size_t rows = random.Below(capacity + 1);
      const size_t block = cuda::ScoreRows(floats, rows, items);
      CAPTURE(capacity, gathered, floats, items, rows, block);
      CHECK(block >= 1);
      CHECK(block <= std::max<size_t>(rows, 1));
      const size_t scores = block * cuda::ScoreStride(items);
      CHECK(scores <= std::max(floats, cuda::ScoreStride(items)));
      CHECK(memory.in_batch.scores.bytes >= 4 * scores);
      CHECK(memory.in_batch.score_gradients.bytes >= 2 * scores);
      CHECK(memory.in_batch.sums.bytes >= 4 * block * cuda::kScoreLanes);
      CHECK(memory.in_batch.staged.bytes >= cuda::PlanItems(plan, rows, items).bytes);
    }
  }
}

TEST_CASE("a batch's transfer holds its inputs and results consecutively") {
  const ModelPlan plan = PlanOf(Chain({Linear(1)}));
  for (const size_t rows : {1, 7, 64, 1000}) {
    const cuda::BatchTransfer transfer = cuda::PlanTransfer(plan, CodesOf(plan), rows);
    CHECK(transfer.dense.bytes == rows * 3 * 4);
    CHECK(transfer.embeddings.bytes == rows * 6 * 4);
    CHECK(transfer.labels.offset >= transfer.embeddings.offset + transfer.embeddings.bytes);
    CHECK(transfer.input_bytes >= transfer.labels.offset + transfer.labels.bytes);
    CHECK(transfer.report.offset == 0);
    CHECK(transfer.embedding_gradient.bytes == rows * 6 * 4);
    CHECK(transfer.output_bytes >=
          transfer.embedding_gradient.offset + transfer.embedding_gradient.bytes);
    const cuda::BatchTransfer larger = cuda::PlanTransfer(plan, CodesOf(plan), rows + 1);
    CHECK(larger.input_bytes >= transfer.input_bytes);
    CHECK(larger.output_bytes >= transfer.output_bytes);
  }
}

TEST_CASE(
    "a batch's transfer has what travels of embeddings, and rounding's key where it is used") {
  const ModelPlan plan = PlanOf(Chain({Linear(1)}));
  for (const auto& [precision, row_bytes] : {std::pair{VectorPrecision::kBf16, 12},
                                             {VectorPrecision::kF16, 12},
                                             {VectorPrecision::kInt8, 16}}) {
    const cuda::WireCodes codes = CodesOf(plan, precision);
    const cuda::BatchTransfer transfer = cuda::PlanTransfer(plan, codes, 7);
    CHECK(transfer.embeddings.bytes == 7 * static_cast<size_t>(row_bytes));
    CHECK(transfer.embedding_gradient.bytes == 7 * static_cast<size_t>(row_bytes));
    const bool is_int8 = precision == VectorPrecision::kInt8;
    CHECK(transfer.rounding.bytes == (is_int8 ? sizeof(RoundingKey) : 0));
    CHECK(transfer.input_bytes >= transfer.rounding.offset + transfer.rounding.bytes);
    const BatchMemory memory = cuda::PlanBatch(plan, codes, 7, 4);
    CHECK(memory.embedding_gradient.bytes == 7 * 6 * 4);
  }
  CHECK(cuda::PlanBatch(plan, CodesOf(plan), 7, 4).embedding_gradient.bytes == 0);
}

TEST_CASE("parts of a batch of rows whose size varies come last") {
  const ModelPlan plan = PlanOf(Chain({Linear(1)}));
  const cuda::WireCodes codes(
      plan, {.dims = {2, 2, 2},
             .embeddings = VectorPrecision::kBf16,
             .rows = {{.dim = 2, .rule = {.kind = Pooling::kRaw, .length = 2}}, {.dim = 2}}});
  REQUIRE(codes.pools());
  CompactBatch few{.batch_size = 2,
                   .ids = {7, 8},
                   .occurrences = {0, 0},
                   .offsets = {0, 1, 1, 1, 2},
                   .unique_ends = {1, 2}};
  CompactBatch many{.batch_size = 2,
                    .ids = {7, 8, 9},
                    .occurrences = {0, 1, 0},
                    .offsets = {0, 2, 2, 2, 3},
                    .unique_ends = {2, 3},
                    .weights = {1, 2, 3}};
  const cuda::BatchTransfer less = cuda::PlanTransfer(plan, codes, 2, &few);
  const cuda::BatchTransfer more = cuda::PlanTransfer(plan, codes, 2, &many);
  for (const auto region : {&cuda::BatchTransfer::dense, &cuda::BatchTransfer::labels,
                            &cuda::BatchTransfer::first_bytes, &cuda::BatchTransfer::offsets}) {
    CHECK((less.*region).offset == (more.*region).offset);
    CHECK((less.*region).bytes == (more.*region).bytes);
    CHECK((less.*region).offset < less.occurrences.offset);
  }
  CHECK(less.embeddings.bytes == 0);
  CHECK(less.first_bytes.bytes == 4 * sizeof(uint64_t));
  CHECK(less.offsets.bytes == 5 * sizeof(uint32_t));
  CHECK(less.rows.bytes == 2 * 4);
  CHECK(more.occurrences.bytes == 3 * sizeof(uint32_t));
  CHECK(more.weights.bytes == 3 * sizeof(float));
  CHECK(more.rows.bytes == 3 * 4);
  CHECK(more.input_bytes >= more.rows.offset + more.rows.bytes);
  const BatchMemory memory = cuda::PlanBatch(plan, codes, 2, 4, 100'000);
  CHECK(memory.input[0].bytes == 100'000);
  CHECK(memory.pooled.bytes == 2 * 6 * 4);
}

TEST_CASE("copies of a tower's first weight are padded to the rows of its input") {
  const ModelPlan plan = PlanOf(Chain({Linear(4), Linear(1)}));  // 9 inputs.
  const cuda::WeightMemory memory = cuda::PlanWeights(plan, CodesOf(plan), {}, 2);
  CHECK(memory.copies[0][0].padded_rows == 16);
  CHECK(memory.copies[0][1].padded_rows == 4);
  CheckMatrix(memory.copies[0][0].weight, 16, 4, 2);
}

}  // namespace
}  // namespace simurgh::testing
