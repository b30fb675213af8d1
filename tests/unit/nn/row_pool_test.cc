#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "data/batch/batch_builder.h"
#include "embedding/row_codec.h"
#include "nn/batch_block.h"
#include "nn/cpu/compute_threads.h"

namespace simurgh::cpu {
namespace {

constexpr size_t kSamples = 3'000;
constexpr size_t kWidth = 24;

std::shared_ptr<const CompactBatch> RandomIds(Random& random) {
  BatchBuilder builder(2, 0);
  for (size_t s = 0; s < kSamples; ++s) {
    for (size_t f = 0; f < 2; ++f) {
      for (int i = 0; i < 3; ++i) builder.AddId(f, random.Below(1 + random.Below(9'000)));
    }
    builder.EndSample();
  }
  return builder.Build()->sparse;
}

// Pooled embeddings of some batches of rows.
std::vector<std::vector<float>> PooledOn(uint32_t threads) {
  SetComputeThreads(threads);
  const RowCodec rows(VectorPrecision::kBf16,
                      {{.dim = 16, .rule = {.kind = Pooling::kMean}}, {.dim = 8}});
  Random random(9);
  std::vector<std::vector<float>> pooled;
  for (int step = 0; step < 4; ++step) {
    const auto ids = RandomIds(random);
    std::vector<std::byte> bytes(rows.bytes(*ids));
    for (size_t at = 0; at < bytes.size(); at += 2) {
      const auto number = static_cast<uint16_t>(0x3f80 + random.Below(64));  // bf16 from 1 to 1.5.
      std::memcpy(bytes.data() + at, &number, 2);
    }
    std::vector<float>& embeddings = pooled.emplace_back(kSamples * kWidth);
    rows.Pool(*ids, bytes, {embeddings.data(), kSamples, kWidth}, ForEachPart);
  }
  SetComputeThreads(1);
  return pooled;
}

TEST_CASE("rows are pooled to the same bytes on any number of threads") {
  const auto expected = PooledOn(1);
  CHECK(std::ranges::all_of(expected[3], [](float number) { return number >= 1; }));
  for (const uint32_t threads : {2, 3, 5}) CHECK(PooledOn(threads) == expected);
}

TEST_CASE("a block has the batch's rows if they are fewer bytes than its embeddings") {
  EmbeddingWire wire{.dims = {4}, .rows = {{.dim = 4}}, .smaller = true, .row_gradients = true};
  const auto blocks = NewBlockPool(4, wire);
  // Two samples of one embedding each, with this number of distinct ids.
  const auto form_with = [&](int ids) {
    BatchBuilder builder(1, 0);
    for (int s = 0; s < 2; ++s) {
      for (int i = 0; i < ids; ++i) builder.AddId(0, static_cast<uint64_t>(i));
      builder.EndSample();
    }
    const auto block = blocks->LeaseFor(builder.Build()->sparse, /*with_gradients=*/true);
    CHECK((block->ids != nullptr) == (block->encoded_embeddings.form == EmbeddingForm::kRows));
    CHECK(block->embeddings.rows() == 2);
    CHECK(block->gradients.rows() == 2);
    CHECK(block->encoded_gradients.form == block->encoded_embeddings.form);
    const size_t vectors = block->ids != nullptr ? static_cast<size_t>(ids) : 2;
    CHECK(block->encoded_gradients.bytes.size() == vectors * 4 * sizeof(float));
    return block->encoded_embeddings.form;
  };
  CHECK(form_with(1) == EmbeddingForm::kRows);
  CHECK(form_with(2) == EmbeddingForm::kPooled);
  CHECK(form_with(3) == EmbeddingForm::kPooled);
}

}  // namespace
}  // namespace simurgh::cpu
