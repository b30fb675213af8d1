#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "nn/cuda/float16.h"
#include "nn/cuda/matrix.h"
#include "nn/cuda/reduction_kernels.h"
#include "nn/host_device.h"
#include "nn/item_frequency.h"

// The loss in_batch_softmax; see nn/cpu/in_batch_softmax.h. Scores are those of a block of samples
// against all items of the global batch.
namespace simurgh::cuda {

// Sizes of a step, which captured work depends on.
struct InBatchShape {
  size_t rows = 0;     // Samples of this rank's batch, with uniform negatives.
  size_t uniform = 0;  // Uniform negatives among them, the last ones.
  size_t items = 0;    // Samples of all ranks' batches, with padding.
  size_t share = 0;    // Samples of a rank, with padding.
  size_t own = 0;      // Index of the rank's first sample among all.

  // Returns the samples that have a loss.
  SIMURGH_HOST_DEVICE size_t scored() const { return rows - uniform; }
};

// Data of a step in device memory: captured work runs in many steps.
struct InBatchHeader {
  double uniform_rate = 0;  // See RankStep.
  float now = 0;            // See ItemFrequency::NumberOf.
  uint32_t touched = 0;     // Slots of ItemFrequency in which items of the step are.
};

// Items of a user that are in a sample with a positive label, in a list of numbers.
struct PositiveList {
  uint32_t begin = 0;
  uint32_t end = 0;
};

// See ItemFrequency::Touched.
struct TouchedSlot {
  uint32_t index = 0;
  uint32_t count = 0;
};

// The number of a place without an item.
inline constexpr uint32_t kNoItem = 0xffffffffU;
// Set in an item's place if it is an index into the step's touched slots, else into all slots.
inline constexpr uint32_t kIsTouched = 0x80000000U;

// The values of a slot after a step.
struct PendingSlot {
  uint32_t index = 0;
  ItemFrequency::Slot slot;
};

// Copies rows, and writes zeros behind them. Called for each cell of `to`.
template <typename T>
struct PadRows {
  Matrix<const T> from;
  Matrix<T> to;

  SIMURGH_HOST_DEVICE void operator()(size_t row, size_t column) const {
    Assign(to(row, column), row < from.rows ? ToFloat(from(row, column)) : 0.0F);
  }
};

// Computes the values of the touched slots, which a step that counts writes to the state. Called
// for each slot up to the largest number of slots.
struct ObserveSlot {
  const InBatchHeader* header;
  const TouchedSlot* touched;
  const float* state;  // See ItemFrequency::kStateSize.
  PendingSlot* pending;
  uint32_t* pending_count;

  SIMURGH_HOST_DEVICE void operator()(size_t i) const {
    if (i == 0) *pending_count = header->touched;
    if (i >= header->touched) return;
    const TouchedSlot own = touched[i];
    ItemFrequency::Slot slot = ItemFrequency::Slot::Of(state, own.index);
    for (uint32_t k = 0; k < own.count; ++k) slot.Occur(header->now);
    pending[i] = {own.index, slot};
  }
};

// Writes a pending slot to the state. Called as ObserveSlot.
struct CommitSlot {
  const PendingSlot* pending;
  const uint32_t* pending_count;
  float* state;

  SIMURGH_HOST_DEVICE void operator()(size_t i) const {
    if (i < *pending_count) pending[i].slot.Write(state, pending[i].index);
  }
};

// corrections[j] = log p_j. Called for each item.
struct CorrectItem {
  const InBatchHeader* header;
  const uint32_t* items;
  const uint32_t* places;  // (G, kHashes)
  const PendingSlot* pending;
  const float* state;
  float* corrections;

  SIMURGH_HOST_DEVICE void operator()(size_t j) const {
    corrections[j] = 0.0F;
    if (items[j] == kNoItem) return;
    float largest = 0.0F;
    for (size_t hash = 0; hash < ItemFrequency::kHashes; ++hash) {
      const uint32_t place = places[j * ItemFrequency::kHashes + hash];
      const float gap =
          (place & kIsTouched) != 0 ? pending[place & ~kIsTouched].slot.gap : state[place];
      if (gap == 0.0F) {  // No item of the slot has occurred.
        largest = 0.0F;
        break;
      }
      largest = gap > largest ? gap : largest;
    }
    const double frequency = ItemFrequency::FrequencyOf(largest) + header->uniform_rate;
    corrections[j] = static_cast<float>(std::log(frequency));
  }
};

// Which items compete with a sample's, and with which scores.
struct Competition {
  const uint32_t* items;      // (G) numbers.
  const PositiveList* lists;  // (B)
  const uint32_t* positives;
  const float* corrections;  // (G); null: 0.
  size_t own;                // Index of the rank's first sample among the items.
  float inverse_temperature;

  // Returns whether item j is a negative of a sample of this rank.
  SIMURGH_HOST_DEVICE bool Has(size_t sample, size_t j) const {
    const uint32_t item = items[j];
    if (item == kNoItem || item == items[own + sample]) return false;
    uint32_t low = lists[sample].begin;
    uint32_t high = lists[sample].end;
    while (low < high) {
      const uint32_t middle = low + (high - low) / 2;
      if (positives[middle] == item) return false;
      if (positives[middle] < item) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return true;
  }
  SIMURGH_HOST_DEVICE float Score(float product, size_t j) const {
    const float score = product * inverse_temperature;
    return corrections == nullptr ? score : score - corrections[j];
  }
};

// Threads that read a row of scores, adjacent ones adjacent scores.
inline constexpr size_t kScoreLanes = 256;

// Every kScoreLanes-th score of a row: their largest, and the sum of exp(score - largest), of the
// negatives. Called for each (sample of the block, lane).
struct ScoreLane {
  Competition competition;
  size_t first;  // First sample of the block.
  Matrix<const float> products;
  Matrix<float> largest;
  Matrix<float> sums;

