#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "config/model_config.h"
#include "nn/cuda/in_batch_kernels.h"
#include "nn/cuda/loss_scale.h"
#include "nn/cuda/rank_reducer.h"
#include "nn/cuda/tensors.h"
#include "nn/item_frequency.h"
#include "nn/model_plan.h"

namespace simurgh::cuda {

// The loss in_batch_softmax, in place of the last tower's dot product. Enqueues only.
//
// Threads: one owner.
template <typename Executor, typename T>
class InBatchLoss {
 public:
  InBatchLoss(const ModelPlan& plan, const TaskConfig& task, Executor& executor,
              Tensors<T>& tensors)
      : plan_(plan), task_(task), executor_(executor), tensors_(tensors) {}

  // Computes the losses of samples, predictions, and the gradient of the last tower's input.
  // Requires that input, and what StageItems wrote in InBatchMemory::staged. A rank without
  // samples calls, too.
  void Find(const RankPass& ranks) {
    const InBatchShape& shape = ranks.in_batch;
    const size_t dim = plan_.top().input_width / 2;
    const TowerMemory& top = tensors_.Memory(plan_.towers.size() - 1);
    const Matrix<const T> vectors = tensors_.View(top.input);
    const Matrix<T> gradient = tensors_.View(top.input_gradient);
    const Competition competition = Compete(shape);
    const Matrix<const T> items =
        ranks.gather ? Gathered(ranks, vectors.Columns(dim, dim)) : vectors.Columns(dim, dim);
    const Matrix<float> item_gradient{tensors_.template InBatch<float>(Memory().item_gradient),
                                      shape.items, dim, dim};
    if (shape.scored() == 0 && shape.items > 0) {
      executor_.Zero(item_gradient.data, shape.items * dim * sizeof(float));
    }
    const size_t block = ScoreRows(Memory().score_floats, shape.scored(), shape.items);
    for (size_t first = 0; first < shape.scored(); first += block) {
      const size_t rows = std::min(block, shape.scored() - first);
      FindBlock(ranks, competition, first, vectors.Columns(0, dim).Rows(first, rows), items,
                gradient.Columns(0, dim).Rows(first, rows), item_gradient);
    }
    // Ranks may have different loss scales.
    const bool rescales = kIsScaled<T> && ranks.sum_floats;
    if (ranks.sum_floats && shape.items > 0) {
      const Matrix<float> row = RowOf(item_gradient.data, shape.items * dim);
      if (rescales) executor_.ForEachCell(1, row.columns, Unscale{tensors_.loss_scale(), row});
      ranks.sum_floats({row.data, row.columns});
    }
    executor_.ForEachCell(
        shape.rows, dim,
        FinishVectors<T>{shape, item_gradient, rescales ? &tensors_.loss_scale()->scale : nullptr,
                         gradient, tensors_.probabilities()});
  }

 private:
  const InBatchMemory& Memory() const { return tensors_.in_batch(); }

  template <typename U>
  static const U* At(const std::byte* staged, const Region& region) {
    return reinterpret_cast<const U*>(staged + region.offset);
  }

  // Finds the corrections of the items, and what decides on negatives.
  Competition Compete(const InBatchShape& shape) {
    const InBatchLayout layout = PlanItems(plan_, shape.rows, shape.items);
    std::byte* const staged = tensors_.template InBatch<std::byte>(Memory().staged);
    const uint32_t* const items = At<uint32_t>(staged, layout.items);
    Competition competition{.items = items,
                            .lists = At<PositiveList>(staged, layout.lists),
                            .positives = At<uint32_t>(staged, layout.positives),
                            .corrections = nullptr,
                            .own = shape.own,
                            .inverse_temperature = plan_.output_factor};
    if (!plan_.counts_items) return competition;
    const auto* const header = At<InBatchHeader>(staged, layout.header);
    const float* const state = tensors_.item_frequency().data();
    executor_.ForEach(std::max<size_t>(shape.items * ItemFrequency::kHashes, 1),
                      ObserveSlot{header, At<TouchedSlot>(staged, layout.slots), state,
                                  tensors_.pending_slots(), tensors_.pending_count()});
    float* const corrections = tensors_.template InBatch<float>(Memory().corrections);
    executor_.ForEach(shape.items, CorrectItem{header, items, At<uint32_t>(staged, layout.places),
                                               tensors_.pending_slots(), state, corrections});
    competition.corrections = corrections;
    return competition;
  }

  // Returns the vectors of all ranks' items, in the order of the ranks, with zeros as padding.
  Matrix<const T> Gathered(const RankPass& ranks, const Matrix<const T>& own) {
    const InBatchShape& shape = ranks.in_batch;
    const size_t dim = own.columns;
    const Matrix<T> packed{tensors_.template InBatch<T>(Memory().own_items), shape.share, dim, dim};
    const Matrix<T> all{tensors_.template InBatch<T>(Memory().all_items), shape.items, dim, dim};
    if (shape.items == 0) return all;
    executor_.ForEachCell(shape.share, dim, PadRows<T>{own, packed});
    ranks.gather({reinterpret_cast<const std::byte*>(packed.data), shape.share * dim * sizeof(T)},
                 reinterpret_cast<std::byte*>(all.data));
    return all;
  }

  // Computes the part of samples [first, first + users.rows).
  void FindBlock(const RankPass& ranks, const Competition& competition, size_t first,
                 const Matrix<const T>& users, const Matrix<const T>& items,
                 const Matrix<T>& user_gradient, const Matrix<float>& item_gradient) {
    const size_t rows = users.rows;
    const size_t stride = ScoreStride(items.rows);
    const Matrix<float> products{tensors_.template InBatch<float>(Memory().scores), rows,
                                 items.rows, stride};
    const Matrix<T> slopes{tensors_.template InBatch<T>(Memory().score_gradients), rows, items.rows,
                           stride};
    const auto lanes = [&](const Region& region) {
      return Matrix<float>{tensors_.template InBatch<float>(region), rows, kScoreLanes,
                           kScoreLanes};
    };
    const Matrix<float> largest = lanes(Memory().largest);
    const Matrix<float> sums = lanes(Memory().sums);
    auto* const score_rows = tensors_.template InBatch<ScoreRow>(Memory().rows);
    executor_.Multiply(Gemm<T, float>{
        .a = users, .b = items, .b_transposed = true, .depth = users.columns, .d = products});
    executor_.ForEachCell(rows, kScoreLanes,
                          ScoreLane{competition, first, products, largest, sums});
    executor_.ForEachSum(
        rows, FinishScores{competition, first, products, largest, sums, tensors_.labels(),
                           tensors_.sample_weights(), static_cast<double>(task_.weight),
                           static_cast<double>(task_.loss.temperature),
                           static_cast<double>(ranks.divisor),
                           kIsScaled<T> ? &tensors_.loss_scale()->scale : nullptr,
                           tensors_.losses(), tensors_.probabilities(), score_rows});
    executor_.ForEachCell(rows, items.rows,
                          ScoreGradientCell<T>{competition, first, score_rows, products, slopes});
    executor_.Multiply(
        Gemm<T, T>{.a = slopes, .b = items, .depth = items.rows, .d = user_gradient});
    executor_.Multiply(Gemm<T, float>{.a = slopes,
                                      .a_transposed = true,
                                      .b = users,
                                      .depth = rows,
                                      .d = item_gradient,
                                      .c = item_gradient,
                                      .beta = first == 0 ? 0.0F : 1.0F});
  }

  const ModelPlan& plan_;
  const TaskConfig task_;
  Executor& executor_;
  Tensors<T>& tensors_;
};

}  // namespace simurgh::cuda
