#include <algorithm>
#include <limits>

#include "embedding/row_codec.h"
#include "nn/batch_block.h"
#include "nn/cpu/compute_threads.h"
#include "tests/unit/nn/cuda/pooling_runs.h"

namespace simurgh::testing {
namespace {

class CpuPooler final : public RowPooler {
 public:
  explicit CpuPooler(const EmbeddingWire& wire)
      : rows_(wire.embeddings, wire.rows), blocks_(BlocksOf(wire)) {}

  std::vector<float> Pool(std::shared_ptr<const CompactBatch> ids,
                          const std::vector<std::byte>& encoded) override {
    const auto block = blocks_->LeaseFor(ids, false);
    SIMURGH_CHECK_EQ(block->encoded_embeddings.bytes.size(), encoded.size());
    std::ranges::copy(encoded, block->encoded_embeddings.bytes.begin());
    const std::span<float> embeddings = block->embeddings.flat();
    std::ranges::fill(embeddings, std::numeric_limits<float>::quiet_NaN());
    rows_.Pool(*block->ids, block->encoded_embeddings.bytes, block->embeddings, cpu::ForEachPart);
    return {embeddings.begin(), embeddings.end()};
  }

 private:
  static std::unique_ptr<BlockPool> BlocksOf(const EmbeddingWire& wire) {
    size_t width = 0;
    for (const uint32_t dim : wire.dims) width += dim;
    return NewBlockPool(width, wire);
  }

  const RowCodec rows_;
  const std::unique_ptr<BlockPool> blocks_;
};

}  // namespace

std::unique_ptr<RowPooler> NewTestPooler(const EmbeddingWire& wire) {
  return std::make_unique<CpuPooler>(wire);
}

}  // namespace simurgh::testing
