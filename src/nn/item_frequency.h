#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace simurgh {

// A streaming estimate of how often an item is in a global batch.
//
// For each occurrence of an item at step t, counted from 1, its mean gap B and its last step A
// change by
//   B += rate (t - A - B), A = t, with rate = max(kRate, 1 / number of occurrences so far).
// The frequency is 1 / B, the expected number of occurrences in a global batch. Further occurrences
// in the same batch have the gap 0. So B is the mean of the gaps at first, and then their moving
// average, which follows a change of the data. The first gap counts from the start.
//
// Items are hashed to kSlots slots by kHashes functions. Items of one slot are one item to it,
// which makes its gap too small; so an item has the largest of its gaps.
//
// The result does not depend on the order of a batch, so ranks need not agree on one.
//
// Source: Yi et al., "Sampling-bias-corrected neural modeling for large corpus item
// recommendations", RecSys 2019, algorithms 2 and 3. There the rate is constant, which weighs the
// start 1 / rate occurrences long.
//
// Threads: one owner.
class ItemFrequency {
 public:
  static constexpr size_t kHashes = 2;
  static constexpr size_t kSlots = size_t{1} << 18;
  static constexpr float kRate = 0.01F;
  // Steps are kept as f32, which is exact below this. A gap is modulo this number.
  static constexpr uint64_t kSteps = uint64_t{1} << 24;
  // Values of the state: mean gaps, last steps, and numbers of occurrences up to 1 / kRate; each
  // (kHashes, kSlots), at first 0.
  static constexpr size_t kCells = kHashes * kSlots;
  static constexpr size_t kStateSize = 3 * kCells;

  // The values of a slot.
  struct Slot {
    float gap = 0;
    float last = 0;
    float count = 0;

    static constexpr Slot Of(const float* state, size_t index) {
      return {state[index], state[kCells + index], state[2 * kCells + index]};
    }
    constexpr void Write(float* state, size_t index) const {
      state[index] = gap;
      state[kCells + index] = last;
      state[2 * kCells + index] = count;
    }
    // Counts an occurrence. now: NumberOf the step.
    constexpr void Occur(float now) {
      constexpr float kMostCounted = 1.0F / kRate;
      const float since = now - last;
      const float passed = since < 0 ? since + static_cast<float>(kSteps) : since;
      count = count + 1 < kMostCounted ? count + 1 : kMostCounted;
      gap += (passed - gap) / count;
      last = now;
    }
  };

  // A slot in which items of a step are.
  struct Touched {
    size_t index = 0;  // Into (kHashes, kSlots).
    size_t count = 0;  // Occurrences of its items.
  };

  // Returns the number that a slot keeps of a step.
  static float NumberOf(uint64_t step) { return static_cast<float>(1 + step % kSteps); }
  // Returns the index of an item's slot.
  static size_t SlotOf(uint64_t item, size_t hash);
  // Returns the slots of a step's items, ascending by index.
  static std::vector<Touched> TouchedBy(std::span<const uint64_t> items);
  // Returns the estimate of an item whose gaps are at most `gap`; 0: it has not occurred.
  static constexpr double FrequencyOf(float gap) {
    return gap == 0 ? 0.0 : 1.0 / static_cast<double>(gap);
  }

  // Computes the values after this step, and keeps them for Commit(). Replaces those of a step that
  // was not committed. items: of the global batch, in any order, with repetitions. Shape: state
  // (kStateSize).
  void Observe(uint64_t step, std::span<const uint64_t> items, std::span<const float> state);

  // Returns the estimate, 0 for an item that has not occurred, including the observed step.
  double Of(uint64_t item, std::span<const float> state) const;

  // Writes what the last Observe() has computed, once.
  void Commit(std::span<float> state);
  void Drop() { pending_.clear(); }

 private:
  struct Pending {
    size_t index = 0;
    Slot slot;
  };

  std::vector<Pending> pending_;  // Ascending by index.
};

}  // namespace simurgh
