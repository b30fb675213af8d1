#include "bench/micro/table/table_subject.h"

#include <cstdio>

#include "bench/micro/table/huge_memory.h"
#include "table/row_store.h"
#include "table/sparse_optimizer.h"

namespace simurgh::bench {
namespace {

uint64_t StrideOf(const TableConfig& config) {
  return RowLayout(RowStore::FormatOf(config)).stride_bytes;
}

Arena ArenaFor(const TableConfig& config, const std::string& shared_file) {
  if (!shared_file.empty()) {
    const uint64_t bytes =
        Table::ReservationFor(config) + PushJournal::ReservationFor(StrideOf(config));
    return Arena::CreateShared(shared_file, bytes, 0).value();
  }
  Arena arena = Arena::Create(Table::ReservationFor(config)).value();
  TouchHuge(arena.at(0), arena.reserved_bytes());
  return arena;
}

}  // namespace

TableSubject::TableSubject(const TableConfig& config, const std::string& shared_file)
    : config_(config),
      shared_file_(shared_file),
      arena_(ArenaFor(config, shared_file)),
      table_(config, 1, arena_) {
  if (arena_.shared()) journal_.emplace(arena_, StrideOf(config));
}

TableSubject::~TableSubject() {
  if (!shared_file_.empty()) std::remove(shared_file_.c_str());
}

void TableSubject::Pull(const Batch& batch, float* out) {
  table_.Pull(batch.ids, {out, batch.ids.size(), config_.dim}, stamp_++);
}

void TableSubject::Push(const Batch& batch, const float* gradients) {
  if (journal_) {
    journal_->BeginPush(1, 0, stamp_, 0, 1);
    journal_->BeginGroup(0, table_.arena_record(), 0);
  }
  table_.Push(batch.ids, {gradients, batch.ids.size(), config_.dim},
              config_.optimizer.learning_rate, stamp_, journal_ ? &*journal_ : nullptr);
  if (journal_) journal_->EndPush();
}

RowKind KindOf(const TableConfig& config) {
  const SparseOptimizer optimizer(config.optimizer, config.dim, config.weight_bound);
  return {optimizer.parameters(), RowStore::FormatOf(config)};
}

}  // namespace simurgh::bench
