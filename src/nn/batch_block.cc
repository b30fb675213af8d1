#include "simurgh/nn/batch_block.h"

#include <iterator>
#include <set>
#include <utility>

#include "nn/input_blocks.h"
#include "simurgh/base/aligned_buffer.h"
#include "simurgh/data/row_codec.h"

namespace simurgh {
namespace {

using Source = TowerInput::Source;

// Merges neighbours that are also neighbours in the embeddings, to copy them at once.
std::vector<TowerInput> Merged(const std::vector<TowerInput>& inputs) {
  std::vector<TowerInput> merged;
  for (const TowerInput& input : inputs) {
    const bool continues = !merged.empty() && input.source == Source::kEmbeddings &&
                           merged.back().source == Source::kEmbeddings &&
                           merged.back().source_column + merged.back().width == input.source_column;
    if (continues) {
      merged.back().width += input.width;
    } else {
      merged.push_back(input);
    }
  }
  return merged;
}

// edges: embedding columns at which any tower's block begins or ends.
std::vector<TowerInput> Cut(const std::vector<TowerInput>& inputs, const std::set<size_t>& edges) {
  std::vector<TowerInput> blocks;
  for (TowerInput rest : inputs) {
    if (rest.source == Source::kEmbeddings) {
      const size_t end = rest.source_column + rest.width;
      for (auto edge = edges.upper_bound(rest.source_column); *edge < end; ++edge) {
        TowerInput block = rest;
        block.width = *edge - rest.source_column;
        blocks.push_back(block);
        rest.source_column += block.width;
        rest.column += block.width;
        rest.width -= block.width;
      }
    }
    blocks.push_back(rest);
  }
  return blocks;
}

void FindLastReaders(std::vector<TowerPlan>& towers) {
  for (size_t t = 0; t < towers.size(); ++t) {
    for (TowerInput& input : towers[t].inputs) {
      for (size_t later = t + 1; later < towers.size(); ++later) {
        for (const TowerInput& other : towers[later].inputs) {
          if (input.source == other.source && input.tower == other.tower &&
              input.source_column == other.source_column) {
            input.last_reader = false;
          }
        }
      }
    }
  }
}

}  // namespace

void PlanInputBlocks(ModelPlan& plan) {
  std::set<size_t> edges;
  for (TowerPlan& tower : plan.towers) {
    tower.inputs = Merged(tower.inputs);
    for (const TowerInput& input : tower.inputs) {
      if (input.source != Source::kEmbeddings) continue;
      edges.insert(input.source_column);
      edges.insert(input.source_column + input.width);
    }
  }
  std::set<size_t> read;  // First columns of the blocks.
  for (TowerPlan& tower : plan.towers) {
    tower.inputs = Cut(tower.inputs, edges);
    for (const TowerInput& input : tower.inputs) {
      if (input.source == Source::kEmbeddings) read.insert(input.source_column);
    }
  }
  FindLastReaders(plan.towers);

  edges.insert({0, plan.embedding_width});
  for (auto edge = edges.begin(); std::next(edge) != edges.end(); ++edge) {
    if (!read.contains(*edge)) {
      plan.unread_embeddings.push_back({*edge, *std::next(edge) - *edge});
    }
  }
}

namespace {

// Idle memory kept for later batches.
constexpr size_t kIdleBytes = size_t{1} << 30;

struct OrdinaryBlock final : BatchBlock {
  std::shared_ptr<AlignedBuffer> memory;
  size_t matrix_bytes = 0;  // Bytes of embeddings and gradients.
};

class OrdinaryPool final : public BlockPool {
 public:
  OrdinaryPool(size_t embedding_width, const EmbeddingWire& wire)
      : width_(embedding_width), rows_(wire.embeddings, wire.rows), buffers_(kIdleBytes) {}

  std::shared_ptr<BatchBlock> Lease(size_t rows, bool with_gradients) override {
    return LeaseWithRows(rows, with_gradients, 0);
  }

  std::shared_ptr<BatchBlock> LeaseFor(const std::shared_ptr<const CompactBatch>& ids,
                                       bool with_gradients) override {
    if (rows_.features().empty()) return Lease(ids->batch_size, with_gradients);
    const size_t bytes = rows_.bytes(*ids);
    auto block = LeaseWithRows(ids->batch_size, with_gradients, bytes);
    block->encoded_embeddings = {
        .precision = rows_.precision(),
        .bytes = block->memory->bytes().subspan(block->matrix_bytes, bytes),
        .form = EmbeddingForm::kRows};
    block->ids = ids;
    return block;
  }

 private:
  // One buffer for the matrices, each aligned to a cache line, followed by the rows.
  std::shared_ptr<OrdinaryBlock> LeaseWithRows(size_t rows, bool with_gradients, size_t row_bytes) {
    auto block = std::make_shared<OrdinaryBlock>();
    constexpr size_t kLine = kBufferAlignment;
    const size_t matrix = (rows * width_ * sizeof(float) + kLine - 1) / kLine * kLine;
    block->matrix_bytes = matrix * (with_gradients ? 2 : 1);
    block->memory = buffers_.Lease(block->matrix_bytes + row_bytes);
    const auto matrix_at = [&](size_t byte) {
      return MatrixView<float>(reinterpret_cast<float*>(block->memory->data() + byte), rows,
                               width_);
    };
    block->embeddings = matrix_at(0);
    block->encoded_embeddings.bytes = std::as_writable_bytes(block->embeddings.flat());
    if (with_gradients) {
      block->gradients = matrix_at(matrix);
      block->encoded_gradients.bytes = std::as_writable_bytes(block->gradients.flat());
    }
    return block;
  }

  const size_t width_;
  const RowCodec rows_;  // Without features if blocks hold pooled embeddings.
  BufferPool buffers_;
};

}  // namespace

std::unique_ptr<BlockPool> NewBlockPool(size_t embedding_width, const EmbeddingWire& wire) {
  return std::make_unique<OrdinaryPool>(embedding_width, wire);
}

}  // namespace simurgh
