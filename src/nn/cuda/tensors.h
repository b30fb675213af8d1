#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/status.h"
#include "nn/cuda/elementwise_kernels.h"
#include "nn/cuda/float16.h"
#include "nn/cuda/gemm.h"
#include "nn/cuda/loss_scale.h"
#include "nn/cuda/matrix.h"
#include "nn/cuda/memory_plan.h"
#include "nn/cuda/optimizer_kernels.h"
#include "nn/cuda/reduction_kernels.h"
#include "nn/model_plan.h"

namespace simurgh::cuda {

// Both memory blocks' regions as pointers and matrices of the current batch. T: type of
// activations.
//
// Threads: one owner.
template <typename T>
class Tensors {
 public:
  // Lifetime: plan and codes outlive this.
  Tensors(const ModelPlan& plan, const WireCodes& codes, const DenseOptimizerConfig& optimizer)
      : plan_(plan), codes_(codes), weights_plan_(PlanWeights(plan, codes, optimizer, sizeof(T))) {}

  size_t weight_bytes() const { return weights_plan_.planner.bytes(); }
  void SetWeights(std::byte* block) { weights_ = block; }

  // Plans the memory for batches of up to capacity_rows samples; SetBatch sets it.
  void LayOut(size_t capacity_rows, size_t row_input_bytes = 0, const InBatchRoom& room = {}) {
    batch_plan_ = PlanBatch(plan_, codes_, capacity_rows, sizeof(T), row_input_bytes, room);
    masks_.clear();
    for (const TowerMemory& tower : batch_plan_.towers) masks_.emplace_back(tower.layers.size());
  }
  const BatchMemory& batch_plan() const { return batch_plan_; }
  void SetBatch(std::byte* block) { batch_ = block; }
  // Sets the current batch: its samples, layout and slot.
  void SetRows(size_t rows, const BatchTransfer& transfer, size_t slot) {
    rows_ = rows;
    slot_ = slot;
    transfer_ = transfer;
  }
  size_t rows() const { return rows_; }

  // Memory in the weights' block. Layout: see DenseNetwork.
  std::span<float> parameters() const { return Floats(weights_plan_.parameters); }
  std::span<float> gradients() const { return Floats(weights_plan_.gradients); }
  std::span<float> state() const {
    const auto values = Floats(weights_plan_.state).subspan(weights_plan_.state_gap);
    return kIsScaled<T> ? values : values.first(values.size() - kLossScaleValues);
  }
  std::span<float> batch_statistics() const { return Floats(weights_plan_.batch_statistics); }
  // Same layout as the statistics; only the places of variances are used.
  std::span<float> inverse_deviations() const { return Floats(weights_plan_.inverse_deviations); }
  std::span<float> directions() const { return Floats(weights_plan_.directions); }
  std::span<float> running_statistics() const { return state().first(plan_.statistics_count); }
  StepScalars* scalars() const { return At<StepScalars>(weights_, weights_plan_.scalars); }
  // Returns the state of ItemFrequency, and what the last pass will write to it.
  std::span<float> item_frequency() const {
    return Floats(weights_plan_.state)
        .last(ItemFrequency::kStateSize + kLossScaleValues)
        .first(ItemFrequency::kStateSize);
  }
  PendingSlot* pending_slots() const {
    return At<PendingSlot>(weights_, weights_plan_.pending_slots);
  }
  uint32_t* pending_count() const { return At<uint32_t>(weights_, weights_plan_.pending_count); }
  uint64_t* dropout_step() const { return At<uint64_t>(weights_, weights_plan_.dropout_step); }
  LossScale* loss_scale() const {
    return reinterpret_cast<LossScale*>(Floats(weights_plan_.state).last(kLossScaleValues).data());
  }
  double* sums() const { return At<double>(weights_, weights_plan_.sums); }
  double* sums_next() const { return At<double>(weights_, weights_plan_.sums_next); }
  double* column_sums() const { return At<double>(weights_, weights_plan_.column_sums); }
  // Two rows of a layer's width, for one call.
  float* column_values() const { return At<float>(weights_, weights_plan_.column_values); }
  // Returns the number of rows in the statistics of a tower's attention.
  double* row_count(size_t tower) const {
    return At<double>(weights_, weights_plan_.row_counts) + tower;
  }
  uint32_t* code_table() const { return At<uint32_t>(weights_, weights_plan_.code_table); }
  PooledFeature* pooled_features() const {
    return At<PooledFeature>(weights_, weights_plan_.pooled_features);
  }
  uint32_t* feature_of() const { return At<uint32_t>(weights_, weights_plan_.feature_of); }
  std::span<const CopiedBlock> copied_blocks() const { return weights_plan_.blocks; }
  // Returns the copied_blocks() in device memory.
  CopiedBlock* blocks() const { return At<CopiedBlock>(weights_, weights_plan_.copied_blocks); }
  WeightCopier<T> copier() const {
    return {blocks(), static_cast<uint32_t>(weights_plan_.blocks.size()), weights_};
  }

  const WeightCopies& Copies(size_t tower, size_t layer) const {
    return weights_plan_.copies[tower][layer];
  }
  Matrix<T> WeightCopy(const MatrixRegion& region, size_t rows) const {
    return {At<T>(weights_, region.region), rows, region.columns, region.stride};
  }
  T* BiasCopy(const WeightCopies& copies) const { return At<T>(weights_, copies.bias); }

