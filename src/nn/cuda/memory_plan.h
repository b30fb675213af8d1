#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "nn/cuda/wire_codes.h"
#include "nn/cuda/work.h"
#include "nn/model_plan.h"
#include "simurgh/config/training_config.h"
#include "simurgh/data/compact_batch.h"

// Where everything lies in device memory: two blocks, one for the weights and what belongs to them,
// one for a batch. Plain arithmetic, so that it is tested without a device.
namespace simurgh::cuda {

// Every region begins where cuBLASLt finds the alignment of a fresh allocation.
inline constexpr size_t kRegionAlignment = 256;

// Rows of matrices that cuBLASLt reads begin on 16 bytes.
inline constexpr size_t kRowAlignment = 16;

// What a product writes for gelu's way back has rows of a multiple of so many elements.
inline constexpr size_t kGeluRowElements = 8;

// A mask of relu has one bit an element, and cuBLASLt wants its rows this many bits apart.
inline constexpr size_t kMaskRowBits = 128;

// Part of a block. Offset and size in bytes.
struct Region {
  size_t offset = 0;
  size_t bytes = 0;
};

struct MatrixRegion {
  Region region;
  size_t columns = 0;
  size_t stride = 0;  // In elements.
};

struct MaskRegion {
  Region region;
  size_t row_bits = 0;  // From one row to the next; 0: there is no mask.
};

// Gives out regions of one block, none of them twice.
class RegionPlanner {
 public:
  Region Add(size_t bytes);
  // columns: of elements of so many bytes; rows begin on multiples of row_bytes.
  MatrixRegion AddMatrix(size_t rows, size_t columns, size_t element_bytes,
                         size_t row_bytes = kRowAlignment);
  MaskRegion AddMask(size_t rows, size_t columns);

  size_t bytes() const { return bytes_; }
  const std::vector<Region>& regions() const { return regions_; }

 private:
  size_t bytes_ = 0;
  std::vector<Region> regions_;
};

// What products read of a layer, made anew from the weights before each pass: in the precision of
// the products, with rows aligned and, where `padded_rows` is more than the layer reads, zero rows
// below.
struct WeightCopies {
  MatrixRegion weight;  // linear, cross: (I, O).
  MatrixRegion down;    // cross of low rank: (I, rank)
  MatrixRegion up;      // (rank, O)
  Region bias;          // (O)
  size_t padded_rows = 0;
};

// f32 unless said otherwise. parameters, gradients and state are laid out as DenseNetwork says.
struct WeightMemory {
  Region parameters;
  Region gradients;
  Region state;
  Region batch_statistics;
  Region directions;                              // lamb
  Region scalars;                                 // StepScalars
  Region loss_scale;                              // LossScale
  Region sums;                                    // f64: parts of sums of squares
  Region sums_next;                               // f64: and what they are added up to
  Region column_sums;                             // f64: (2, widest layer)
  Region code_table;                              // u32: of WireCodes
  Region pooled_features;                         // PooledFeature: of WireCodes
  Region feature_of;                              // u32: of WireCodes
  std::vector<std::vector<WeightCopies>> copies;  // Of each tower's layers.
  RegionPlanner planner;
};

WeightMemory PlanWeights(const ModelPlan& plan, const WireCodes& codes,
                         const DenseOptimizerConfig& optimizer, size_t element_bytes);

struct LayerMemory {
  MatrixRegion output;
  MatrixRegion output_gradient;
  MatrixRegion outer;  // cross, and their gradients
  MatrixRegion inner;
  MatrixRegion outer_gradient;
  MatrixRegion inner_gradient;
  MatrixRegion vector_sums;  // fm, f32: (B, D)
  // A linear layer with relu behind it: the product writes relu's output, which both layers share,
  // and the mask that its way back reads.
  bool has_relu = false;
  MaskRegion relu_mask;
  // That relu itself: there is nothing left for it to do.
  bool is_fused = false;
  // A linear layer with gelu behind it: the product writes its own output, which the way back
  // reads, and gelu's. They share their gradients' place.
  bool has_gelu = false;
  bool is_fused_gelu = false;  // That gelu itself.
};

struct TowerMemory {
  MatrixRegion input;
  MatrixRegion input_gradient;
  MatrixRegion origin_gradient;
  std::vector<LayerMemory> layers;
};

// What goes to the device with a batch and comes back from it, each way in one piece, f32 but for
// embeddings and their gradients. Offsets are from the beginning of the piece, and follow the
// batch's own size.
//
// What is pooled on the device differs from batch to batch, also among batches of as many samples:
// so it comes last, and the device is told where. All else is where a captured step has seen it.
struct BatchTransfer {
  Region dense;
  Region embeddings;  // Of a batch that comes pooled.
  Region labels;
  Region rounding;  // RoundingKey
  // Of a batch of rows.
  Region first_bytes;  // u64: of RowIndex
  Region offsets;      // u32
  Region occurrences;  // u32
  Region weights;
  Region places;  // u64: of the ids' rows
  Region rows;
  size_t input_bytes = 0;
  Region report;  // StepReport
  Region probabilities;
  Region embedding_gradient;
  size_t output_bytes = 0;
};

// ids: of a batch of rows; null: embeddings are pooled.
BatchTransfer PlanTransfer(const ModelPlan& plan, const WireCodes& codes, size_t rows,
                           const CompactBatch* ids = nullptr);

// What comes with a batch of rows, in bytes, where each sample has one id of every feature, and of
// a raw one as many as it has places for: no two of them the same, and all with weights. 0 where
// none comes.
size_t RowInputBytes(const ModelPlan& plan, const WireCodes& codes, size_t samples);

struct BatchMemory {
  size_t capacity_rows = 0;
  std::array<Region, kSlots> input;  // Of BatchTransfer.
  std::array<Region, kSlots> output;
  Region pooled;              // f32, of a batch of rows.
  Region embedding_gradient;  // f32, before it is coded; where it leaves so.
  Region losses;              // f64
  Region losses_next;         // f64: what they are added up to.
  Region partial;             // f32: of sums over rows; (blocks, widest layer)
  std::vector<TowerMemory> towers;
  RegionPlanner planner;
};

// element_bytes: 4 or 2, of activations and their gradients. The last layer's output, the logits,
// is f32 in any case. row_input_bytes: of inputs of batches of rows, at most.
BatchMemory PlanBatch(const ModelPlan& plan, const WireCodes& codes, size_t capacity_rows,
                      size_t element_bytes, size_t row_input_bytes = 0);

}  // namespace simurgh::cuda
