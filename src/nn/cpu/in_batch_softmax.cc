#include "nn/cpu/in_batch_softmax.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "nn/cpu/compute_threads.h"
#include "nn/cpu/matmul.h"

namespace simurgh::cpu {
namespace {

// What a sample of the global batch is.
enum ItemKind : uint8_t {
  kPadding,   // Nothing: it fills up a rank's share.
  kOther,     // A sample without a positive label.
  kPositive,  // A sample with a label above 0.
  kUniform,   // An item that no sample has.
};

AlignedBuffer& Grown(AlignedBuffer& memory, size_t floats) {
  if (memory.size() < floats * sizeof(float)) memory = AlignedBuffer(floats * sizeof(float));
  return memory;
}

MatrixView<float> MatrixOf(AlignedBuffer& memory, size_t rows, size_t columns) {
  return {reinterpret_cast<float*>(Grown(memory, rows * columns).data()), rows, columns};
}

// Lists of numbers, by a number.
class Lists {
 public:
  // owner: the list of each value, below `count`.
  Lists(size_t count, std::span<const uint32_t> owner, std::span<const uint32_t> values)
      : begins_(count + 1, 0), values_(values.size()) {
    for (const uint32_t list : owner) ++begins_[list + 1];
    for (size_t list = 0; list < count; ++list) begins_[list + 1] += begins_[list];
    std::vector<size_t> next(begins_.begin(), begins_.end() - 1);
    for (size_t i = 0; i < values.size(); ++i) values_[next[owner[i]]++] = values[i];
  }

  std::span<const uint32_t> of(size_t list) const {
    return std::span(values_).subspan(begins_[list], begins_[list + 1] - begins_[list]);
  }

 private:
  std::vector<size_t> begins_;
  std::vector<uint32_t> values_;
};

// Numbers keys by first appearance.
std::vector<uint32_t> NumbersOf(std::span<const uint64_t> keys, size_t* count) {
  std::unordered_map<uint64_t, uint32_t> numbers;
  numbers.reserve(keys.size());
  std::vector<uint32_t> found;
  found.reserve(keys.size());
  for (const uint64_t key : keys) {
    found.push_back(numbers.emplace(key, static_cast<uint32_t>(numbers.size())).first->second);
  }
  *count = numbers.size();
  return found;
}

// Which samples' items are no negatives of a sample.
class LeftOut {
 public:
  LeftOut(std::span<const uint64_t> users, std::span<const uint64_t> items,
          std::span<const uint8_t> kinds) {
    size_t user_count = 0;
    size_t item_count = 0;
    users_ = NumbersOf(users, &user_count);
    items_ = NumbersOf(items, &item_count);
    std::vector<uint32_t> samples;
    std::vector<uint32_t> items_of_samples;
    std::vector<std::pair<uint32_t, uint32_t>> positives;  // User, item.
    for (uint32_t j = 0; j < kinds.size(); ++j) {
      if (kinds[j] == kPadding) {
        padding_.push_back(j);
        continue;
      }
      samples.push_back(j);
      items_of_samples.push_back(items_[j]);
      if (kinds[j] == kPositive) positives.emplace_back(users_[j], items_[j]);
    }
    std::ranges::sort(positives);
    positives.erase(std::unique(positives.begin(), positives.end()), positives.end());
    std::vector<uint32_t> owners;
    std::vector<uint32_t> owned;
    for (const auto& [user, item] : positives) {
      owners.push_back(user);
      owned.push_back(item);
    }
    samples_ = Lists(item_count, items_of_samples, samples);
    positives_ = Lists(user_count, owners, owned);
  }

  // Calls leave_out(j) for the samples j, not for i itself. Can repeat one.
  template <typename Work>
  void ForEach(size_t i, const Work& leave_out) const {
    const auto item = [&](uint32_t number) {
      for (const uint32_t j : samples_.of(number)) {
        if (j != i) leave_out(j);
      }
    };
    for (const uint32_t j : padding_) leave_out(j);
    item(items_[i]);
    for (const uint32_t number : positives_.of(users_[i])) {
      if (number != items_[i]) item(number);
    }
  }

