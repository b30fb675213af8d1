#include <limits>
#include <vector>

#include <catch2/catch.hpp>

#include "data/batch/batch_builder.h"
#include "embedding/row_codec.h"
#include "nn/batch_block.h"

namespace simurgh::testing {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

const std::vector<ModelInputs::Feature> kFeatures{{"a", 2}, {"b", 1}, {"c", 3}};

std::string NamesIn(const EmbeddingCheck& check, const BatchBlock& block, size_t samples) {
  std::vector<double> counts(check.features());
  check.Count(block, samples, counts);
  return check.Names(counts);
}

TEST_CASE("The features of embeddings that are not finite are named") {
  const EmbeddingCheck check(kFeatures, {});
  std::vector<float> values(12, 0.5F);
  BatchBlock block;
  block.embeddings = {values.data(), 2, 6};
  CHECK(NamesIn(check, block, 2).empty());
  values[5] = kNan;
  CHECK(NamesIn(check, block, 2) == "c");
  values[6] = kInfinity;
  CHECK(NamesIn(check, block, 2) == "a, c");
  CHECK(NamesIn(check, block, 0).empty());
  CHECK(NamesIn(EmbeddingCheck(), block, 2).empty());
}

TEST_CASE("The features are named in every precision of the wire") {
  const auto precision = GENERATE(VectorPrecision::kF32, VectorPrecision::kBf16,
                                  VectorPrecision::kF16, VectorPrecision::kInt8);
  const EmbeddingWire wire{.dims = {2, 1, 3}, .embeddings = precision};
  const EmbeddingCheck check(kFeatures, wire);
  std::vector<float> values(12, 0.5F);
  values[8] = kNan;
  const VectorCodec codec(precision, wire.dims);
  std::vector<std::byte> encoded(2 * codec.row_bytes());
  codec.Encode({values.data(), 2, 6}, 1.0F, std::nullopt, encoded);
  BatchBlock block;
  block.encoded_embeddings = {.precision = precision, .bytes = encoded};
  CHECK(NamesIn(check, block, 2) == "b");
}

TEST_CASE("The features are named in a block of rows") {
  BatchBuilder builder({0, 1}, 0);
  for (const uint64_t id : {1, 2}) {
    builder.AddId(0, id, 1.0F);
    builder.AddId(1, 10 + id, 1.0F);
    builder.EndSample();
  }
  const auto batch = builder.Build();
  REQUIRE(batch.ok());
  const EmbeddingWire wire{.rows = {{.dim = 2}, {.dim = 1}}};
  const RowCodec codec(VectorPrecision::kF32, wire.rows);
  const std::vector<float> rows{1, 2, 3, 4, 5, kNan};
  const std::vector<uint64_t> positions{0, 2, 4, 5};
  std::vector<std::byte> encoded(codec.bytes(*batch->sparse));
  codec.Encode(*batch->sparse, rows, positions, encoded);
  BatchBlock block;
  block.encoded_embeddings = {.bytes = encoded, .form = EmbeddingForm::kRows};
  block.ids = batch->sparse;
  CHECK(NamesIn(EmbeddingCheck({{"a", 2}, {"b", 1}}, wire), block, 2) == "b");
}

}  // namespace
}  // namespace simurgh::testing
