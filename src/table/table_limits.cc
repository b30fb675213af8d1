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
  const AdmissionConfig& admission = config.admission;
  Status status;
  const auto require = [&](bool valid, const auto&... problem) {
    if (valid || !status.ok()) return;
    status = absl::InvalidArgumentError(absl::StrCat("table '", config.name, "': ", problem...));
  };
  require(config.dim > 0 && config.dim <= kMaxDim, "dim ", config.dim,
          " is out of range; use 1 to ", kMaxDim);
  require(config.capacity_rows > 0 && config.capacity_rows < kNoRow,
          "a partition's share of capacity_rows is ", config.capacity_rows, "; use 1 to ",
          kNoRow - 1, " per partition");
  require(Positive(config.weight_bound), "weight_bound ", config.weight_bound,
          " is out of range; use a number > 0");
  require(config.precision != RowPrecision::kF16 || config.weight_bound <= kMaxF16, "weight_bound ",
          config.weight_bound, " exceeds the range of f16; use at most ", kMaxF16);
  require(config.state_precision != RowPrecision::kF16,
          "state_precision f16 is not supported; use f32 or bf16");
  require(Positive(admission.probability) && admission.probability <= 1 &&
              admission.occurrences > 0 && admission.occurrences <= 255 &&
              admission.sketch_width > 0 && admission.sketch_width <= kMaxSketchWidth,
          "admission: probability ", admission.probability, ", occurrences ", admission.occurrences,
          ", sketch_width ", admission.sketch_width,
          "; use a probability in (0, 1], occurrences 1 to 255 and sketch_width 1 to ",
          kMaxSketchWidth);
  require(ValidEviction(config.eviction), "eviction is out of range; use idle_steps up to ",
          EvictionConfig::kMaxIdleSteps,
          " (at least 1 in low_use and small_norm), idle_time >= 0, low_use.below up to ",
          kMaxUseCount, " and small_norm.below >= 0");
  require(Positive(config.optimizer.learning_rate), "learning_rate ",
          config.optimizer.learning_rate, " is out of range; use a number > 0");
  return status;
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
