#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/status.h"
#include "nn/dense_network.h"
#include "tensor/matrix_view.h"

// The items that compete in a step of the loss in_batch_softmax, for all backends. See
// cpu/in_batch_softmax.h.
namespace simurgh {

// What a sample of the global batch is.
enum ItemKind : uint8_t {
  kPadding,   // Nothing: it fills up a rank's share.
  kOther,     // A sample without a positive label.
  kPositive,  // A sample with a label above 0.
  kUniform,   // An item that no sample has.
};

// The samples of the global batch, in the order of the ranks, without their vectors.
struct InBatchItems {
  size_t own = 0;               // Index of the rank's first sample.
  size_t share = 0;             // Samples of a rank, with padding.
  std::vector<uint64_t> users;  // Keys.
  std::vector<uint64_t> items;
  std::vector<ItemKind> kinds;

  size_t count() const { return kinds.size(); }
  // Returns the items of samples, with repetitions.
  std::vector<uint64_t> Occurred() const;
};

// Returns the items of the own batch, or with step.gather of all ranks' batches.
//
// labels: at least (B). vectors: of the own items, (B, D); D may be 0. all_vectors: gets a
// number of items, and returns memory for their vectors, which become those of all ranks. It is
// called only with step.gather.
// Errors: those of step.gather.
StatusOr<InBatchItems> GatherItems(
    std::span<const float> labels, MatrixView<const float> vectors, const RankStep& step,
    const std::function<MatrixView<float>(size_t count)>& all_vectors);

// Numbers of keys, by first appearance.
struct KeyNumbers {
  explicit KeyNumbers(std::span<const uint64_t> keys);

  std::vector<uint32_t> numbers;   // One for each key.
  std::vector<uint64_t> distinct;  // The key of each number.
};

// The samples whose items are no negatives of a sample. Numbers users and items by first
// appearance.
class LeftOut {
 public:
  explicit LeftOut(const InBatchItems& all);

  // Returns the numbers of the samples' items.
  std::span<const uint32_t> items() const { return items_; }
  // Returns the numbers of the items of a sample's user that are in a sample with a positive label,
  // ascending, with repetitions.
  std::span<const uint32_t> PositivesOf(size_t sample) const {
    return positives_.of(users_[sample]);
  }
  // Returns PositivesOf() of all users, joined.
  std::span<const uint32_t> positives() const { return positives_.values(); }

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
    uint32_t last = items_[i];
    for (const uint32_t number : PositivesOf(i)) {
      if (number != items_[i] && number != last) item(number);
      last = number;
    }
  }

 private:
  // Lists of numbers, by a number.
  class Lists {
   public:
    Lists() = default;
    // owner: the list of each value, below `count`.
    Lists(size_t count, std::span<const uint32_t> owner, std::span<const uint32_t> values);

    void SortEach();
    std::span<const uint32_t> of(size_t list) const {
      return std::span(values_).subspan(begins_[list], begins_[list + 1] - begins_[list]);
    }
    std::span<const uint32_t> values() const { return values_; }

   private:
    std::vector<size_t> begins_;
    std::vector<uint32_t> values_;
  };

  std::vector<uint32_t> users_;
  std::vector<uint32_t> items_;
  std::vector<uint32_t> padding_;
  Lists samples_;    // The samples of each item.
  Lists positives_;  // The items of each user.
};

}  // namespace simurgh
