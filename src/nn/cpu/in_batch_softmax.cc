#include "nn/cpu/in_batch_softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"
#include "nn/cpu/compute_threads.h"
#include "nn/cpu/matmul.h"
#include "nn/cpu/softmax_row.h"

namespace simurgh::cpu {
namespace {

AlignedBuffer& Grown(AlignedBuffer& memory, size_t floats) {
  if (memory.size() < floats * sizeof(float)) memory = AlignedBuffer(floats * sizeof(float));
  return memory;
}

MatrixView<float> MatrixOf(AlignedBuffer& memory, size_t rows, size_t columns) {
  return {reinterpret_cast<float*>(Grown(memory, rows * columns).data()), rows, columns};
}

}  // namespace

std::vector<float> InBatchSoftmax::Corrections(const InBatchItems& all, const RankStep& step,
                                               std::span<const float> state) {
  std::vector<float> corrections(all.items.size(), 0.0F);
  if (state.empty()) return corrections;
  frequency_.Observe(step.step, all.Occurred(), state);
  for (size_t j = 0; j < all.items.size(); ++j) {
    if (all.kinds[j] == kPadding) continue;
    corrections[j] =
        static_cast<float>(std::log(frequency_.Of(all.items[j], state) + step.uniform_rate));
  }
  return corrections;
}

StatusOr<double> InBatchSoftmax::Loss(MatrixView<const float> vectors,
                                      std::span<const float> labels, const RankStep& step,
                                      std::span<const float> state, std::span<float> predictions,
                                      uint64_t gradient_divisor, MatrixView<float> gradient) {
  const size_t dim = vectors.columns() / 2;
  const size_t samples = vectors.rows() - step.uniform_negatives;
  const MatrixView<const float> users = vectors.Columns(0, dim);
  const MatrixView<float> user_gradient = gradient.Columns(0, dim);
  MatrixView<const float> item_vectors = vectors.Columns(dim, dim);
  const auto all_vectors = [&](size_t count) {
    const MatrixView<float> gathered = MatrixOf(gathered_, count, dim);
    item_vectors = gathered;
    return gathered;
  };
  SIMURGH_ASSIGN_OR_RETURN(const InBatchItems all,
                           GatherItems(labels, item_vectors, step, all_vectors));
  const size_t count = all.count();
  const MatrixView<float> item_gradient =
      step.gather ? MatrixOf(summed_, count, dim) : gradient.Columns(dim, dim);
  const std::vector<float> corrections = Corrections(all, step, state);
  const LeftOut left_out(all);
  const std::span<const float> weights = labels.subspan(vectors.rows());
  const double inverse = 1.0 / double{task_.loss.temperature};
  std::vector<double> losses(samples);
  for (size_t j = 0; samples == 0 && j < count; ++j) std::ranges::fill(item_gradient.row(j), 0.0F);
  const size_t block_rows = std::clamp<size_t>(block_floats_ / std::max<size_t>(count, 1), 1,
                                               std::max<size_t>(samples, 1));
  for (size_t first = 0; first < samples; first += block_rows) {
    const size_t rows = std::min(block_rows, samples - first);
    const MatrixView<float> scores = MatrixOf(scores_, rows, count);
    SIMURGH_RETURN_IF_ERROR(Multiply({users.Rows(first, rows)}, {item_vectors, /*transposed=*/true},
                                     dim, 0.0F, scores));
    ForEachRow(rows, count, [&](size_t r) {
      const size_t i = first + r;
      const std::span<float> row = scores.row(r);
      predictions[i] = static_cast<float>(double{row[all.own + i]} * inverse);
      const double label = std::isnan(labels[i]) ? 0.0 : double{labels[i]};
      const double factor = double{task_.weight} * label * (weights.empty() ? 1.0 : weights[i]);
      if (factor == 0) {
        std::ranges::fill(row, 0.0F);
        return;
      }
      CorrectScores(static_cast<float>(inverse), corrections, row);
      left_out.ForEach(all.own + i,
                       [&](size_t j) { row[j] = -std::numeric_limits<float>::infinity(); });
      const double slope = factor * inverse / static_cast<double>(gradient_divisor);
      losses[i] = factor * CrossEntropyRow(all.own + i, slope, row);
    });
    SIMURGH_RETURN_IF_ERROR(
        Multiply({scores}, {item_vectors}, count, 0.0F, user_gradient.Rows(first, rows)));
    SIMURGH_RETURN_IF_ERROR(Multiply({scores, /*transposed=*/true}, {users.Rows(first, rows)}, rows,
                                     first == 0 ? 0.0F : 1.0F, item_gradient));
  }
  for (size_t i = samples; i < vectors.rows(); ++i) {
    std::ranges::fill(user_gradient.row(i), 0.0F);
    predictions[i] = 0.0F;
  }
  if (step.gather) {
    SIMURGH_RETURN_IF_ERROR(step.sum_floats(item_gradient.flat()));
    for (size_t i = 0; i < vectors.rows(); ++i) {
      std::ranges::copy(item_gradient.row(all.own + i), gradient.row(i).data() + dim);
    }
  }
  double sum = 0;
  for (const double loss : losses) sum += loss;
  return samples == 0 ? 0.0 : sum / static_cast<double>(samples);
}

}  // namespace simurgh::cpu
