// Layers against PyTorch in f64, forward and backward.

#include <algorithm>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/support/temporary_folder.h"
#include "tests/unit/nn/test_models.h"
#include "tests/unit/nn/torch_check.h"

namespace simurgh::testing {
namespace {

TEST_CASE("Sequences and experts have the gradients of PyTorch in f64") {
  // The lengths differ by sample. In the second batch no sample has a row.
  const bool has_rows = GENERATE(true, false);
  Random random(3);
  const TestBatch batch =
      SequenceBatch(11, random, [&](size_t row) { return has_rows ? row % (kTestPlaces + 1) : 0; });
  const TemporaryFolder folder;
  CheckAgainstTorch(Sequences(), SequenceInputs(), batch, folder.path());
}

TEST_CASE("Activations, norms and fusions have the gradients of PyTorch in f64") {
  Random random(4);
  const ModelInputs inputs = TestInputs(5);
  const TestBatch batch(70, inputs.dense_width, inputs.embedding_width, random, 2);
  const TemporaryFolder folder;
  CheckAgainstTorch(Fusions(), inputs, batch, folder.path());
}

TEST_CASE("Empty places count nothing, whatever their embeddings are") {
  Random random(4);
  TestBatch batch = SequenceBatch(8, random, [](size_t row) { return row % (kTestPlaces + 1); });
  const auto network = CreateCpuNetwork(Sequences(), {.inputs = SequenceInputs()});
  REQUIRE(network.ok());
  std::vector<float> before(batch.labels.size());
  std::vector<float> after(batch.labels.size());
  REQUIRE(PredictFrom(**network, batch.dense(), batch.embeddings(), before).ok());
  size_t changed = 0;
  for (size_t row = 0; row < batch.rows; ++row) {
    for (size_t l = row % (kTestPlaces + 1); l < kTestPlaces; ++l, ++changed) {
      float* place = &batch.embedding_values[row * batch.embedding_width + kTestDim * (1 + l)];
      std::fill_n(place, kTestDim, 7.0F);
    }
  }
  CHECK(changed > 10);
  REQUIRE(PredictFrom(**network, batch.dense(), batch.embeddings(), after).ok());
  CHECK(after == before);
  // But the rows count.
  std::ranges::fill(batch.embedding_values, 7.0F);
  REQUIRE(PredictFrom(**network, batch.dense(), batch.embeddings(), after).ok());
  CHECK(after != before);
}

}  // namespace
}  // namespace simurgh::testing
