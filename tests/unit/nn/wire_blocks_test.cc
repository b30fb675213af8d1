// Encoded blocks that the network converts, compared with the codec and a network with f32 blocks.

#include <algorithm>
#include <limits>
#include <optional>

#include <catch2/catch.hpp>

#include "nn/dense_network.h"
#include "tests/support/skip.h"
#include "tests/unit/nn/cuda/training_run.h"
#include "tests/unit/nn/test_backend.h"

namespace simurgh::testing {
namespace {

constexpr size_t kDense = 5;
constexpr size_t kEmbeddings = 24;
constexpr size_t kBatches = 9;

using Precision = VectorPrecision;

struct Case {
  Precision embeddings;
  Precision gradients;
  ComputePrecision compute = ComputePrecision::kF32;
};

EmbeddingWire WireOf(const Case& tested) {
  const float factor = tested.gradients == Precision::kF16 ? 1024.0F : 1.0F;
  return {.dims = {8, 1, 7, 5, 3},
          .embeddings = tested.embeddings,
          .gradients = tested.gradients,
          .gradient_factor = factor,
          .seed = 77};
}

TestBatch BatchOf(size_t step) {
  constexpr size_t kRows[] = {33, 1, 0, 96, 7};
  Random random(step + 1);
  return {kRows[step % std::size(kRows)], kDense, kEmbeddings, random};
}

struct Encoded {
  std::vector<std::byte> bytes;
  std::vector<float> numbers;
};

Encoded EncodedBy(const VectorCodec& code, MatrixView<const float> rows, float factor,
                  const std::optional<RoundingKey>& key) {
  Encoded encoded{.bytes = std::vector<std::byte>(rows.rows() * code.row_bytes()),
                  .numbers = std::vector<float>(rows.rows() * code.columns())};
  code.Encode(rows, factor, key, encoded.bytes);
  code.Decode(encoded.bytes, 1.0F / factor, {encoded.numbers.data(), rows.rows(), code.columns()});
  return encoded;
}

void CheckBytes(std::span<const std::byte> actual, std::span<const std::byte> expected) {
  CHECK(std::ranges::equal(actual, expected));
}

// The same step on both networks: with encoded embeddings, and with decoded ones.
void CheckStep(DenseNetwork& encoded, DenseNetwork& plain, const EmbeddingWire& wire, size_t step) {
  const TestBatch batch = BatchOf(step);
  const size_t rows = batch.rows;
  const Encoded in =
      EncodedBy({wire.embeddings, wire.dims}, batch.embeddings(), 1.0F, std::nullopt);

  const auto block = encoded.blocks().Lease(rows, true);
  REQUIRE(block->encoded_embeddings.precision == wire.embeddings);
  REQUIRE(block->encoded_embeddings.bytes.size() == in.bytes.size());
  REQUIRE(block->encoded_gradients.precision == wire.gradients);
  REQUIRE(block->gradient_factor == wire.gradient_factor);
  CHECK((block->embeddings.data() != nullptr) == (wire.embeddings == Precision::kF32));
  std::ranges::copy(in.bytes, block->encoded_embeddings.bytes.begin());
  std::ranges::fill(block->encoded_gradients.bytes, std::byte{0xff});
  block->rounding.step = step;
  block->rounding.first_row = FirstRowOf(3);
  std::vector<float> probabilities[2] = {std::vector<float>(rows), std::vector<float>(rows)};
  const auto result =
      encoded.ForwardBackward(*block, batch.dense(), batch.labels, probabilities[0]);
  REQUIRE(result.ok());
  REQUIRE(encoded.AwaitGradients(*block).ok());

  std::vector<float> gradient(rows * kEmbeddings);
  const auto expected =
      ComputeGradients(plain, batch.dense(), {in.numbers.data(), rows, kEmbeddings}, batch.labels,
                       {gradient.data(), rows, kEmbeddings}, probabilities[1]);
  REQUIRE(expected.ok());
  CHECK(result->loss == expected->loss);
  CHECK(SameBits(probabilities[0], probabilities[1]));
  const RoundingKey key{.seed = wire.seed, .step = step, .first_row = FirstRowOf(3)};
  CheckBytes(block->encoded_gradients.bytes,
             EncodedBy({wire.gradients, wire.dims}, {gradient.data(), rows, kEmbeddings},
                       wire.gradient_factor, key)
                 .bytes);
  REQUIRE(encoded.ApplyGradients(0.01F).ok());
  REQUIRE(plain.ApplyGradients(0.01F).ok());
}

TEST_CASE("embeddings and gradients that the network converts are the codec's, to the bit") {
  const Case tested =
      GENERATE(Case{Precision::kBf16, Precision::kBf16}, Case{Precision::kF16, Precision::kF16},
               Case{Precision::kInt8, Precision::kInt8}, Case{Precision::kInt8, Precision::kF32},
               Case{Precision::kF32, Precision::kInt8},
               Case{Precision::kBf16, Precision::kInt8, ComputePrecision::kBf16},
               Case{Precision::kInt8, Precision::kF16, ComputePrecision::kF16});
  CAPTURE(static_cast<int>(tested.embeddings), static_cast<int>(tested.gradients));
  if (!BackendHas(tested.compute)) SIMURGH_SKIP("the backend does not compute in this precision");
  const EmbeddingWire wire = WireOf(tested);
  const auto encoded = WiredNetwork(tested.compute, wire);
  const auto plain = WiredNetwork(tested.compute, {});
  for (size_t step = 0; step < kBatches; ++step) {
    CAPTURE(step);
    CheckStep(*encoded, *plain, wire, step);
  }
  CHECK(SameBits(encoded->parameters(), plain->parameters()));

  const TestBatch batch = BatchOf(3);
  const Encoded in =
      EncodedBy({wire.embeddings, wire.dims}, batch.embeddings(), 1.0F, std::nullopt);
  const auto block = encoded->blocks().Lease(batch.rows, false);
  CHECK(block->encoded_gradients.bytes.empty());
  std::ranges::copy(in.bytes, block->encoded_embeddings.bytes.begin());
  std::vector<float> actual(batch.rows);
  std::vector<float> expected(batch.rows);
  REQUIRE(encoded->Predict(*block, batch.dense(), actual).ok());
  REQUIRE(OutputsFrom(*plain, batch.dense(), {in.numbers.data(), batch.rows, kEmbeddings}, expected)
              .ok());
  CHECK(SameBits(actual, expected));
}

TEST_CASE("towers read their own columns of encoded embeddings") {
  const ModelConfig model{
      .towers = {{.name = "first", .inputs = {"embeddings.a"}, .layers = {Linear(4), Relu()}},
                 {.name = "top",
                  .inputs = {"first", "dense", "embeddings.b"},
                  .layers = {Linear(5), Relu(), Linear(1)}}}};
  DenseNetworkOptions options{.inputs = TestInputs(kDense)};
  const auto plain = CreateTestNetwork(model, options);
  options.wire = {.dims = std::vector<uint32_t>(kTestFeatures, kTestDim),
                  .embeddings = Precision::kBf16,
                  .gradients = Precision::kBf16};
  const auto encoded = CreateTestNetwork(model, options);
  REQUIRE(plain.ok());
  REQUIRE(encoded.ok());
  constexpr size_t kRows = 40;
  constexpr size_t kColumns = kTestFeatures * kTestDim;
  Random random(5);
  const TestBatch batch(kRows, kDense, kColumns, random);
  const Encoded in = EncodedBy({options.wire.embeddings, options.wire.dims}, batch.embeddings(),
                               1.0F, std::nullopt);
  const auto block = (*encoded)->blocks().Lease(kRows, true);
  std::ranges::copy(in.bytes, block->encoded_embeddings.bytes.begin());
  std::vector<float> actual(kRows);
  std::vector<float> expected(kRows);
  std::vector<float> gradient(kRows * kColumns);
  REQUIRE((*encoded)->ForwardBackward(*block, batch.dense(), batch.labels, actual).ok());
  REQUIRE((*encoded)->AwaitGradients(*block).ok());
  REQUIRE(ComputeGradients(**plain, batch.dense(), {in.numbers.data(), kRows, kColumns},
                           batch.labels, {gradient.data(), kRows, kColumns}, expected)
              .ok());
  CHECK(SameBits(actual, expected));
  CheckBytes(block->encoded_gradients.bytes,
             EncodedBy({options.wire.gradients, options.wire.dims},
                       {gradient.data(), kRows, kColumns}, 1.0F, std::nullopt)
                 .bytes);
}

TEST_CASE("an embedding that is not finite skips the step in every precision") {
  for (const Precision precision : {Precision::kBf16, Precision::kF16, Precision::kInt8}) {
    CAPTURE(static_cast<int>(precision));
    const EmbeddingWire wire = WireOf({precision, precision});
    const auto network = WiredNetwork(ComputePrecision::kF32, wire);
    TestBatch batch = BatchOf(0);
    batch.embedding_values[30] = std::numeric_limits<float>::infinity();
    const Encoded in =
        EncodedBy({wire.embeddings, wire.dims}, batch.embeddings(), 1.0F, std::nullopt);
    const auto block = network->blocks().Lease(batch.rows, true);
    std::ranges::copy(in.bytes, block->encoded_embeddings.bytes.begin());
    std::vector<float> probabilities(batch.rows);
    const auto result =
        network->ForwardBackward(*block, batch.dense(), batch.labels, probabilities);
    REQUIRE(result.ok());
    CHECK_FALSE(result->finite);
    CHECK(absl::IsFailedPrecondition(network->ApplyGradients(0.1F)));
  }
}

}  // namespace
}  // namespace simurgh::testing
