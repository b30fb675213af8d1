#include "nn/cpu/in_batch_softmax.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "nn/cpu/compute_threads.h"
#include "nn/cpu/matmul.h"

namespace simurgh::cpu {
namespace {

// Returns a number for each sample. Samples whose rows are equal bit by bit have the same one.
std::vector<uint32_t> NumbersOf(std::span<const MatrixView<const float>> inputs) {
  std::vector<uint32_t> numbers(inputs.front().rows(), 0);
  for (const MatrixView<const float> rows : inputs) {
    // Splits samples that were equal so far.
    std::map<std::pair<uint32_t, std::string_view>, uint32_t> found;
    for (size_t r = 0; r < rows.rows(); ++r) {
      const std::string_view bytes(reinterpret_cast<const char*>(rows.row(r).data()),
                                   rows.columns() * sizeof(float));
      const std::pair key(numbers[r], bytes);
      numbers[r] = found.emplace(key, static_cast<uint32_t>(r)).first->second;
    }
  }
  return numbers;
}

// Replaces the scores of sample `own` by their gradient for a loss of `factor` times the cross
// entropy. Returns the cross entropy.
double CrossEntropyRow(size_t own, double factor, std::span<const uint32_t> items,
                       std::span<float> scores) {
  const auto competes = [&](size_t j) { return j == own || items[j] != items[own]; };
  float largest = scores[own];
  for (size_t j = 0; j < scores.size(); ++j) {
    if (competes(j)) largest = std::max(largest, scores[j]);
  }
  double sum = 0;
  const double own_score = double{scores[own]} - double{largest};
  for (size_t j = 0; j < scores.size(); ++j) {
    scores[j] = competes(j) ? std::exp(scores[j] - largest) : 0.0F;
    sum += double{scores[j]};
  }
  // The own term last: a share near 1 would cancel.
  const double others = sum - double{scores[own]};
  const double scale = factor / sum;
  for (float& score : scores) score = static_cast<float>(double{score} * scale);
  scores[own] = static_cast<float>(-factor * (others / sum));
  return std::log(sum) - own_score;
}

}  // namespace

StatusOr<double> InBatchSoftmax::Loss(MatrixView<const float> vectors,
                                      std::span<const MatrixView<const float>> item_inputs,
                                      std::span<const float> labels, std::span<float> predictions,
                                      uint64_t gradient_divisor, MatrixView<float> gradient) {
  const size_t samples = vectors.rows();
  const size_t dim = vectors.columns() / 2;
  const MatrixView<const float> users = vectors.Columns(0, dim);
  const MatrixView<const float> items = vectors.Columns(dim, dim);
  const MatrixView<float> user_gradient = gradient.Columns(0, dim);
  const MatrixView<float> item_gradient = gradient.Columns(dim, dim);
  const std::span<const float> weights = labels.subspan(samples);
  const double inverse = 1.0 / double{task_.loss.temperature};
  const std::vector<uint32_t> numbers = NumbersOf(item_inputs);
  std::vector<double> losses(samples);
  const size_t block_rows = std::clamp<size_t>(block_floats_ / samples, 1, samples);
  const size_t bytes = block_rows * samples * sizeof(float);
  if (scores_.size() < bytes) scores_ = AlignedBuffer(bytes);
  for (size_t first = 0; first < samples; first += block_rows) {
    const size_t rows = std::min(block_rows, samples - first);
    const MatrixView<float> scores(reinterpret_cast<float*>(scores_.data()), rows, samples);
    SIMURGH_RETURN_IF_ERROR(
        Multiply({users.Rows(first, rows)}, {items, /*transposed=*/true}, dim, 0.0F, scores));
    ForEachRow(rows, samples, [&](size_t r) {
      const size_t i = first + r;
      const std::span<float> row = scores.row(r);
      for (float& score : row) score = static_cast<float>(double{score} * inverse);
      predictions[i] = row[i];
      const double label = std::isnan(labels[i]) ? 0.0 : double{labels[i]};
      const double factor = double{task_.weight} * label * (weights.empty() ? 1.0 : weights[i]);
      if (factor == 0) {
        std::ranges::fill(row, 0.0F);
        return;
      }
      const double slope = factor * inverse / static_cast<double>(gradient_divisor);
      losses[i] = factor * CrossEntropyRow(i, slope, numbers, row);
    });
    SIMURGH_RETURN_IF_ERROR(
        Multiply({scores}, {items}, samples, 0.0F, user_gradient.Rows(first, rows)));
    SIMURGH_RETURN_IF_ERROR(Multiply({scores, /*transposed=*/true}, {users.Rows(first, rows)}, rows,
                                     first == 0 ? 0.0F : 1.0F, item_gradient));
  }
  double sum = 0;
  for (const double loss : losses) sum += loss;
  return sum / static_cast<double>(samples);
}

}  // namespace simurgh::cpu