  SIMURGH_HOST_DEVICE void operator()(size_t row, size_t lane) const {
    float top = -INFINITY;
    float sum = 0.0F;
    for (size_t j = lane; j < products.columns; j += kScoreLanes) {
      if (!competition.Has(first + row, j)) continue;
      const float score = competition.Score(products(row, j), j);
      const float above = score - top;
      if (above > 0.0F) {
        sum = sum * std::exp(-above) + 1.0F;
        top = score;
      } else {
        sum += std::exp(above);
      }
    }
    largest(row, lane) = top;
    sums(row, lane) = sum;
  }
};

// The softmax of a sample: a negative of score s has the gradient factor * exp(s - largest).
struct ScoreRow {
  float largest = 0;
  float factor = 0;
  float own = 0;  // Gradient of the own item's score.
};

// Finishes the softmax of a sample: its loss, its prediction and the factors of its gradient. Runs
// by ForEachSum for each sample of the block.
struct FinishScores {
  Competition competition;
  size_t first;
  Matrix<const float> products;
  Matrix<const float> largest;
  Matrix<const float> sums;
  const float* labels;   // (B)
  const float* weights;  // (B); null: each is 1.
  double task_weight;
  double temperature;
  double divisor;      // The gradient is divided by it.
  const float* scale;  // Factor of the gradient; null: 1.
  double* losses;
  float* predictions;
  ScoreRow* rows;  // One for each sample of the block.

  SIMURGH_HOST_DEVICE float Lane(size_t row, size_t lane) const {
    const float top = Largest(row);
    float sum = 0.0F;
    for (size_t part = lane; part < kScoreLanes; part += kSumLanes) {
      sum += sums(row, part) * std::exp(largest(row, part) - top);
    }
    return sum;
  }
  SIMURGH_HOST_DEVICE void Finish(size_t row, float others) const {
    const size_t sample = first + row;
    const float product = products(row, competition.own + sample);
    predictions[sample] = static_cast<float>(static_cast<double>(product) / temperature);
    const double label = std::isnan(labels[sample]) ? 0.0 : static_cast<double>(labels[sample]);
    const double weight = weights == nullptr ? 1.0 : static_cast<double>(weights[sample]);
    const double factor = task_weight * label * weight;
    losses[sample] = 0.0;
    rows[row] = {};
    if (factor == 0.0) return;
    const float top = Largest(row);
    const double own = static_cast<double>(Own(row)) - static_cast<double>(top);
    const double sum = std::exp(own) + static_cast<double>(others);
    losses[sample] = factor * (std::log(sum) - own);
    const double slope = factor / temperature / divisor *
                         (scale == nullptr ? 1.0 : static_cast<double>(*scale)) / sum;
    rows[row] = {.largest = top,
                 .factor = static_cast<float>(slope),
                 .own = static_cast<float>(-slope * static_cast<double>(others))};
  }

 private:
  SIMURGH_HOST_DEVICE float Own(size_t row) const {
    const size_t j = competition.own + first + row;
    return competition.Score(products(row, j), j);
  }
  SIMURGH_HOST_DEVICE float Largest(size_t row) const {
    float top = Own(row);
    for (size_t part = 0; part < kScoreLanes; ++part) {
      const float other = largest(row, part);
      top = other > top ? other : top;
    }
    return top;
  }
};

// The gradient of a block's products of vectors. gradient may be products.
template <typename T>
struct ScoreGradientCell {
  static constexpr size_t kPack = kPackOf<float>;

  Competition competition;
  size_t first;
  const ScoreRow* rows;
  Matrix<const float> products;
  Matrix<T> gradient;

  bool Packs() const { return AllPack<kPack>(products, gradient); }

  template <size_t N>
  SIMURGH_HOST_DEVICE void Run(size_t row, size_t column) const {
    const ScoreRow own = rows[row];
    const size_t own_item = competition.own + first + row;
    const auto values = products.template Load<N>(row, column);
    Pack<T, N> slopes;
    for (size_t k = 0; k < N; ++k) {
      const size_t j = column + k;
      float slope = 0.0F;
      if (j == own_item) {
        slope = own.own;
      } else if (own.factor != 0.0F && competition.Has(first + row, j)) {
        slope = own.factor * std::exp(competition.Score(values[k], j) - own.largest);
      }
      Assign(slopes[k], slope);
    }
    gradient.template Store<N>(row, column, slopes);
  }
};

// Copies the gradient of the rank's items to that of the vectors. Uniform negatives have neither a
// user nor a prediction. Called for each (sample, column of a vector).
template <typename T>
struct FinishVectors {
  InBatchShape shape;
  Matrix<const float> item_gradient;  // (G, D)
  const float* scale;                 // Factor of the items' gradient; null: 1.
  Matrix<T> gradient;                 // (B, 2 D)
  float* predictions;

  SIMURGH_HOST_DEVICE void operator()(size_t row, size_t column) const {
    const size_t dim = item_gradient.columns;
    const float factor = scale == nullptr ? 1.0F : *scale;
    Assign(gradient(row, dim + column), item_gradient(shape.own + row, column) * factor);
    if (row < shape.scored()) return;
    Assign(gradient(row, column), 0.0F);
    if (column == 0) predictions[row] = 0.0F;
  }
};

}  // namespace simurgh::cuda
