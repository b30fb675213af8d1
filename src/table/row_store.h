#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "config/table_config.h"
#include "table/arena.h"
#include "table/new_rows.h"
#include "table/row_layout.h"
#include "table/simd/encoded_rows.h"
#include "table/update_rules.h"
#include "tensor/half.h"

namespace simurgh {

// The memory of a table's rows, and the operations on single rows: initialise, read, update. Rows
// are carved from the region in order. Released rows form a free list and are reused first.
//
// Threads: one owner. Lifetime: `arena` must outlive the store.
class RowStore {
 public:
  // Requires a valid config.
  RowStore(const TableConfig& config, uint64_t seed, Arena& arena);

  static RowFormat FormatOf(const TableConfig& config);
  static uint64_t ReservationFor(const TableConfig& config);
  // Seed of the stochastic rounding of a table's updates.
  static uint64_t NoiseSeed(const TableConfig& config, uint64_t seed);

  const Rows& rows() const { return rows_; }
  const RowFormat& format() const { return rows_.layout().format; }

  // Fills `rows` with free rows. Requires that they fit in the capacity.
  void Acquire(std::span<uint32_t> rows);
  void Release(uint32_t row);
  // Ensures that `rows_more` further rows have memory. Errors: see ArenaRegion::Commit().
  Status Commit(size_t rows_more) {
    return region_.Commit(rows_more * rows_.layout().stride_bytes);
  }
  // See ArenaRegion::AddedMemory().
  uint64_t AddedMemory(size_t rows_more) const {
    return region_.AddedMemory(rows_more * rows_.layout().stride_bytes);
  }
  // Row numbers below this have been acquired at some time.
  uint32_t carved_rows() const { return carved_rows_; }
  uint64_t bytes_used() const { return region_.used_bytes(); }

  struct NewRow {
    uint64_t id;
    uint32_t row;
  };
  // Most rows of one Initialize() call: they are still in the cache when it returns.
  static constexpr size_t kMaxNewRows = 16;
  // Initialises acquired rows with ids, initial weights and initial state.
  void Initialize(std::span<const NewRow> rows, uint32_t stamp);

  // Gives an acquired row the initial weights and state of its id again.
  void Reinitialize(uint32_t row);

  // Returns a row as f32, weights and then state. `scratch`: format().floats() numbers, used when
  // the row is not stored as f32.
  std::span<const float> Values(uint32_t row, std::span<float> scratch) const {
    return ValuesAt(rows_.values(row), scratch);
  }
  // The same for values that are elsewhere.
  std::span<const float> ValuesAt(const std::byte* values, std::span<float> scratch) const;

  // Copies weights out in a precision. f32 to f32 is copied at once, everything else at the next
  // Flush() or earlier. Requires that added rows do not change until then.
  class Reader {
   public:
    Reader(const RowStore& store, RowPrecision precision)
        : store_(store),
          precision_(precision),
          direct_(store.format().weights == RowPrecision::kF32 && precision == RowPrecision::kF32) {
    }
    void Add(uint32_t row, std::byte* to) { AddValues(store_.rows_.values(row), to); }
    // The same for values that are elsewhere.
    void AddValues(const std::byte* values, std::byte* to) {
      if (direct_) [[likely]] {
        CopyFloats(reinterpret_cast<const float*>(values), store_.format().dim,
                   reinterpret_cast<float*>(to));
      } else {
        reads_[filled_++] = {values, to};
        if (filled_ == reads_.size()) Flush();
      }
    }
    void Flush() {
      if (filled_ == 0) return;
      ConvertRows(store_.format().weights, precision_, store_.format().dim,
                  {reads_.data(), filled_});
      filled_ = 0;
    }

   private:
    const RowStore& store_;
    RowPrecision precision_;
    bool direct_;
    std::array<RowConversion, 32> reads_;
    size_t filled_ = 0;
  };

  // Applies gradients in batches of rows; Flush() applies the last ones. Drops gradients that are
  // not finite, and treats rows that would not be finite as config.when_not_finite says. Rounding
  // depends on seed, id and `step`.
  class Updater {
   public:
    Updater(RowStore& store, RowPrecision precision, float learning_rate, uint64_t step);
    void Add(uint32_t row, const std::byte* encoded_gradient) {
      const float* gradient = reinterpret_cast<const float*>(encoded_gradient);
      if (precision_ != RowPrecision::kF32) [[unlikely]]
        gradient = Widened(encoded_gradient);
      std::byte* values = store_.rows_.values(row);
      row_numbers_[filled_] = row;
      if (plain_) [[likely]] {
        plain_rows_[filled_++] = {reinterpret_cast<float*>(values), gradient};
      } else {
        const uint64_t id = store_.rows_.header(row).id;
        encoded_rows_[filled_++] = {values, gradient, RoundingNoise(store_.noise_seed_, id, step_)};
      }
      if (filled_ == kBatch) Flush();
    }
    void Flush();

    uint64_t gradients_not_finite() const { return gradients_not_finite_; }
    uint64_t rows_not_finite() const { return rows_not_finite_; }

   private:
    static constexpr size_t kBatch = 32;
    static_assert(kBatch <= kMaxUpdatedRows);

    // Returns where Flush() will put the gradient as f32.
    const float* Widened(const std::byte* gradient) {
      float* wide = store_.gradients_.data() + filled_ * store_.format().dim;
      widened_[filled_] = {gradient, reinterpret_cast<std::byte*>(wide)};
      return wide;
    }

    RowStore& store_;
    RowPrecision precision_;
    RowUpdateParameters parameters_;
    uint64_t step_;
    bool plain_;
    uint64_t gradients_not_finite_ = 0;
    uint64_t rows_not_finite_ = 0;
    size_t filled_ = 0;
    std::array<uint32_t, kBatch> row_numbers_;
    std::array<RowGradient, kBatch> plain_rows_;
    std::array<EncodedRow, kBatch> encoded_rows_;
    std::array<RowConversion, kBatch> widened_;
  };

 private:
  // Fills the weights and state of rows; not their headers.
  void InitializeValues(std::span<const NewRow> rows);

  // A call to memcpy would double the cost of a short row.
  static void CopyFloats(const float* from, uint32_t count, float* to) {
    constexpr uint32_t kTogether = 8;
    uint32_t i = 0;
    for (; i + kTogether <= count; i += kTogether) {
      std::memcpy(to + i, from + i, kTogether * sizeof(float));
    }
    for (; i < count; ++i) to[i] = from[i];
  }

  uint32_t carved_rows_ = 0;
  uint32_t free_row_ = kNoRow;  // Head of the free list.
  RowUpdateParameters parameters_;
  Initializer initializer_;
  uint64_t noise_seed_;
  ArenaRegion region_;
  Rows rows_;
  std::vector<float> new_rows_;   // Rows as f32 for Initialize(), unless the format is plain.
  std::vector<float> gradients_;  // Gradients as f32 for Flush(), once some were 16-bit.
};

}  // namespace simurgh
