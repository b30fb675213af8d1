#include <algorithm>
#include <limits>

#include "nn/cpu/row_pool.h"
#include "simurgh/nn/batch_block.h"
#include "tests/unit/nn/cuda/pooling_runs.h"

namespace simurgh::testing {
namespace {

class CpuPooler final : public RowPooler {
 public:
  explicit CpuPooler(const EmbeddingWire& wire) : rows_(wire), blocks_(BlocksOf(wire)) {}

  std::vector<float> Pool(std::shared_ptr<const CompactBatch> ids,
                          std::shared_ptr<const KeptRows> kept,
                          const std::vector<std::byte>& coming) override {
    const auto block = blocks_->LeaseFor(std::move(ids), std::move(kept), false);
    SIMURGH_CHECK_EQ(block->coded_embeddings.bytes.size(), coming.size());
    std::ranges::copy(coming, block->coded_embeddings.bytes.begin());
    const std::span<float> embeddings = block->embeddings.flat();
    std::ranges::fill(embeddings, std::numeric_limits<float>::quiet_NaN());
    rows_.Pool(*block);
    return {embeddings.begin(), embeddings.end()};
  }

 private:
  static std::unique_ptr<BlockPool> BlocksOf(const EmbeddingWire& wire) {
    size_t width = 0;
    for (const uint32_t dim : wire.dims) width += dim;
    return NewBlockPool(width, wire);
  }

  cpu::RowPool rows_;
  const std::unique_ptr<BlockPool> blocks_;
};

}  // namespace

std::unique_ptr<RowPooler> NewTestPooler(const EmbeddingWire& wire) {
  return std::make_unique<CpuPooler>(wire);
}

}  // namespace simurgh::testing
