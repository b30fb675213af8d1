#include "table/row_store.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <string>

#include "simurgh/base/check.h"
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
  return Arena::ReservationFor(sizeof(TableRecord)) +
         Arena::ReservationFor(config.capacity_rows * RowLayout(FormatOf(config)).stride_bytes);
}

uint64_t RowStore::NoiseSeed(const TableConfig& config, uint64_t seed) {
  return HashBytes(config.name, ~seed);
}

TableRecord RowStore::RecordOf(const TableConfig& config) {
  return {.name_hash = HashBytes(config.name),
          .stride_bytes = RowLayout(FormatOf(config)).stride_bytes,
          .capacity_rows = config.capacity_rows,
          .dim = config.dim,
          .free_row = kNoRow};
}

RowStore::RowStore(const TableConfig& config, uint64_t seed, Arena& arena)
    : record_offset_(arena.Reserve(sizeof(TableRecord))),
      record_(*reinterpret_cast<TableRecord*>(arena.at(record_offset_))),
      optimizer_(OptimizerOf(config)),
      initializer_(config.initializer, config.name, config.dim, seed),
      noise_seed_(NoiseSeed(config, seed)),
      region_(arena, config.capacity_rows * RowLayout(FormatOf(config)).stride_bytes),
      rows_(region_.base(), RowLayout(FormatOf(config))) {
  const Status secured = arena.Commit(record_offset_, sizeof(TableRecord));
  SIMURGH_CHECK(secured.ok()) << std::string(secured.message());
  record_ = RecordOf(config);
  record_.rows = arena.OffsetOf(region_.base());
  record_.next = arena.superblock().first_table;
  arena.superblock().first_table = record_offset_;
  if (!format().plain()) new_rows_.resize(kMadeTogether * format().floats());
}

void RowStore::Acquire(std::span<uint32_t> rows) {
  for (; !rows.empty() && record_.free_row != kNoRow; rows = rows.subspan(1)) {
    rows.front() = record_.free_row;
    record_.free_row = static_cast<uint32_t>(rows_.header(record_.free_row).id);
  }
  if (!rows.empty()) Carve(rows);
}

void RowStore::Carve(std::span<uint32_t> rows) {
  constexpr uint32_t kRowsAhead = 32;
  const uint64_t stride_bytes = rows_.layout().stride_bytes;
  region_.Allocate(rows.size() * stride_bytes);
  uint32_t next = record_.carved_rows;
  for (uint32_t& row : rows) {
    rows_.Prefetch(next + kRowsAhead, stride_bytes);
    rows_.header(next).recency = kFreeRecency;
    row = next++;
  }
  std::atomic_signal_fence(std::memory_order_seq_cst);
  record_.carved_rows = next;
}

void RowStore::Release(uint32_t row) {
  RowHeader& header = rows_.header(row);
  header.recency = kFreeRecency;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  header.id = record_.free_row;
  record_.free_row = row;
}

void RowStore::Make(std::span<const NewRow> rows, uint32_t stamp) {
  Initialize(rows);
  for (const NewRow& row : rows) {
    RowHeader& header = rows_.header(row.row);
    header.id = row.id;
    header.epoch = 0;
    header.use_count = 1;
  }
  std::atomic_signal_fence(std::memory_order_seq_cst);
  for (const NewRow& row : rows) rows_.header(row.row).recency = stamp;
}

void RowStore::Initialize(std::span<const NewRow> rows) {
  std::array<Initializer::NewWeights, kMadeTogether> weights;
  const bool plain = format().plain();
  for (size_t i = 0; i < rows.size(); ++i) {
    weights[i] = {rows[i].id, plain ? reinterpret_cast<float*>(rows_.values(rows[i].row))
                                    : new_rows_.data() + i * format().floats()};
  }
  initializer_.Fill({weights.data(), rows.size()});
  for (size_t i = 0; i < rows.size(); ++i) {
    optimizer_.InitializeState({weights[i].weights + format().dim, optimizer_.state_floats()});
    if (!plain) EncodeNewRow(format(), weights[i].weights, rows_.values(rows[i].row));
  }
}

std::span<const float> RowStore::Values(uint32_t row, std::span<float> scratch) const {
  const std::byte* values = rows_.values(row);
  if (format().plain()) return {reinterpret_cast<const float*>(values), format().floats()};
  DecodeRow(format(), values, scratch.data());
  return scratch.first(format().floats());
}

RowStore::Updater::Updater(RowStore& store, RowPrecision precision, float learning_rate,
                           uint64_t step, PushJournal* journal)
    : store_(store),
      precision_(precision),
      parameters_(store.optimizer_.parameters()),
      step_(step),
      journal_(journal),
      plain_(store.format().plain()) {
  parameters_.learning_rate = learning_rate;
  if (precision != RowPrecision::kF32) store.gradients_.resize(kBatch * store.format().dim);
}

void RowStore::Updater::Flush() {
  if (precision_ != RowPrecision::kF32) {
    ConvertRows(precision_, RowPrecision::kF32, store_.format().dim, {widened_.data(), filled_});
  }
  if (journal_ != nullptr) journal_->Keep(store_.rows_, {rows_.data(), filled_});
  if (plain_) {
    UpdateRows(parameters_, {plain_rows_.data(), filled_});
  } else {
    UpdateEncodedRows(parameters_, store_.format(), {encoded_rows_.data(), filled_});
  }
  if (journal_ != nullptr) journal_->Settle(settled_);
  filled_ = 0;
}

}  // namespace simurgh
