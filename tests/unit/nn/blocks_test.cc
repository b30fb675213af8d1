// Batches in blocks of the network, for the program's backend.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include <catch2/catch.hpp>

#include "nn/dense_network.h"
#include "tests/unit/nn/test_backend.h"
#include "tests/unit/nn/test_models.h"

namespace simurgh::testing {
namespace {

constexpr size_t kDense = 3;
constexpr size_t kEmbeddings = 6;

std::unique_ptr<DenseNetwork> MakeNetwork() {
  DenseNetworkOptions options;
  options.inputs = TestInputs(kDense);
  options.optimizer = {.kind = DenseOptimizerConfig::Kind::kAdam};
  auto network = CreateTestNetwork(SharedInputs(), options);
  REQUIRE(network.ok());
  return std::move(*network);
}

bool SameBits(std::span<const float> a, std::span<const float> b) {
  const auto bits = [](float value) { return std::bit_cast<uint32_t>(value); };
  return std::ranges::equal(a, b, {}, bits, bits);
}

TEST_CASE("memory of blocks that is reused or still in use changes no result") {
  const auto network = MakeNetwork();
  const auto expected = MakeNetwork();
  Random random(5);
  std::shared_ptr<BatchBlock> kept;  // Keeps a second block in use.
  for (const size_t rows : {7, 64, 1, 0, 33, 64}) {
    CAPTURE(rows);
    const TestBatch batch(rows, kDense, kEmbeddings, random);
    const auto block = network->blocks().Lease(rows, true);
    REQUIRE(block->embeddings.rows() == rows);
    REQUIRE(block->embeddings.columns() == kEmbeddings);
    std::ranges::copy(batch.embedding_values, block->embeddings.flat().begin());
    std::vector<float> gradient(rows * kEmbeddings);
    std::vector<float> probabilities[2] = {std::vector<float>(rows), std::vector<float>(rows)};
    const auto result =
        network->ForwardBackward(*block, batch.dense(), batch.labels, probabilities[0]);
    const auto wanted = ComputeGradients(*expected, batch.dense(), batch.embeddings(), batch.labels,
                                         {gradient.data(), rows, kEmbeddings}, probabilities[1]);
    REQUIRE(result.ok());
    REQUIRE(wanted.ok());
    CHECK(std::memcmp(&result->loss, &wanted->loss, sizeof(double)) == 0);
    CHECK(SameBits(block->gradients.flat(), gradient));
    CHECK(SameBits(probabilities[0], probabilities[1]));
    CHECK(network->ApplyGradients(0.1F).ok());
    CHECK(expected->ApplyGradients(0.1F).ok());
    kept = block;
  }
  CHECK(SameBits(network->parameters(), expected->parameters()));
}

TEST_CASE("predictions on a block without gradients are those of a block with them") {
  const auto network = MakeNetwork();
  Random random(6);
  for (const size_t rows : {1, 50, 9}) {
    CAPTURE(rows);
    const TestBatch batch(rows, kDense, kEmbeddings, random);
    const auto block = network->blocks().Lease(rows, false);
    CHECK(block->gradients.rows() == 0);
    std::ranges::copy(batch.embedding_values, block->embeddings.flat().begin());
    std::vector<float> actual(rows);
    std::vector<float> expected(rows);
    REQUIRE(network->Predict(*block, batch.dense(), actual).ok());
    const auto trained = network->blocks().Lease(rows, true);
    std::ranges::copy(batch.embedding_values, trained->embeddings.flat().begin());
    REQUIRE(network->Predict(*trained, batch.dense(), expected).ok());
    CHECK(SameBits(actual, expected));
  }
}

TEST_CASE("released blocks are reused, and blocks may outlive their network") {
  std::shared_ptr<BatchBlock> left;
  {
    const auto network = MakeNetwork();
    const float* place = nullptr;
    {
      const auto first = network->blocks().Lease(40, true);
      const auto second = network->blocks().Lease(40, true);
      place = first->embeddings.data();
      CHECK(second->embeddings.data() != place);
      CHECK(second->gradients.data() != first->gradients.data());
    }
    const auto again = network->blocks().Lease(40, true);
    left = network->blocks().Lease(40, true);
    const auto uses = [place](const BatchBlock& block) {
      return block.embeddings.data() == place || block.gradients.data() == place;
    };
    CHECK((uses(*again) || uses(*left)));
  }
  std::ranges::fill(left->embeddings.flat(), 1.0F);
  std::ranges::fill(left->gradients.flat(), 1.0F);
}

}  // namespace
}  // namespace simurgh::testing