  // Memory in the batch's block.
  const TowerMemory& Memory(size_t tower) const { return batch_plan_.towers[tower]; }
  const LayerMemory& Memory(size_t tower, size_t layer) const {
    return Memory(tower).layers[layer];
  }
  Matrix<T> View(const MatrixRegion& region) const { return ViewAs<T>(region); }
  template <typename U>
  Matrix<U> ViewAs(const MatrixRegion& region) const {
    return {At<U>(batch_, region.region), rows_, region.columns, region.stride};
  }
  // Returns a square matrix, whose size does not depend on the batch.
  template <typename U>
  Matrix<U> Square(const MatrixRegion& region) const {
    return {At<U>(batch_, region.region), region.columns, region.columns, region.stride};
  }
  // Returns the gradient of a layer's input.
  Matrix<T> InputGradient(size_t tower, size_t layer) const {
    return View(layer == 0 ? Memory(tower).input_gradient
                           : Memory(tower, layer - 1).output_gradient);
  }
  // Returns the relu mask that a layer's product writes.
  ReluMask& Mask(size_t tower, size_t layer) {
    ReluMask& mask = masks_[tower][layer];
    const MaskRegion& region = Memory(tower, layer).relu_mask;
    mask.bits = batch_ + region.region.offset;
    mask.row_bits = region.row_bits;
    return mask;
  }
  ColumnScratch ColumnParts(size_t columns) const { return ColumnParts(columns, rows_); }
  // rows: samples, or their places.
  ColumnScratch ColumnParts(size_t columns, size_t rows) const {
    return {{At<float>(batch_, batch_plan_.partial), SumBlocks(rows), columns, columns},
            {At<double>(batch_, batch_plan_.partial_groups), SumGroups(rows), columns, columns}};
  }
  // Returns memory of the loss in_batch_softmax.
  const InBatchMemory& in_batch() const { return batch_plan_.in_batch; }
  template <typename U>
  U* InBatch(const Region& region) const {
    return At<U>(batch_, region);
  }
  double* losses() const { return At<double>(batch_, batch_plan_.losses); }
  double* losses_next() const { return At<double>(batch_, batch_plan_.losses_next); }
  std::byte* input(size_t slot) const { return batch_ + batch_plan_.input[slot].offset; }
  std::byte* output() const { return batch_ + batch_plan_.output[slot_].offset; }
  Matrix<const float> dense() const {
    return {At<float>(input(slot_), transfer_.dense), rows_, plan_.dense_width, plan_.dense_width};
  }
  EncodedVectors embeddings() const {
    return {LayoutOf(codes_.embeddings), input(slot_) + transfer_.embeddings.offset};
  }
  // Returns whether the current batch holds rows.
  bool pools() const { return transfer_.first_bytes.bytes > 0; }
  PoolCell pooling() const {
    std::byte* const begin = input(slot_);
    return {.features = pooled_features(),
            .feature_of = feature_of(),
            .precision = codes_.rows.precision(),
            .input = begin,
            .index = {At<uint64_t>(begin, transfer_.first_bytes),
                      At<uint32_t>(begin, transfer_.offsets)},
            .to = pooled()};
  }
  Matrix<float> pooled() const { return Embeddings(At<float>(batch_, batch_plan_.pooled)); }
  const float* labels() const { return At<float>(input(slot_), transfer_.labels); }
  // Returns the samples' weights, (B); null without weights.
  const float* sample_weights() const {
    return plan_.has_sample_weights ? labels() + rows_ * plan_.top().output_width() : nullptr;
  }
  StepReport* report() const { return At<StepReport>(output(), transfer_.report); }
  float* probabilities() const { return At<float>(output(), transfer_.probabilities); }
  // Returns the gradients in f32: in separate memory if they are encoded, else in the batch's
  // output.
  Matrix<float> embedding_gradient() const {
    return Embeddings(codes_.encodes() ? At<float>(batch_, batch_plan_.embedding_gradient)
                                       : At<float>(output(), transfer_.embedding_gradient));
  }
  // Returns whether gradients of embeddings are encoded in 16 bits.
  bool encodes_halves() const {
    return codes_.encodes() && codes_.gradients.precision() != VectorPrecision::kInt8;
  }
  Matrix<uint16_t> encoded_halves() const {
    return {At<uint16_t>(output(), transfer_.embedding_gradient), rows_, plan_.embedding_width,
            codes_.gradients.row_bytes() / sizeof(uint16_t)};
  }
  std::byte* encoded_gradient() const { return output() + transfer_.embedding_gradient.offset; }
  const WireCodes& codes() const { return codes_; }
  CodeLayout gradient_layout() const { return LayoutOf(codes_.gradients); }
  const RoundingKey* rounding() const { return At<RoundingKey>(input(slot_), transfer_.rounding); }

 private:
  std::span<float> Floats(const Region& region) const {
    return {At<float>(weights_, region), region.bytes / sizeof(float)};
  }
  CodeLayout LayoutOf(const VectorCodec& code) const {
    const uint32_t* const first_columns = code_table();
    return {code.precision(), code.row_bytes(), code.scales_offset(), first_columns,
            first_columns + codes_.vectors() + 1};
  }
  template <typename U>
  static U* At(std::byte* block, const Region& region) {
    return reinterpret_cast<U*>(block + region.offset);
  }
  Matrix<float> Embeddings(float* values) const {
    return {values, rows_, plan_.embedding_width, plan_.embedding_width};
  }

  const ModelPlan& plan_;
  const WireCodes& codes_;
  const WeightMemory weights_plan_;
  BatchMemory batch_plan_;
  BatchTransfer transfer_;
  std::byte* weights_ = nullptr;
  std::byte* batch_ = nullptr;
  size_t rows_ = 0;
  size_t slot_ = 0;
  std::vector<std::vector<ReluMask>> masks_;  // Indexed by tower and layer.
};

}  // namespace simurgh::cuda
