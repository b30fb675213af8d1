#include "nn/cuda/memory_plan.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "nn/cpu/optimizer.h"
#include "nn/cuda/layer_norm_kernels.h"
#include "nn/cuda/loss_scale.h"
#include "nn/cuda/matrix.h"
#include "nn/cuda/reduction_kernels.h"

namespace simurgh::cuda {
namespace {

// Bytes; parts are aligned for floats and doubles.
constexpr size_t kPartAlignment = 16;

}  // namespace

std::vector<ColumnRange> PlanBuckets(const ModelPlan& plan, size_t bucket_floats) {
  std::vector<ColumnRange> buckets;
  ColumnRange open{.first = plan.parameter_count};
  for (auto tower = plan.towers.rbegin(); tower != plan.towers.rend(); ++tower) {
    for (auto layer = tower->layers.rbegin(); layer != tower->layers.rend(); ++layer) {
      if (layer->parameter_count == 0) continue;
      open.first = layer->parameter_offset;
      open.count += layer->parameter_count;
      if (open.count < bucket_floats && open.first > 0) continue;
      buckets.push_back(std::exchange(open, ColumnRange{.first = open.first}));
    }
  }
  return buckets;
}

BucketParts PlanParts(size_t count, uint32_t ranks, AllReduceConfig::Precision precision) {
  const size_t floats = (count + ranks - 1) / ranks;
  BucketParts parts{.count = count, .part_floats = floats};
  const size_t bytes =
      precision == AllReduceConfig::Precision::kBf16
          ? floats * sizeof(uint16_t)
          : floats + (floats + kWireChunk - 1) / kWireChunk * (kWireChunkBytes - kWireChunk);
  parts.part_bytes = (bytes + kPartAlignment - 1) / kPartAlignment * kPartAlignment;
  return parts;
}

namespace {

std::vector<uint32_t> DimsOf(const ModelPlan& plan, const EmbeddingWire& wire) {
  if (!wire.dims.empty() || plan.embedding_width == 0) return wire.dims;
  SIMURGH_CHECK(wire.embeddings == VectorPrecision::kF32);
  SIMURGH_CHECK(wire.gradients == VectorPrecision::kF32);
  return {static_cast<uint32_t>(plan.embedding_width)};
}

}  // namespace

WireCodes::WireCodes(const ModelPlan& plan, const EmbeddingWire& wire)
    : embeddings(wire.embeddings, DimsOf(plan, wire)),
      rows(wire.embeddings, wire.rows),
      gradients(wire.gradients, DimsOf(plan, wire)),
      gradient_factor(wire.gradient_factor),
      seed(wire.seed),
      table{0} {
  SIMURGH_CHECK_EQ(embeddings.columns(), plan.embedding_width);
  for (const uint32_t dim : embeddings.dims()) table.push_back(table.back() + dim);
  for (size_t v = 0; v < vectors(); ++v) {
    table.insert(table.end(), embeddings.dims()[v], static_cast<uint32_t>(v));
  }
  for (size_t f = 0; f < wire.rows.size(); ++f) {
    const auto& [dim, rule, _] = wire.rows[f];
    features.push_back({.rule = rule,
                        .dim = dim,
                        .first_column = static_cast<uint32_t>(feature_of.size()),
                        .row_bytes = static_cast<uint32_t>(rows.codec(f).row_bytes()),
                        .scale_offset = static_cast<uint32_t>(rows.codec(f).scales_offset())});
    feature_of.insert(feature_of.end(), rule.width(dim), static_cast<uint32_t>(f));
  }
  if (pools()) SIMURGH_CHECK_EQ(feature_of.size(), plan.embedding_width);
}

namespace {

using Kind = LayerConfig::Kind;

size_t RoundUp(size_t value, size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

WeightCopies PlanCopies(const TowerPlan& tower, size_t index, size_t element_bytes,
                        RegionPlanner& planner) {
  const LayerPlan& layer = tower.layers[index];
  WeightCopies copies;
  if (layer.config.kind != Kind::kLinear && layer.config.kind != Kind::kCross) return copies;
  const size_t rank = layer.config.rank;
  if (layer.config.kind == Kind::kCross && rank > 0) {
    copies.down = planner.AddMatrix(layer.input_width, rank, element_bytes);
    copies.up = planner.AddMatrix(rank, layer.output_width, element_bytes);
    copies.padded_rows = layer.input_width;
  } else {
    // A tower's input is padded with zeros, which the product may read.
    copies.padded_rows = index == 0 && layer.config.kind == Kind::kLinear
                             ? RoundUp(layer.input_width, kRowAlignment / element_bytes)
                             : layer.input_width;
    copies.weight = planner.AddMatrix(copies.padded_rows, layer.output_width, element_bytes);
  }
  copies.bias = planner.Add(layer.output_width * element_bytes);
  return copies;
}

// Adds the layer's parameters and their copies.
void AddBlocks(const LayerPlan& layer, const WeightCopies& copies,
               std::vector<CopiedBlock>& blocks) {
  size_t first = layer.parameter_offset;
  const auto add = [&](size_t offset, size_t rows, size_t columns, size_t stride) {
    blocks.push_back({.first = first,
                      .offset = offset,
                      .columns = static_cast<uint32_t>(columns),
                      .stride = static_cast<uint32_t>(stride)});
    first += rows * columns;
  };
  const auto add_matrix = [&](const MatrixRegion& copy, size_t rows) {
    if (copy.columns > 0) add(copy.region.offset, rows, copy.columns, copy.stride);
  };
  if (copies.padded_rows == 0) {
    if (layer.parameter_count > 0) blocks.push_back({.first = first});
    return;
  }
  add_matrix(copies.weight, layer.input_width);
  add_matrix(copies.down, layer.input_width);
  add_matrix(copies.up, layer.config.rank);
  add(copies.bias.offset, 1, layer.output_width, layer.output_width);
  SIMURGH_CHECK_EQ(first, layer.parameter_offset + layer.parameter_count);
}

// Adds the layers inside attention or self_attention.
void PlanInner(const LayerPlan& layer, size_t rows, size_t element_bytes, RegionPlanner& planner,
               LayerMemory& memory) {
  const size_t places = rows * layer.places;
  const bool is_block = layer.config.kind == Kind::kSelfAttention;
  const auto add = [&](size_t columns) {
    return planner.AddMatrix(places, columns, element_bytes);
  };
  const auto add_dense = [&](size_t columns, size_t bytes) {
    return MatrixRegion{
        .region = planner.Add(places * columns * bytes), .columns = columns, .stride = columns};
  };
  memory.inner_input = add(layer.inner.front().input_width);
  memory.inner_input_gradient = add(layer.inner.front().input_width);
  const size_t weights = is_block ? layer.config.width * layer.places : 1;
  memory.row_weights = add_dense(weights, sizeof(float));
  memory.row_slopes = add_dense(weights, sizeof(float));
  if (is_block) {
    memory.context = add(layer.row_width);
    memory.context_gradient = add(layer.row_width);
  } else {
    memory.score_gradients = add_dense(1, element_bytes);
  }
  for (const LayerPlan& inner :
       std::span(layer.inner).first(layer.inner.size() - (is_block ? 0 : 1))) {
    InnerMemory result{.output = add(inner.output_width), .gradient = add(inner.output_width)};
    if (inner.config.kind == Kind::kLinear) {
      result.weight = planner.AddMatrix(inner.input_width, inner.output_width, element_bytes);
    } else if (inner.config.kind == Kind::kLayerNorm) {
      result.row_values = planner.AddMatrix(places, kLayerNormColumns, sizeof(float));
    }
    memory.inner_layers.push_back(result);
  }
}

// Adds a layer to the tower.
void PlanLayer(const TowerPlan& tower, size_t index, bool is_logit, size_t rows,
               size_t element_bytes, RegionPlanner& planner, TowerMemory& memory) {
  const LayerPlan& layer = tower.layers[index];
  LayerMemory result;
  const Kind kind = layer.config.kind;
  if (kind == Kind::kRelu && index > 0 && memory.layers.back().has_relu) {
    result.output = memory.layers.back().output;
    result.output_gradient = memory.layers.back().output_gradient;
    result.is_fused = true;
    memory.layers.push_back(result);
    return;
  }
  if (layer.is_in_place) {
    result.output = index == 0 ? memory.input : memory.layers.back().output;
    result.output_gradient =
        index == 0 ? memory.input_gradient : memory.layers.back().output_gradient;
    // The first layer of a tower may have no memory for an input gradient.
    if (index == 0 && !tower.needs_input_gradient) {
      result.output_gradient = planner.AddMatrix(rows, layer.output_width, element_bytes);
    }
    memory.layers.push_back(result);
    return;
  }
  const auto is_before = [&](Kind activation) {
    return kind == Kind::kLinear && index + 1 < tower.layers.size() &&
           tower.layers[index + 1].config.kind == activation;
  };
  result.has_relu = is_before(Kind::kRelu);
  result.has_gelu = is_before(Kind::kGelu);
  result.is_fused_gelu = kind == Kind::kGelu && index > 0 && memory.layers.back().has_gelu;
  result.output =
      planner.AddMatrix(rows, layer.output_width, is_logit ? 4 : element_bytes,
                        result.has_gelu ? kGeluRowElements * element_bytes : kRowAlignment);
  result.output_gradient = result.is_fused_gelu
                               ? memory.layers.back().output_gradient
                               : planner.AddMatrix(rows, layer.output_width, element_bytes);
  if (result.has_relu) {
    result.relu_mask = planner.AddMask(rows, layer.output_width);
  } else if (kind == Kind::kCross) {
    result.outer = planner.AddMatrix(rows, layer.output_width, element_bytes);
    result.outer_gradient = planner.AddMatrix(rows, layer.output_width, element_bytes);
    if (layer.config.rank > 0) {
      result.inner = planner.AddMatrix(rows, layer.config.rank, element_bytes);
      result.inner_gradient = planner.AddMatrix(rows, layer.config.rank, element_bytes);
    }
  } else if (kind == Kind::kAttention || kind == Kind::kSelfAttention) {
    PlanInner(layer, rows, element_bytes, planner, result);
  } else if (kind == Kind::kFm) {
    result.vector_sums = planner.AddMatrix(rows, layer.config.width, sizeof(float));
  } else if (kind == Kind::kLayerNorm) {
    result.row_values = planner.AddMatrix(rows, kLayerNormColumns, sizeof(float));
  } else if (kind == Kind::kBilinear) {
    const size_t half = layer.input_width / 2;
    result.outer = planner.AddMatrix(rows, half, element_bytes);
    result.outer_gradient = planner.AddMatrix(rows, half, element_bytes);
    result.heads = planner.AddMatrix(half, half, element_bytes);
    result.heads_gradient = planner.AddMatrix(half, half, sizeof(float));
  }
  memory.layers.push_back(result);
}

// Sizes of a batch of rows.
struct RowCounts {
  size_t offsets = 0;
  size_t occurrences = 0;
  size_t weights = 0;
  size_t ids = 0;
  size_t row_bytes = 0;
};

void PlanRows(const WireCodes& codes, const RowCounts& counts, RegionPlanner& input,
              BatchTransfer& transfer) {
  transfer.first_bytes =
      input.Add((RowIndex::kRowOffsets + codes.features.size()) * sizeof(uint64_t));
  transfer.offsets = input.Add(counts.offsets * sizeof(uint32_t));
  transfer.occurrences = input.Add(counts.occurrences * sizeof(uint32_t));
  transfer.weights = input.Add(counts.weights * sizeof(float));
  transfer.row_offsets = input.Add(counts.ids * sizeof(uint64_t));
  transfer.rows = input.Add(counts.row_bytes);
}

// Plans the parts that batches of rows and of pooled embeddings have in common.
void PlanSamples(const ModelPlan& plan, const WireCodes& codes, size_t rows, bool pooled,
                 RegionPlanner& input, BatchTransfer& transfer) {
  transfer.dense = input.Add(rows * plan.dense_width * sizeof(float));
  if (pooled) transfer.embeddings = input.Add(rows * codes.embeddings.row_bytes());
  transfer.labels = input.Add(plan.LabelCount(rows) * sizeof(float));
  if (codes.gradients.precision() == VectorPrecision::kInt8) {
    transfer.rounding = input.Add(sizeof(RoundingKey));
  }
}

// Sizes of memory for sums of columns.
struct SumSizes {
  size_t columns = 1;  // Most columns of a sum.
  size_t partial = 1;  // Most values of ColumnScratch::partial, and of its groups.
  size_t groups = 1;

  void Cover(size_t rows, size_t wanted) {
    columns = std::max(columns, wanted);
    partial = std::max(partial, SumBlocks(rows) * wanted);
    groups = std::max(groups, SumGroups(rows) * wanted);
  }
};

// Covers the columns of each layer, or of the weight and bias of one with one output. Layers inside
// others have a row for each place.
SumSizes SizesOfSums(const ModelPlan& plan, size_t rows) {
  SumSizes sizes;
  for (const TowerPlan& tower : plan.towers) {
    for (const LayerPlan& layer : tower.layers) {
      sizes.Cover(rows, layer.output_width == 1 ? layer.input_width + 1 : layer.output_width);
      for (const LayerPlan& inner : layer.inner) {
        sizes.Cover(rows * layer.places, std::max(inner.output_width, inner.input_width + 1));
      }
    }
  }
  return sizes;
}

}  // namespace

Region RegionPlanner::Add(size_t bytes) {
  const Region region{.offset = bytes_, .bytes = bytes};
  bytes_ += RoundUp(bytes, kRegionAlignment);
  return region;
}

MatrixRegion RegionPlanner::AddMatrix(size_t rows, size_t columns, size_t element_bytes,
                                      size_t row_bytes) {
  const size_t stride = RoundUp(columns, row_bytes / element_bytes);
  return {.region = Add(rows * stride * element_bytes), .columns = columns, .stride = stride};
}

MaskRegion RegionPlanner::AddMask(size_t rows, size_t columns) {
  const size_t row_bits = RoundUp(columns, kMaskRowBits);
  return {.region = Add(rows * row_bits / 8), .row_bits = row_bits};
}

WeightMemory PlanWeights(const ModelPlan& plan, const WireCodes& codes,
                         const DenseOptimizerConfig& optimizer, size_t element_bytes) {
  WeightMemory memory;
  RegionPlanner& planner = memory.planner;
  const auto floats = [&](size_t count) { return planner.Add(count * sizeof(float)); };
  memory.parameters = floats(plan.parameter_count);
  memory.gradients = floats(plan.parameter_count);
  const bool lamb = optimizer.kind == DenseOptimizerConfig::Kind::kLamb;
  const bool has_steps = lamb || optimizer.kind == DenseOptimizerConfig::Kind::kAdam;
  const size_t before_values = plan.statistics_count + (has_steps ? 1 : 0);
  memory.state_gap = RoundUp(before_values, kPackOf<float>) - before_values;
  memory.state = floats(memory.state_gap + plan.statistics_count +
                        cpu::OptimizerStateSize(optimizer, plan.parameter_count) +
                        cpu::WeightAverageSize(optimizer.average_decay, plan.parameter_count) +
                        (plan.counts_items ? ItemFrequency::kStateSize : 0) + kLossScaleValues);
  memory.batch_statistics = floats(plan.statistics_count);
  memory.inverse_deviations = floats(plan.statistics_count);
  memory.directions = floats(lamb ? plan.parameter_count : 0);
  memory.scalars = planner.Add(sizeof(StepScalars));
  if (plan.counts_items) {
    memory.pending_slots = planner.Add(ItemFrequency::kCells * sizeof(PendingSlot));
    memory.pending_count = planner.Add(sizeof(uint32_t));
  }
  memory.dropout_step = planner.Add(sizeof(uint64_t));
  // Twice: for a block's weights and for its directions.
  memory.sums = planner.Add(2 * kSquareParts * sizeof(double));
  memory.sums_next = planner.Add(2 * kSquareParts * sizeof(double));
  // Twice: batch norm needs two sums per column.
  const size_t summed_columns = SizesOfSums(plan, /*rows=*/0).columns;
  memory.column_sums = planner.Add(2 * summed_columns * sizeof(double));
  memory.column_values = floats(2 * summed_columns);
  memory.row_counts = planner.Add(plan.towers.size() * sizeof(double));
  memory.code_table = planner.Add(codes.table.size() * sizeof(uint32_t));
  if (codes.pools()) {
    memory.pooled_features = planner.Add(codes.features.size() * sizeof(PooledFeature));
    memory.feature_of = planner.Add(codes.feature_of.size() * sizeof(uint32_t));
  }
  for (const TowerPlan& tower : plan.towers) {
    memory.copies.emplace_back();
    for (size_t i = 0; i < tower.layers.size(); ++i) {
      memory.copies.back().push_back(PlanCopies(tower, i, element_bytes, planner));
      AddBlocks(tower.layers[i], memory.copies.back().back(), memory.blocks);
    }
  }
  memory.copied_blocks = planner.Add(memory.blocks.size() * sizeof(CopiedBlock));
  return memory;
}

BatchTransfer PlanTransfer(const ModelPlan& plan, const WireCodes& codes, size_t rows,
                           const CompactBatch* ids) {
  BatchTransfer transfer;
  RegionPlanner input;
  PlanSamples(plan, codes, rows, ids == nullptr, input, transfer);
  if (ids != nullptr) {
    PlanRows(codes,
             {.offsets = ids->offsets.size(),
              .occurrences = ids->occurrences.size(),
              .weights = ids->weights.size(),
              .ids = ids->ids.size(),
              .row_bytes = codes.rows.bytes(*ids)},
             input, transfer);
  }
  transfer.input_bytes = input.bytes();
  RegionPlanner output;
  transfer.report = output.Add(sizeof(StepReport));
  transfer.probabilities = output.Add(rows * plan.top().output_width() * sizeof(float));
  transfer.embedding_gradient = output.Add(rows * codes.gradients.row_bytes());
  transfer.output_bytes = output.bytes();
  return transfer;
}

size_t RowInputBytes(const ModelPlan& plan, const WireCodes& codes, size_t samples) {
  if (!codes.pools()) return 0;
  RowCounts counts{.offsets = codes.features.size() * samples + 1};
  for (const PooledFeature& feature : codes.features) {
    const PoolingRule& rule = feature.rule;
    const size_t ids =
        samples * rule.rows_per_id * (rule.kind == Pooling::kRaw ? rule.length : size_t{1});
    counts.ids += ids;
    counts.row_bytes += ids * feature.row_bytes;
  }
  counts.occurrences = counts.weights = counts.ids;
  BatchTransfer transfer;
  RegionPlanner input;
  PlanSamples(plan, codes, samples, /*pooled=*/false, input, transfer);
  PlanRows(codes, counts, input, transfer);
  return input.bytes();
}

InBatchLayout PlanItems(const ModelPlan& plan, size_t rows, size_t items) {
  InBatchLayout layout;
  RegionPlanner planner;
  layout.header = planner.Add(sizeof(InBatchHeader));
  layout.items = planner.Add(items * sizeof(uint32_t));
  layout.lists = planner.Add(rows * sizeof(PositiveList));
  layout.positives = planner.Add(items * sizeof(uint32_t));
  if (plan.counts_items) {
    layout.slots = planner.Add(items * ItemFrequency::kHashes * sizeof(TouchedSlot));
    layout.places = planner.Add(items * ItemFrequency::kHashes * sizeof(uint32_t));
  }
  layout.bytes = planner.bytes();
  return layout;
}

size_t ScoreRows(size_t score_floats, size_t rows, size_t items) {
  constexpr size_t kAligned = 16;  // Blocks begin at equal alignments, which share algorithms.
  size_t fitting = score_floats / std::max<size_t>(ScoreStride(items), 1);
  if (fitting > kAligned) fitting = fitting / kAligned * kAligned;
  return std::clamp<size_t>(fitting, 1, std::max<size_t>(rows, 1));
}

namespace {

// No batch has fewer items than rows: so a block is at most square.
size_t MostScoreRows(size_t score_floats, size_t capacity_rows) {
  const auto side = static_cast<size_t>(std::sqrt(static_cast<double>(score_floats)));
  return std::min(capacity_rows, std::max<size_t>(side, 1));
}

InBatchMemory PlanInBatch(const ModelPlan& plan, size_t capacity_rows, size_t element_bytes,
                          const InBatchRoom& room, RegionPlanner& planner) {
  InBatchMemory memory{.score_floats = room.score_floats};
  const size_t items = std::max(capacity_rows, room.gathered);
  const size_t dim = plan.top().input_width / 2;
  const size_t stride = ScoreStride(items);
  const size_t scores = std::min(capacity_rows * stride, std::max(room.score_floats, stride));
  const size_t rows = MostScoreRows(room.score_floats, capacity_rows);
  memory.staged = planner.Add(PlanItems(plan, capacity_rows, items).bytes);
  memory.scores = planner.Add(scores * sizeof(float));
  memory.score_gradients =
      element_bytes == sizeof(float) ? memory.scores : planner.Add(scores * element_bytes);
  memory.largest = planner.Add(rows * kScoreLanes * sizeof(float));
  memory.sums = planner.Add(rows * kScoreLanes * sizeof(float));
  memory.rows = planner.Add(rows * sizeof(ScoreRow));
  memory.corrections = planner.Add(items * sizeof(float));
  memory.item_gradient = planner.Add(items * dim * sizeof(float));
  if (room.gathered > 0) {
    memory.own_items = planner.Add(items * dim * element_bytes);
    memory.all_items = planner.Add(items * dim * element_bytes);
  }
  return memory;
}

}  // namespace

BatchMemory PlanBatch(const ModelPlan& plan, const WireCodes& codes, size_t capacity_rows,
                      size_t element_bytes, size_t row_input_bytes, const InBatchRoom& room) {
  BatchMemory memory;
  memory.capacity_rows = capacity_rows;
  RegionPlanner& planner = memory.planner;
  const BatchTransfer transfer = PlanTransfer(plan, codes, capacity_rows);
  for (size_t slot = 0; slot < kSlots; ++slot) {
    memory.input[slot] = planner.Add(std::max(transfer.input_bytes, row_input_bytes));
    memory.output[slot] = planner.Add(transfer.output_bytes);
  }
  if (codes.pools()) {
    memory.pooled = planner.Add(capacity_rows * plan.embedding_width * sizeof(float));
  }
  if (codes.encodes()) {
    memory.embedding_gradient = planner.Add(capacity_rows * plan.embedding_width * sizeof(float));
  }
  if (plan.is_in_batch) {
    memory.in_batch = PlanInBatch(plan, capacity_rows, element_bytes, room, planner);
  }
  memory.losses = planner.Add(capacity_rows * sizeof(double));
  memory.losses_next = planner.Add(capacity_rows * sizeof(double));
  const SumSizes sums = SizesOfSums(plan, capacity_rows);
  memory.partial = planner.Add(sums.partial * sizeof(float));
  memory.partial_groups = planner.Add(sums.groups * sizeof(double));
  for (size_t t = 0; t < plan.towers.size(); ++t) {
    const TowerPlan& tower = plan.towers[t];
    TowerMemory result;
    result.input = planner.AddMatrix(capacity_rows, tower.input_width, element_bytes);
    if (tower.needs_input_gradient || (plan.is_in_batch && t + 1 == plan.towers.size())) {
      result.input_gradient = planner.AddMatrix(capacity_rows, tower.input_width, element_bytes);
    }
    size_t widest_sequence = 0;
    for (const TowerInput& input : tower.inputs) {
      if (input.places > 1) widest_sequence = std::max(widest_sequence, input.width);
    }
    result.sequence_gradient = planner.AddMatrix(capacity_rows, widest_sequence, element_bytes);
    if (tower.last_cross) {
      result.origin_gradient = planner.AddMatrix(capacity_rows, tower.input_width, element_bytes);
    }
    for (size_t i = 0; i < tower.layers.size(); ++i) {
      PlanLayer(tower, i, plan.IsLogit(t, i), capacity_rows, element_bytes, planner, result);
    }
    memory.towers.push_back(std::move(result));
  }
  return memory;
}

void LogRowRoom(size_t needed, size_t before, size_t now) {
  spdlog::warn(
      "dense network: batch_row_bytes grew: needed={} before={} now={}; set "
      "nn_worker.batch_row_bytes: {} to reserve them at start-up",
      needed, before, now, now);
}

}  // namespace simurgh::cuda
