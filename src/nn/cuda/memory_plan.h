#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "config/training_config.h"
#include "data/batch/batch.h"
#include "embedding/row_codec.h"
#include "embedding/vector_codec.h"
#include "nn/cuda/in_batch_kernels.h"
#include "nn/cuda/optimizer_kernels.h"
#include "nn/cuda/pooling_kernels.h"
#include "nn/cuda/work.h"
#include "nn/model_plan.h"

// Buckets of gradients that are summed over the ranks at once, and their encoded layout.
namespace simurgh::cuda {

// Buckets as ranges of parameters: whole layers, from the last to the first, each of at least
// `bucket_floats` except the last bucket.
std::vector<ColumnRange> PlanBuckets(const ModelPlan& plan, size_t bucket_floats);

// Values that share a minimum and a step in int8; see Collective::Sum.
inline constexpr size_t kWireChunk = 512;
inline constexpr size_t kWireChunkBytes = kWireChunk + 2 * sizeof(float);

// A bucket in one part per rank, which that rank sums. Rank r's part starts at value
// r * part_floats; encoded parts are part_bytes apart.
struct BucketParts {
  size_t count = 0;
  size_t part_floats = 0;
  size_t part_bytes = 0;

  size_t First(uint32_t rank) const { return std::min(count, rank * part_floats); }
  size_t Count(uint32_t rank) const { return std::min(count - First(rank), part_floats); }
};

// precision: bf16 or int8.
BucketParts PlanParts(size_t count, uint32_t ranks, AllReduceConfig::Precision precision);

// Encodings of embeddings copied to the device and of gradients copied from it.
//
// Threads: immutable.
struct WireCodes {
  // Requires dims that sum to the plan's embedding width, or no dims and f32.
  WireCodes(const ModelPlan& plan, const EmbeddingWire& wire);

  // Returns whether gradients are encoded into separate memory.
  bool encodes() const { return gradients.precision() != VectorPrecision::kF32; }
  size_t vectors() const { return embeddings.dims().size(); }

  // Returns whether blocks may hold rows, which the device pools.
  bool pools() const { return !features.empty(); }

  VectorCodec embeddings;
  RowCodec rows;
  VectorCodec gradients;
  float gradient_factor;
  uint64_t seed;
  // Copied to the device: the vectors' first columns and the end, then each column's vector.
  std::vector<uint32_t> table;
  std::vector<PooledFeature> features;  // Copied to the device; empty without rows.
  // Feature of each column of embeddings; copied to the device.
  std::vector<uint32_t> feature_of;
};

}  // namespace simurgh::cuda

// Layout of device memory: one block for the weights and their state, one for a batch.

