#include "bench/micro/table/table_subject.h"

#include "bench/micro/table/huge_memory.h"
#include "table/row_store.h"
#include "table/update_rules.h"

namespace simurgh::bench {
namespace {

Arena ArenaFor(const TableConfig& config, const std::string& directory) {
  if (!directory.empty()) {
    return Arena::CreateInDirectory(directory, Table::ReservationFor(config)).value();
  }
  const uint64_t bytes = Table::ReservationFor(config);
  Arena arena = Arena::Create(bytes).value();
  TouchHuge(arena.at(0), bytes);
  return arena;
}

}  // namespace

TableSubject::TableSubject(const TableConfig& config, const std::string& directory)
    : config_(config), arena_(ArenaFor(config, directory)), table_(config, 1, arena_) {}

void TableSubject::Pull(const Batch& batch, float* out) {
  table_.Pull(batch.ids, {out, batch.ids.size(), config_.dim}, stamp_++);
}

void TableSubject::Push(const Batch& batch, const float* gradients) {
  table_.Push(batch.ids, {gradients, batch.ids.size(), config_.dim},
              config_.optimizer.learning_rate, stamp_);
}

RowKind KindOf(const TableConfig& config) {
  return {ParametersOf(config), RowStore::FormatOf(config)};
}

}  // namespace simurgh::bench
