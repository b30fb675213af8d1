#include "table/row_store.h"

#include "simurgh/base/hash.h"

namespace simurgh {
namespace {

SparseOptimizer OptimizerOf(const TableConfig& config) {
  return SparseOptimizer(config.optimizer, config.dim, config.weight_bound);
}

}  // namespace

RowFormat RowStore::FormatOf(const TableConfig& config) {
  return {.dim = config.dim,
          .shape = OptimizerOf(config).state_shape(),
          .weights = config.precision,
          .state = config.state_precision};
}

uint64_t RowStore::ReservationFor(const TableConfig& config) {
  return Arena::ReservationFor(config.capacity_rows * RowLayout(FormatOf(config)).stride_bytes);
}

uint64_t RowStore::NoiseSeed(const TableConfig& config, uint64_t seed) {
  return HashBytes(config.name, ~seed);
}

RowStore::RowStore(const TableConfig& config, uint64_t seed, Arena& arena)
    : optimizer_(OptimizerOf(config)),
      initializer_(config.initializer, config.name, config.dim, seed),
      noise_seed_(NoiseSeed(config, seed)),
      region_(arena, config.capacity_rows * RowLayout(FormatOf(config)).stride_bytes),
      rows_(region_.base(), RowLayout(FormatOf(config))) {
  if (!format().plain()) new_row_.resize(format().floats());
}

uint32_t RowStore::Acquire() {
  if (free_row_ == kNoRow) {
    region_.Allocate(rows_.layout().stride_bytes);
    return carved_rows_++;
  }
  const uint32_t row = free_row_;
  free_row_ = static_cast<uint32_t>(rows_.header(row).id);
  return row;
}

void RowStore::Release(uint32_t row) {
  RowHeader& header = rows_.header(row);
  header.id = free_row_;
  header.recency = kFreeRecency;
  free_row_ = row;
}

void RowStore::Initialize(uint32_t row, uint64_t id) {
  const bool plain = format().plain();
  float* values = plain ? reinterpret_cast<float*>(rows_.values(row)) : new_row_.data();
  initializer_.Fill(id, {values, format().dim});
  optimizer_.InitializeState({values + format().dim, optimizer_.state_floats()});
  if (!plain) EncodeNewRow(format(), values, rows_.values(row));
}

std::span<const float> RowStore::Values(uint32_t row, std::span<float> scratch) const {
  const std::byte* values = rows_.values(row);
  if (format().plain()) return {reinterpret_cast<const float*>(values), format().floats()};
  DecodeRow(format(), values, scratch.data());
  return scratch.first(format().floats());
}

RowStore::Updater::Updater(RowStore& store, float learning_rate, uint64_t step)
    : store_(store),
      parameters_(store.optimizer_.parameters()),
      step_(step),
      plain_(store.format().plain()) {
  parameters_.learning_rate = learning_rate;
}

void RowStore::Updater::Flush() {
  if (plain_) {
    UpdateRows(parameters_, {plain_rows_.data(), filled_});
  } else {
    UpdateCodedRows(parameters_, store_.format(), {coded_rows_.data(), filled_});
  }
  filled_ = 0;
}

}  // namespace simurgh