namespace simurgh::cuda {

// Alignment of regions in bytes; cuBLASLt assumes at most the alignment of a fresh allocation.
inline constexpr size_t kRegionAlignment = 256;

// Alignment of rows in bytes, required by cuBLASLt's matrices.
inline constexpr size_t kRowAlignment = 16;

// Row lengths of gelu's input are multiples of this number of elements.
inline constexpr size_t kGeluRowElements = 8;

// Row lengths of a relu mask, of one bit per element, are multiples of it.
inline constexpr size_t kMaskRowBits = 128;

// Part of a block. Offset and size in bytes.
struct Region {
  size_t offset = 0;
  size_t bytes = 0;
};

struct MatrixRegion {
  Region region;
  size_t columns = 0;
  size_t stride = 0;  // Distance between rows, in elements.
};

struct MaskRegion {
  Region region;
  size_t row_bits = 0;  // Stride of rows; 0: no mask.
};

// Allocates disjoint regions of one block.
class RegionPlanner {
 public:
  Region Add(size_t bytes);
  // row_bytes: alignment of the rows.
  MatrixRegion AddMatrix(size_t rows, size_t columns, size_t element_bytes,
                         size_t row_bytes = kRowAlignment);
  MaskRegion AddMask(size_t rows, size_t columns);

  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_ = 0;
};

// Copies of a layer's weights for products, which the optimizer keeps up to date: in the products'
// precision, with aligned rows, and padded with zero rows up to `padded_rows`.
struct WeightCopies {
  MatrixRegion weight;  // linear, cross: (I, O).
  MatrixRegion down;    // cross of low rank: (I, rank)
  MatrixRegion up;      // (rank, O)
  Region bias;          // (O)
  size_t padded_rows = 0;
};

// f32 unless noted. Layout of parameters, gradients and state: see DenseNetwork.
struct WeightMemory {
  Region parameters;
  Region gradients;
  // Ends with the state of ItemFrequency, if items are counted, and the LossScale, which is unused
  // without f16. Begins with floats of no meaning, so that the optimizer's first values are
  // aligned.
  Region state;
  size_t state_gap = 0;
  Region batch_statistics;
  Region inverse_deviations;
  Region directions;                              // lamb
  Region scalars;                                 // StepScalars
  Region pending_slots;                           // PendingSlot, with the correction log_q
  Region pending_count;                           // u32: their number
  Region dropout_step;                            // u64: see DropoutStep
  Region sums;                                    // f64: partial sums of squares
  Region sums_next;                               // f64: sums of them
  Region column_sums;                             // f64: (2, most columns)
  Region column_values;                           // (2, most columns)
  Region row_counts;                              // f64: (towers), see Tensors
  Region code_table;                              // u32: see WireCodes
  Region pooled_features;                         // PooledFeature: see WireCodes
  Region feature_of;                              // u32: see WireCodes
  Region copied_blocks;                           // CopiedBlock
  std::vector<CopiedBlock> blocks;                // Copied to the device.
  std::vector<std::vector<WeightCopies>> copies;  // Indexed by tower and layer.
  RegionPlanner planner;
};

WeightMemory PlanWeights(const ModelPlan& plan, const WireCodes& codes,
                         const DenseOptimizerConfig& optimizer, size_t element_bytes);

// A layer inside another. Its matrices have a row for each place of a sample.
struct InnerMemory {
  MatrixRegion output;
  MatrixRegion gradient;
  MatrixRegion weight;      // linear: for products.
  MatrixRegion row_values;  // layer_norm, f32: as LayerMemory's.
};

struct LayerMemory {
  MatrixRegion output;
  MatrixRegion output_gradient;
  // cross, and their gradients. bilinear: the first half of the input times the weight.
  MatrixRegion outer;
  MatrixRegion inner;
  MatrixRegion outer_gradient;
  MatrixRegion inner_gradient;
  MatrixRegion vector_sums;     // fm, f32: (B, D)
  MatrixRegion row_values;      // layer_norm, f32: (B, kLayerNormColumns)
  MatrixRegion heads;           // bilinear: square, the heads' weights on the diagonal.
  MatrixRegion heads_gradient;  // f32
  // attention and self_attention, for each place of a sample. The first inner layer's input and its
  // gradient; in f32 the weights of the place, or of all places for each head, and their gradients.
  MatrixRegion inner_input;
  MatrixRegion inner_input_gradient;
  MatrixRegion row_weights;
  MatrixRegion row_slopes;
  MatrixRegion score_gradients;  // attention: gradients of what the inner layers compute.
  MatrixRegion context;          // self_attention: the rows that a place reads, weighted.
  MatrixRegion context_gradient;
  // Without the last layer of attention, whose output is row_weights.
  std::vector<InnerMemory> inner_layers = {};
  // A linear layer followed by relu: the product writes relu's output, which both layers share, and
  // the mask for the backward pass.
  bool has_relu = false;
  MaskRegion relu_mask;
  bool is_fused = false;  // The relu is fused: it has nothing left to compute.
  // A linear layer followed by gelu: the product writes its own output, for the backward pass, and
  // gelu's. Both layers share the memory of their gradients.
  bool has_gelu = false;
  bool is_fused_gelu = false;  // The gelu is fused.
};

struct TowerMemory {
  MatrixRegion input;
  MatrixRegion input_gradient;
  MatrixRegion origin_gradient;
  MatrixRegion sequence_gradient;  // The gradient of one of several sequences, by itself.
  std::vector<LayerMemory> layers;
};

// A batch's inputs and its results, each copied as one piece; f32 except embeddings and their
// gradients. Offsets are relative to the piece and depend on the batch's size.
//
// The size of rows and their index also differs between batches with the same number of samples.
// They are last, with their offsets as data, so the rest has fixed places in captured steps.
struct BatchTransfer {
  Region dense;
  Region embeddings;  // Pooled embeddings only.
  Region labels;
  Region rounding;  // RoundingKey
  // The regions from here to `rows` are for rows only.
  Region first_bytes;  // u64: see RowIndex
  Region offsets;      // u32
  Region occurrences;  // u32
  Region weights;
  Region row_offsets;  // u64, one per id.
  Region rows;
  size_t input_bytes = 0;
  Region report;         // StepReport
  Region probabilities;  // Outputs in a prediction.
  Region embedding_gradient;
  size_t output_bytes = 0;
};

// ids: the ids of a batch of rows; null for pooled embeddings.
BatchTransfer PlanTransfer(const ModelPlan& plan, const WireCodes& codes, size_t rows,
                           const CompactBatch* ids = nullptr);

// Bytes of rows and their index for a batch in which each sample has one weighted id of every
// feature, or a raw feature's full length, all distinct. 0 if the wire carries no rows.
size_t RowInputBytes(const ModelPlan& plan, const WireCodes& codes, size_t samples);

// Places of what the host finds out about the items of a step; see StageItems. G: the items of all
// ranks.
struct InBatchLayout {
  Region header;     // InBatchHeader
  Region items;      // u32 (G)
  Region lists;      // PositiveList (B)
  Region positives;  // u32, at most G
  // With the correction log_q.
  Region slots;   // TouchedSlot, at most (G, kHashes)
  Region places;  // u32 (G, kHashes)
  size_t bytes = 0;
};

InBatchLayout PlanItems(const ModelPlan& plan, size_t rows, size_t items);

// What the loss in_batch_softmax needs memory for.
struct InBatchRoom {
  size_t score_floats = 1;  // Scores in memory at a time; a row of them, if that is more.
  size_t gathered = 0;      // Items of all ranks' batches; 0: no rank gathers.
};

// Returns the samples whose scores are in memory at a time, at most `rows`.
size_t ScoreRows(size_t score_floats, size_t rows, size_t items);

// f32 unless noted. Scores lie in rows of ScoreStride(G) elements. D: the width of a vector.
struct InBatchMemory {
  size_t score_floats = 1;
  Region staged;           // See InBatchLayout.
  Region scores;           // (block, G)
  Region score_gradients;  // (block, G), of the activations' type; in f32 they are the scores.
  Region largest;          // (block, kScoreLanes)
  Region sums;             // (block, kScoreLanes)
  Region rows;             // ScoreRow (block)
  Region corrections;      // (G)
  Region item_gradient;    // (G, D)
  // If ranks gather, of the activations' type: this rank's items (share, D) and all, (G, D).
  Region own_items;
  Region all_items;
};

// Returns the distance between rows of scores, in elements.
inline size_t ScoreStride(size_t items) { return (items + 7) / 8 * 8; }

struct BatchMemory {
  size_t capacity_rows = 0;
  std::array<Region, kSlots> input;  // See BatchTransfer.
  std::array<Region, kSlots> output;
  Region pooled;              // f32, for a batch of rows.
  Region embedding_gradient;  // f32, if gradients are encoded.
  InBatchMemory in_batch;     // Only for the loss in_batch_softmax.
  Region losses;              // f64
  Region losses_next;         // f64: sums of them
  Region partial;             // f32: see ColumnScratch
  Region partial_groups;      // f64
  std::vector<TowerMemory> towers;
  RegionPlanner planner;
};

// element_bytes: size of activations and their gradients, 4 or 2; the logits are always f32.
// row_input_bytes: maximum input bytes of a batch of rows. room: for in_batch_softmax.
BatchMemory PlanBatch(const ModelPlan& plan, const WireCodes& codes, size_t capacity_rows,
                      size_t element_bytes, size_t row_input_bytes = 0,
                      const InBatchRoom& room = {});

// Logs that a batch of rows needed more memory than the device had reserved. In bytes.
void LogRowRoom(size_t needed, size_t before, size_t now);

}  // namespace simurgh::cuda
