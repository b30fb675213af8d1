#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "simurgh/base/status.h"
#include "simurgh/config/table_config.h"
#include "simurgh/tensor/half.h"
#include "table/arena.h"
#include "table/initializer.h"
#include "table/push_journal.h"
#include "table/row_layout.h"
#include "table/simd/encoded_rows.h"
#include "table/sparse_optimizer.h"

namespace simurgh {

// The memory of a table's rows, and what is done to single ones: made, read, updated. Rows are
// taken from the region in order; freed ones form a chain and are used again first.
//
// Threads: one owner.
// Lifetime: `arena` outlives the store.
class RowStore {
 public:
  // Requires a valid config.
  RowStore(const TableConfig& config, uint64_t seed, Arena& arena);

  static RowFormat FormatOf(const TableConfig& config);
  static uint64_t ReservationFor(const TableConfig& config);
  // What the rounding of a table's updates begins with.
  static uint64_t NoiseSeed(const TableConfig& config, uint64_t seed);

  const Rows& rows() const { return rows_; }
  const RowFormat& format() const { return rows_.layout().format; }

  // Rows that hold nothing, as many as `rows` has room for. Requires that they fit in the capacity.
  void Acquire(std::span<uint32_t> rows);
  void Release(uint32_t row);
  // Sees to it that so many more rows have memory, if they fit. Errors: see ArenaRegion::Commit().
  Status Commit(size_t rows_more) {
    return region_.Commit(rows_more * rows_.layout().stride_bytes);
  }
  // See ArenaRegion::MoreTaken().
  uint64_t MoreTaken(size_t rows_more) const {
    return region_.MoreTaken(rows_more * rows_.layout().stride_bytes);
  }
  // Numbers below this have been held at some time.
  uint32_t carved_rows() const { return record_.carved_rows; }
  // Where the arena's description of the table lies.
  uint64_t record_offset() const { return record_offset_; }
  uint64_t bytes_used() const { return region_.used_bytes(); }

  struct NewRow {
    uint64_t id;
    uint32_t row;
  };
  // Rows that are made by one call at most: they are near when it returns.
  static constexpr size_t kMadeTogether = 16;
  // Makes rows, which hold nothing, the new ones of these ids. Until all of a row is written it
  // holds nothing, also for who finds it in a shared arena.
  void Make(std::span<const NewRow> rows, uint32_t stamp);

  // All numbers of a row as f32, weights and then state. `scratch` holds them where the row does
  // not: format().floats().
  std::span<const float> Values(uint32_t row, std::span<float> scratch) const;

  // Copies weights out in a precision: at once where they are f32 and stay it, else at the next
  // Flush() or before. No row that was added may change until then.
  class Reader {
   public:
    Reader(const RowStore& store, RowPrecision precision)
        : store_(store),
          precision_(precision),
          direct_(store.format().weights == RowPrecision::kF32 && precision == RowPrecision::kF32) {
    }
    void Add(uint32_t row, std::byte* to) {
      const std::byte* values = store_.rows_.values(row);
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

  // Applies gradients of a precision, some rows at a time; the last ones at Flush(). `step` is what
  // rounding depends on, beside seed and id.
  class Updater {
   public:
    // journal: told of each row before it changes; may be null.
    Updater(RowStore& store, RowPrecision precision, float learning_rate, uint64_t step,
            PushJournal* journal);
    // at: the position in the request.
    void Add(size_t at, uint32_t row, const std::byte* coded_gradient) {
      const float* gradient = reinterpret_cast<const float*>(coded_gradient);
      if (precision_ != RowPrecision::kF32) [[unlikely]]
        gradient = Widened(coded_gradient);
      std::byte* values = store_.rows_.values(row);
      if (plain_) [[likely]] {
        plain_rows_[filled_++] = {reinterpret_cast<float*>(values), gradient};
      } else {
        const uint64_t id = store_.rows_.header(row).id;
        encoded_rows_[filled_++] = {values, gradient, RoundingNoise(store_.noise_seed_, id, step_)};
      }
      if (journal_ != nullptr) [[unlikely]]
        rows_[filled_ - 1] = row;
      settled_ = at + 1;
      if (filled_ == kBatch) Flush();
    }
    void Flush();

   private:
    static constexpr size_t kBatch = PushRecord::kMaxRows;

    // Where the gradient will be as f32 when the rows at hand are updated.
    const float* Widened(const std::byte* gradient) {
      float* wide = store_.gradients_.data() + filled_ * store_.format().dim;
      widened_[filled_] = {gradient, reinterpret_cast<std::byte*>(wide)};
      return wide;
    }

    RowStore& store_;
    RowPrecision precision_;
    RowUpdateParameters parameters_;
    uint64_t step_;
    PushJournal* journal_;
    bool plain_;
    size_t filled_ = 0;
    size_t settled_ = 0;  // Positions of the request, when the rows at hand are done.
    std::array<uint32_t, kBatch> rows_;
    std::array<RowGradient, kBatch> plain_rows_;
    std::array<CodedRow, kBatch> encoded_rows_;
    std::array<RowConversion, kBatch> widened_;
  };

 private:
  static void CopyFloats(const float* from, uint32_t count, float* to);

  static TableRecord RecordOf(const TableConfig& config);
  void Carve(std::span<uint32_t> rows);
  void Initialize(std::span<const NewRow> rows);

  uint64_t record_offset_;
  TableRecord& record_;
  SparseOptimizer optimizer_;
  Initializer initializer_;
  uint64_t noise_seed_;
  ArenaRegion region_;
  Rows rows_;
  std::vector<float> new_rows_;   // Some as f32, where they are not stored as such.
  std::vector<float> gradients_;  // Some as f32, since the first that did not come as such.
};

// Short rows are copied in place: a call would cost as much again.
inline void RowStore::CopyFloats(const float* from, uint32_t count, float* to) {
  constexpr uint32_t kTogether = 8;
  uint32_t i = 0;
  for (; i + kTogether <= count; i += kTogether) {
    std::memcpy(to + i, from + i, kTogether * sizeof(float));
  }
  for (; i < count; ++i) to[i] = from[i];
}

}  // namespace simurgh
