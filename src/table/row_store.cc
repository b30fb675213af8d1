#include "table/row_store.h"

#include <array>
#include <bit>

#include "base/hash.h"

namespace simurgh {

RowFormat RowStore::FormatOf(const TableConfig& config) {
  return {.dim = config.dim,
          .shape = StateShapeOf(ParametersOf(config).rule),
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
    : parameters_(ParametersOf(config)),
      initializer_(config.initializer, config.name, config.dim, seed),
      noise_seed_(NoiseSeed(config, seed)),
      region_(arena, config.capacity_rows * RowLayout(FormatOf(config)).stride_bytes),
      rows_(region_.base(), RowLayout(FormatOf(config))) {
  if (!format().plain()) new_rows_.resize(kMaxNewRows * format().floats());
}

void RowStore::Acquire(std::span<uint32_t> rows) {
  for (; !rows.empty() && free_row_ != kNoRow; rows = rows.subspan(1)) {
    rows.front() = free_row_;
    free_row_ = static_cast<uint32_t>(rows_.header(free_row_).id);
  }
  if (rows.empty()) return;
  constexpr uint32_t kRowsAhead = 32;
  const uint64_t stride_bytes = rows_.layout().stride_bytes;
  region_.Allocate(rows.size() * stride_bytes);
  for (uint32_t& row : rows) {
    rows_.Prefetch(carved_rows_ + kRowsAhead, stride_bytes);
    rows_.header(carved_rows_).recency = kFreeRecency;
    row = carved_rows_++;
  }
}

void RowStore::Release(uint32_t row) {
  RowHeader& header = rows_.header(row);
  header.recency = kFreeRecency;
  header.id = free_row_;
  free_row_ = row;
}

void RowStore::Initialize(std::span<const NewRow> rows, uint32_t stamp) {
  InitializeValues(rows);
  for (const NewRow& row : rows) {
    rows_.header(row.row) = {.id = row.id, .recency = stamp, .use_count = 1};
  }
}

void RowStore::Reinitialize(uint32_t row) {
  const NewRow anew = {rows_.header(row).id, row};
  InitializeValues({&anew, 1});
}

void RowStore::InitializeValues(std::span<const NewRow> rows) {
  std::array<Initializer::NewWeights, kMaxNewRows> weights;
  const bool plain = format().plain();
  const size_t state_floats = format().floats() - format().dim;
  for (size_t i = 0; i < rows.size(); ++i) {
    weights[i] = {rows[i].id, plain ? reinterpret_cast<float*>(rows_.values(rows[i].row))
                                    : new_rows_.data() + i * format().floats()};
  }
  initializer_.Fill({weights.data(), rows.size()});
  for (size_t i = 0; i < rows.size(); ++i) {
    InitializeState(parameters_, {weights[i].weights + format().dim, state_floats});
    if (!plain) EncodeNewRow(format(), weights[i].weights, rows_.values(rows[i].row));
  }
}

std::span<const float> RowStore::ValuesAt(const std::byte* values, std::span<float> scratch) const {
  if (format().plain()) return {reinterpret_cast<const float*>(values), format().floats()};
  DecodeRow(format(), values, scratch.data());
  return scratch.first(format().floats());
}

RowStore::Updater::Updater(RowStore& store, RowPrecision precision, float learning_rate,
                           uint64_t step)
    : store_(store),
      precision_(precision),
      parameters_(store.parameters_),
      step_(step),
      plain_(store.format().plain()) {
  parameters_.optimizer.learning_rate = learning_rate;
  if (precision != RowPrecision::kF32) store.gradients_.resize(kBatch * store.format().dim);
}

void RowStore::Updater::Flush() {
  if (precision_ != RowPrecision::kF32) {
    ConvertRows(precision_, RowPrecision::kF32, store_.format().dim, {widened_.data(), filled_});
  }
  NotFinite found =
      plain_ ? UpdateRows(parameters_, {plain_rows_.data(), filled_})
             : UpdateEncodedRows(parameters_, store_.format(), {encoded_rows_.data(), filled_});
  filled_ = 0;
  if ((found.gradients | found.rows) == 0) [[likely]]
    return;
  gradients_not_finite_ += std::popcount(found.gradients);
  rows_not_finite_ += std::popcount(found.rows);
  if (parameters_.keeps_old_row) return;
  for (; found.rows != 0; found.rows &= found.rows - 1) {
    store_.Reinitialize(row_numbers_[std::countr_zero(found.rows)]);
  }
}

}  // namespace simurgh