 private:
  std::vector<uint32_t> users_;
  std::vector<uint32_t> items_;
  std::vector<uint32_t> padding_;
  Lists samples_{0, {}, {}};    // The samples of each item.
  Lists positives_{0, {}, {}};  // The items of each user.
};

// Replaces the scores of sample `own` by their gradient for a loss of `factor` times the cross
// entropy. Returns the cross entropy. A score of minus infinity does not compete.
double CrossEntropyRow(size_t own, double factor, std::span<float> scores) {
  const float largest = std::ranges::max(scores);
  double sum = 0;
  const double own_score = double{scores[own]} - double{largest};
  for (float& score : scores) {
    score = std::exp(score - largest);
    sum += double{score};
  }
  // The own term last: a share near 1 would cancel.
  const double others = sum - double{scores[own]};
  const double scale = factor / sum;
  for (float& score : scores) score = static_cast<float>(double{score} * scale);
  scores[own] = static_cast<float>(-factor * (others / sum));
  return std::log(sum) - own_score;
}

}  // namespace

StatusOr<InBatchSoftmax::Items> InBatchSoftmax::Gather(MatrixView<const float> vectors,
                                                       std::span<const float> labels,
                                                       const RankStep& step) {
  const size_t samples = vectors.rows();
  const size_t dim = vectors.columns() / 2;
  SIMURGH_CHECK_EQ(step.user_keys.size(), samples);
  SIMURGH_CHECK_EQ(step.item_keys.size(), samples);
  const auto kind = [&](size_t i) -> uint8_t {
    if (i + step.uniform_negatives >= samples) return kUniform;
    return labels[i] > 0 ? kPositive : kOther;
  };
  Items all;
  if (!step.gather) {
    all.share = samples;
    all.vectors = vectors.Columns(dim, dim);
    all.users.assign(step.user_keys.begin(), step.user_keys.end());
    all.items.assign(step.item_keys.begin(), step.item_keys.end());
    for (size_t i = 0; i < samples; ++i) all.kinds.push_back(kind(i));
    return all;
  }
  const uint64_t own = samples;
  std::vector<uint64_t> sizes(step.ranks);
  SIMURGH_RETURN_IF_ERROR(
      step.gather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(sizes))));
  all.share = std::ranges::max(sizes);
  all.own = step.rank * all.share;
  // A rank's share: vectors, user keys, item keys, kinds.
  const size_t vector_bytes = all.share * dim * sizeof(float);
  const size_t key_bytes = all.share * sizeof(uint64_t);
  const size_t share_bytes = vector_bytes + 2 * key_bytes + all.share;
  std::vector<std::byte> share(share_bytes);
  for (size_t i = 0; i < samples; ++i) {
    std::memcpy(share.data() + i * dim * sizeof(float), vectors.row(i).data() + dim,
                dim * sizeof(float));
    share[vector_bytes + 2 * key_bytes + i] = std::byte{kind(i)};
  }
  if (samples > 0) {
    std::memcpy(share.data() + vector_bytes, step.user_keys.data(), samples * sizeof(uint64_t));
    std::memcpy(share.data() + vector_bytes + key_bytes, step.item_keys.data(),
                samples * sizeof(uint64_t));
  }
  std::vector<std::byte> shares(step.ranks * share_bytes);
  SIMURGH_RETURN_IF_ERROR(step.gather(share, shares));
  const size_t count = step.ranks * all.share;
  const MatrixView<float> items = MatrixOf(gathered_, count, dim);
  all.vectors = items;
  all.users.resize(count);
  all.items.resize(count);
  all.kinds.resize(count);
  for (size_t rank = 0; all.share > 0 && rank < step.ranks; ++rank) {
    const std::byte* const from = shares.data() + rank * share_bytes;
    const size_t first = rank * all.share;
    std::memcpy(items.row(first).data(), from, vector_bytes);
    std::memcpy(&all.users[first], from + vector_bytes, key_bytes);
    std::memcpy(&all.items[first], from + vector_bytes + key_bytes, key_bytes);
    std::memcpy(&all.kinds[first], from + vector_bytes + 2 * key_bytes, all.share);
  }
  return all;
}

std::vector<float> InBatchSoftmax::Corrections(const Items& all, const RankStep& step,
                                               std::span<const float> state) {
  std::vector<float> corrections(all.items.size(), 0.0F);
  if (state.empty()) return corrections;
  std::vector<uint64_t> occurred;
  for (size_t j = 0; j < all.items.size(); ++j) {
    if (all.kinds[j] == kOther || all.kinds[j] == kPositive) occurred.push_back(all.items[j]);
  }
  frequency_.Observe(step.step, occurred, state);
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
  SIMURGH_ASSIGN_OR_RETURN(const Items all, Gather(vectors, labels, step));
  const size_t count = all.vectors.rows();
  const MatrixView<float> item_gradient =
      step.gather ? MatrixOf(summed_, count, dim) : gradient.Columns(dim, dim);
  const std::vector<float> corrections = Corrections(all, step, state);
  const LeftOut left_out(all.users, all.items, all.kinds);
  const std::span<const float> weights = labels.subspan(vectors.rows());
  const double inverse = 1.0 / double{task_.loss.temperature};
  std::vector<double> losses(samples);
  for (size_t j = 0; samples == 0 && j < count; ++j) std::ranges::fill(item_gradient.row(j), 0.0F);
  const size_t block_rows = std::clamp<size_t>(block_floats_ / std::max<size_t>(count, 1), 1,
                                               std::max<size_t>(samples, 1));
  for (size_t first = 0; first < samples; first += block_rows) {
    const size_t rows = std::min(block_rows, samples - first);
    const MatrixView<float> scores = MatrixOf(scores_, rows, count);
    SIMURGH_RETURN_IF_ERROR(
        Multiply({users.Rows(first, rows)}, {all.vectors, /*transposed=*/true}, dim, 0.0F, scores));
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
      for (size_t j = 0; j < count; ++j) {
        row[j] = static_cast<float>(double{row[j]} * inverse - double{corrections[j]});
      }
      left_out.ForEach(all.own + i,
                       [&](size_t j) { row[j] = -std::numeric_limits<float>::infinity(); });
      const double slope = factor * inverse / static_cast<double>(gradient_divisor);
      losses[i] = factor * CrossEntropyRow(all.own + i, slope, row);
    });
    SIMURGH_RETURN_IF_ERROR(
        Multiply({scores}, {all.vectors}, count, 0.0F, user_gradient.Rows(first, rows)));
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
