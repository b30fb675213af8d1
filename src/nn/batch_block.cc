#include "nn/batch_block.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "base/aligned_buffer.h"
#include "base/check.h"
#include "embedding/row_codec.h"
#include "nn/model_plan.h"
#include "tensor/finite.h"

namespace simurgh {
namespace {

using Source = TowerInput::Source;

// Merges neighbours that are also neighbours in the embeddings, to copy them at once.
std::vector<TowerInput> Merged(const std::vector<TowerInput>& inputs) {
  std::vector<TowerInput> merged;
  for (const TowerInput& input : inputs) {
    const bool continues = !merged.empty() && input.source == Source::kEmbeddings &&
                           merged.back().source == Source::kEmbeddings && input.places == 1 &&
                           merged.back().places == 1 &&
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
  std::vector<std::shared_ptr<AlignedBuffer>> memory;
};

class OrdinaryPool final : public BlockPool {
 public:
  OrdinaryPool(size_t embedding_width, const EmbeddingWire& wire)
      : width_(embedding_width),
        wire_(wire.dims.empty() ? EmbeddingWire() : wire),
        embedding_bytes_(RowBytes(wire_.embeddings)),
        gradient_bytes_(RowBytes(wire_.gradients)),
        rows_(wire.embeddings, wire.rows),
        buffers_(kIdleBytes) {}

  std::shared_ptr<BatchBlock> Lease(size_t rows, bool with_gradients) override {
    return LeaseWithRows(rows, with_gradients, nullptr);
  }

  std::shared_ptr<BatchBlock> LeaseFor(const std::shared_ptr<const CompactBatch>& ids,
                                       bool with_gradients) override {
    const bool as_rows = SendsRows(wire_, rows_, *ids, ids->batch_size * embedding_bytes_);
    return LeaseWithRows(ids->batch_size, with_gradients, as_rows ? ids : nullptr);
  }

 private:
  // Returns the bytes of a sample's pooled vectors.
  size_t RowBytes(VectorPrecision precision) const {
    return precision == VectorPrecision::kF32 ? width_ * sizeof(float)
                                              : VectorCodec(precision, wire_.dims).row_bytes();
  }

  // ids: the ids of a block of rows; null for pooled embeddings.
  std::shared_ptr<BatchBlock> LeaseWithRows(size_t rows, bool with_gradients,
                                            const std::shared_ptr<const CompactBatch>& ids) {
    auto block = std::make_shared<OrdinaryBlock>();
    const auto lease = [&](VectorPrecision precision, size_t bytes) -> BatchBlock::Encoded {
      block->memory.push_back(buffers_.Lease(bytes));
      return {.precision = precision, .bytes = block->memory.back()->bytes().first(bytes)};
    };
    // Returns an empty matrix unless the part is f32.
    const auto matrix_of = [&](const BatchBlock::Encoded& part) -> MatrixView<float> {
      if (part.precision != VectorPrecision::kF32) return {};
      return {reinterpret_cast<float*>(part.bytes.data()), rows, width_};
    };
    // Rows are pooled into f32.
    block->encoded_embeddings = ids == nullptr
                                    ? lease(wire_.embeddings, rows * embedding_bytes_)
                                    : lease(VectorPrecision::kF32, rows * width_ * sizeof(float));
    block->embeddings = matrix_of(block->encoded_embeddings);
    if (ids != nullptr) {
      block->encoded_embeddings = lease(rows_.precision(), rows_.bytes(*ids));
      block->encoded_embeddings.form = EmbeddingForm::kRows;
      block->ids = ids;
    }
    if (!with_gradients) return block;
    block->encoded_gradients = lease(wire_.gradients, rows * gradient_bytes_);
    block->gradients = matrix_of(block->encoded_gradients);
    if (ids != nullptr && SendsRowGradients(wire_, rows_, *ids, rows * gradient_bytes_)) {
      block->encoded_gradients = lease(VectorPrecision::kF32, rows_.floats(*ids) * sizeof(float));
      block->encoded_gradients.form = EmbeddingForm::kRows;
    }
    if (wire_.gradients != VectorPrecision::kF32) block->gradient_factor = wire_.gradient_factor;
    block->rounding.seed = wire_.seed;
    return block;
  }

  const size_t width_;
  const EmbeddingWire wire_;
  const size_t embedding_bytes_;
  const size_t gradient_bytes_;
  const RowCodec rows_;  // Has no features if blocks hold pooled embeddings.
  BufferPool buffers_;
};

}  // namespace

std::unique_ptr<BlockPool> NewBlockPool(size_t embedding_width, const EmbeddingWire& wire) {
  return std::make_unique<OrdinaryPool>(embedding_width, wire);
}

EmbeddingCheck::EmbeddingCheck(std::vector<ModelInputs::Feature> features, EmbeddingWire wire)
    : features_(std::move(features)), wire_(std::move(wire)) {
  for (const ModelInputs::Feature& feature : features_) width_ += feature.width;
  if (wire_.dims.empty()) wire_.dims = {static_cast<uint32_t>(width_)};
}

template <typename Visit>
void EmbeddingCheck::ForEach(const BatchBlock& block, size_t samples, const Visit& visit) const {
  if (features_.empty() || samples == 0) return;
  MatrixView<const float> embeddings = block.embeddings;
  std::vector<float> decoded;
  if (embeddings.rows() == 0) {  // A device has encoded embeddings only.
    decoded.resize(samples * width_);
    const MatrixView<float> matrix(decoded.data(), samples, width_);
    const BatchBlock::Encoded& encoded = block.encoded_embeddings;
    if (block.ids != nullptr) {
      RowCodec(encoded.precision, wire_.rows)
          .Pool(*block.ids, encoded.bytes, matrix,
                [](size_t count, size_t, auto work) { work(0, count); });
    } else {
      VectorCodec(encoded.precision, wire_.dims).Decode(encoded.bytes, 1.0F, matrix);
    }
    embeddings = matrix;
  }
  SIMURGH_CHECK_EQ(embeddings.columns(), width_);
  size_t column = 0;
  for (size_t f = 0; f < features_.size(); ++f) {
    visit(f, embeddings.Columns(column, features_[f].width));
    column += features_[f].width;
  }
}

void EmbeddingCheck::Count(const BatchBlock& block, size_t samples,
                           std::span<double> counts) const {
  ForEach(block, samples, [&](size_t f, MatrixView<const float> own) {
    for (size_t row = 0; row < samples; ++row) {
      if (AllFinite(own.row(row))) continue;
      ++counts[f];
      break;
    }
  });
}

std::vector<FeatureNorms> EmbeddingCheck::Norms(const BatchBlock& block, size_t samples) const {
  std::vector<FeatureNorms> all;
  ForEach(block, samples, [&](size_t f, MatrixView<const float> own) {
    FeatureNorms& one = all.emplace_back(FeatureNorms{.feature = features_[f].name, .norms = {}});
    for (size_t row = 0; row < samples; ++row) {
      double squares = 0;
      for (const float value : own.row(row)) squares += double{value} * value;
      one.norms.push_back(static_cast<float>(std::sqrt(squares)));
    }
  });
  return all;
}

void EmbeddingCheck::CountUnseen(const BatchBlock& block, const CompactBatch& ids,
                                 std::span<double> counts) const {
  const MatrixView<const float> embeddings = block.embeddings;
  if (embeddings.rows() < ids.batch_size || ids.feature_count() != features_.size()) return;
  size_t column = 0;
  for (size_t f = 0; f < features_.size(); ++f) {
    const MatrixView<const float> own = embeddings.Columns(column, features_[f].width);
    column += features_[f].width;
    const FeatureView view = ids.feature(f);
    for (size_t row = 0; row < ids.batch_size; ++row) {
      if (view.sample(row).empty()) continue;
      ++counts[f];
      const std::span<const float> values = own.row(row);
      const bool is_unseen = std::ranges::all_of(values, [](float value) { return value == 0; });
      counts[features_.size() + f] += is_unseen ? 1 : 0;
    }
  }
}

std::string EmbeddingCheck::Names(std::span<const double> counts) const {
  std::string names;
  for (size_t f = 0; f < features_.size(); ++f) {
    if (counts[f] > 0) absl::StrAppend(&names, names.empty() ? "" : ", ", features_[f].name);
  }
  return names;
}

std::string EmbeddingCheck::Problem(std::span<const double> counts) const {
  const std::string names = Names(counts);
  if (names.empty()) return names;
  return absl::StrCat("embeddings are not finite of features: ", names,
                      "; lower the learning_rate or weight_decay of their tables and restart the "
                      "servers");
}

}  // namespace simurgh
