#include "simurgh/table/partition.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "simurgh/base/hash.h"
#include "simurgh/table/partition_work.h"
#include "table/partition_state.h"
#include "table/row_layout.h"
#include "table/row_store.h"

namespace simurgh {

namespace {

constexpr size_t kAllIds = std::numeric_limits<size_t>::max();

uint64_t WidestRow(const std::vector<TableConfig>& configs) {
  uint64_t widest = 0;
  for (const TableConfig& config : configs) {
    widest = std::max(widest, RowLayout(RowStore::FormatOf(config)).stride_bytes);
  }
  return widest;
}

// Of everything that the bytes of rows depend on.
uint64_t IdentityOf(const std::vector<TableConfig>& configs, uint64_t seed) {
  uint64_t identity = Mix64(seed);
  for (const TableConfig& config : configs) {
    identity = HashBytes(config.name, identity);
    for (const uint64_t part :
         {uint64_t{config.dim}, config.capacity_rows, static_cast<uint64_t>(config.precision),
          static_cast<uint64_t>(config.state_precision),
          static_cast<uint64_t>(config.optimizer.kind), uint64_t{config.optimizer.row_wise}}) {
      identity = Mix64(identity ^ Mix64(part));
    }
  }
  return identity;
}

}  // namespace

Partition::State::State(Arena partition_arena, const std::vector<TableConfig>& configs,
                        uint64_t seed)
    : arena(std::move(partition_arena)) {
  if (arena.shared()) journal.emplace(arena, WidestRow(configs));
  for (const TableConfig& config : configs) {
    tables.push_back(std::make_unique<Table>(config, seed, arena));
  }
}

Status Partition::State::CheckGroup(absl::string_view request, uint32_t table, size_t ids,
                                    size_t rows, size_t columns) const {
  if (table >= tables.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(request, ": table ", table, " is unknown, there are ", tables.size()));
  }
  const TableConfig& config = tables[table]->config();
  // A group without ids may come without a matrix.
  if (ids == 0 && rows == 0) return absl::OkStatus();
  if (columns != config.dim) {
    return absl::InvalidArgumentError(absl::StrCat(request, ": table '", config.name, "' has dim ",
                                                   config.dim, ", request says ", columns));
  }
  if (rows != ids) {
    return absl::InvalidArgumentError(
        absl::StrCat(request, ": table '", config.name, "': ", ids, " ids with ", rows, " rows"));
  }
  return absl::OkStatus();
}

Status Partition::State::CheckRoom(uint32_t table) const {
  const TableConfig& config = tables[table]->config();
  if (config.when_full != WhenFull::kStop) return absl::OkStatus();
  const uint64_t rows = tables[table]->stats().rows;
  const std::string limit =
      rows < config.capacity_rows
          ? std::string("embedding_ps.memory_budget or the arena's file system is used up")
          : absl::StrCat("a partition's share of its capacity is ", config.capacity_rows);
  return absl::FailedPreconditionError(
      absl::StrCat("pull: table '", config.name, "' has no room beside its ", rows,
                   " rows: ", limit, "; raise it, add servers, or let when_full evict or refuse"));
}

StatusOr<std::unique_ptr<Partition>> Partition::Create(const std::vector<TableConfig>& tables,
                                                       uint64_t seed, MemoryBudget* budget,
                                                       const PartitionMemory& memory) {
  uint64_t reserved = 0;
  for (const TableConfig& config : tables) {
    SIMURGH_RETURN_IF_ERROR(Table::Validate(config));
    reserved += Table::ReservationFor(config);
  }
  reserved += PushJournal::ReservationFor(WidestRow(tables));
  SIMURGH_ASSIGN_OR_RETURN(
      Arena arena, memory.file.empty()
                       ? Arena::Create(reserved)
                       : Arena::CreateShared(memory.file, reserved, IdentityOf(tables, seed)));
  if (memory.numa_node) SIMURGH_RETURN_IF_ERROR(arena.BindToNode(*memory.numa_node));
  SIMURGH_RETURN_IF_ERROR(
      arena.Commit(0, sizeof(ArenaSuperblock) + PushJournal::ReservationFor(WidestRow(tables))));
  std::unique_ptr<Partition> partition(new Partition());
  partition->state_ = std::make_unique<State>(std::move(arena), tables, seed);
  if (budget != nullptr) {
    for (const auto& table : partition->state_->tables) table->SetMemoryBudget(budget);
  }
  return partition;
}

Partition::Partition() = default;
Partition::~Partition() = default;

StatusOr<PullReport> Partition::Pull(LookupMode purpose, const StepId& position,
                                     uint64_t acknowledged_steps,
                                     std::span<const PullGroup> groups) {
  PullWork work(*this, purpose, position, acknowledged_steps, groups);
  SIMURGH_RETURN_IF_ERROR(work.Advance(kAllIds).status());
  return work.report();
}

StatusOr<PushReport> Partition::Push(const StepId& position, uint32_t part, uint32_t parts,
                                     std::span<const PushGroup> groups) {
  PushWork work(*this, position, part, parts, groups);
  SIMURGH_RETURN_IF_ERROR(work.Advance(kAllIds).status());
  return work.report();
}

std::string Partition::HugePageProblem() const { return state_->arena.HugePageProblem(); }

size_t Partition::table_count() const { return state_->tables.size(); }
const Table& Partition::table(size_t index) const { return *state_->tables[index]; }
Table& Partition::table(size_t index) { return *state_->tables[index]; }

}  // namespace simurgh
