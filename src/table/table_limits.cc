#include <cmath>

#include "absl/strings/str_cat.h"

#include "simurgh/table/table.h"
#include "table/arena.h"
#include "table/recency_queue.h"
#include "table/row_index.h"
#include "table/row_layout.h"
#include "table/row_store.h"

namespace simurgh {
namespace {

constexpr uint32_t kMaxSketchWidth = 65'536;
constexpr float kMaxF16 = 65'504.0F;
// Bytes of index and eviction queue per row while the index grows.
constexpr uint64_t kIndexBytesPerRow = 24;

bool Positive(float value) { return value > 0 && std::isfinite(value); }

bool ValidEviction(const EvictionConfig& eviction) {
  const auto valid_steps = [](uint32_t steps) {
    return steps > 0 && steps <= EvictionConfig::kMaxIdleSteps;
  };
  return eviction.idle_steps <= EvictionConfig::kMaxIdleSteps && eviction.idle_time.count() >= 0 &&
         eviction.low_use.below <= kMaxUseCount && valid_steps(eviction.low_use.idle_steps) &&
         eviction.small_norm.below >= 0 && std::isfinite(eviction.small_norm.below) &&
         valid_steps(eviction.small_norm.idle_steps);
}

}  // namespace

Status Table::Validate(const TableConfig& config) {
  const auto invalid = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("table '", config.name, "': ", what));
  };
  if (config.dim == 0 || config.dim > kMaxDim) {
    return invalid(absl::StrCat("dim ", config.dim, " is out of range; use 1 to ", kMaxDim));
  }
  if (config.capacity_rows == 0 || config.capacity_rows >= kNoRow) {
    return invalid(absl::StrCat("a partition's share of capacity_rows is ", config.capacity_rows,
                                "; use 1 to ", kNoRow - 1, " per partition"));
  }
  if (!Positive(config.weight_bound)) {
    return invalid(
        absl::StrCat("weight_bound ", config.weight_bound, " is out of range; use a number > 0"));
  }
  if (config.precision == RowPrecision::kF16 && config.weight_bound > kMaxF16) {
    return invalid(absl::StrCat("weight_bound ", config.weight_bound,
                                " exceeds the range of f16; use at most ", kMaxF16));
  }
  if (config.state_precision == RowPrecision::kF16) {
    return invalid("state_precision f16 is not supported; use f32 or bf16");
  }
  if (!Positive(config.admission.probability) || config.admission.probability > 1 ||
      config.admission.occurrences == 0 || config.admission.occurrences > 255 ||
      config.admission.sketch_width == 0 || config.admission.sketch_width > kMaxSketchWidth) {
    return invalid(absl::StrCat("admission: probability ", config.admission.probability,
                                ", occurrences ", config.admission.occurrences, ", sketch_width ",
                                config.admission.sketch_width,
                                "; use a probability in (0, 1], occurrences 1 to 255 and "
                                "sketch_width 1 to ",
                                kMaxSketchWidth));
  }
  if (!ValidEviction(config.eviction)) {
    return invalid(absl::StrCat("eviction is out of range; use idle_steps up to ",
                                EvictionConfig::kMaxIdleSteps,
                                " (at least 1 in low_use and small_norm), idle_time >= 0, "
                                "low_use.below up to ",
                                kMaxUseCount, " and small_norm.below >= 0"));
  }
  if (!Positive(config.optimizer.learning_rate)) {
    return invalid(absl::StrCat("learning_rate ", config.optimizer.learning_rate,
                                " is out of range; use a number > 0"));
  }
  return absl::OkStatus();
}

uint64_t Table::ReservationFor(const TableConfig& config) {
  const uint64_t rows = config.capacity_rows;
  return RowStore::ReservationFor(config) + Arena::ReservationFor(RowIndex::ReservationFor(rows)) +
         Arena::ReservationFor(RecencyQueue::ReservationFor(rows));
}

uint64_t Table::RowsIn(const TableConfig& config, uint64_t bytes) {
  const RowLayout layout(RowStore::FormatOf(config));
  return std::max<uint64_t>(1, bytes / (layout.stride_bytes + kIndexBytesPerRow));
}

}  // namespace simurgh
