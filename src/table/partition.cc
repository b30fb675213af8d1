#include "simurgh/table/partition.h"

#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "simurgh/base/check.h"
#include "simurgh/table/partition_work.h"
#include "simurgh/table/run_number.h"
#include "table/partition_state.h"

namespace simurgh {

constexpr size_t kAllIds = std::numeric_limits<size_t>::max();

void Partition::State::CheckGroup(uint32_t table, size_t ids, size_t rows, size_t columns) const {
  SIMURGH_CHECK_LT(table, tables.size());
  SIMURGH_CHECK_EQ(rows, ids);
  // A group without ids may have no matrix.
  if (ids > 0) SIMURGH_CHECK_EQ(columns, tables[table]->config().dim);
}

Status Partition::State::TableFull(uint32_t table) const {
  const TableConfig& config = tables[table]->config();
  const uint64_t rows = tables[table]->stats().rows;
  const std::string limit =
      rows < config.capacity_rows
          ? std::string("embedding_ps.memory_budget or the arena's file system is used up")
          : absl::StrCat("a partition's share of its capacity is ", config.capacity_rows);
  return absl::FailedPreconditionError(
      absl::StrCat("pull: table '", config.name, "' is full with ", rows, " rows: ", limit,
                   "; raise the limit, add servers, or set when_full to evict or refuse"));
}

Status Partition::State::CheckRun(uint64_t run) const {
  if (!IsSuperseded(run, newest_run)) return absl::OkStatus();
  return SupersededError(newest_run);
}

StatusOr<std::unique_ptr<Partition>> Partition::Create(const std::vector<TableConfig>& tables,
                                                       uint64_t seed, MemoryBudget* budget,
                                                       const PartitionMemory& memory) {
  uint64_t reserved = 0;
  for (const TableConfig& config : tables) {
    SIMURGH_RETURN_IF_ERROR(Table::Validate(config));
    reserved += Table::ReservationFor(config);
  }
  SIMURGH_ASSIGN_OR_RETURN(Arena arena,
                           memory.arena_directory.empty()
                               ? Arena::Create(reserved)
                               : Arena::CreateInDirectory(memory.arena_directory, reserved));
  if (memory.numa_node) SIMURGH_RETURN_IF_ERROR(arena.BindToNode(*memory.numa_node));
  std::unique_ptr<Partition> partition(new Partition());
  partition->state_ = std::make_unique<State>(std::move(arena));
  State& state = *partition->state_;
  state.seed = seed;
  state.budget = budget;
  state.memory = memory;
  for (const TableConfig& config : tables) {
    state.tables.push_back(std::make_unique<Table>(config, seed, *state.arena, budget));
    SIMURGH_RETURN_IF_ERROR(Annotate(state.tables.back()->CommitFirstRow(),
                                     absl::StrCat("first row of table '", config.name, "'")));
  }
  return partition;
}

Partition::Partition() = default;
Partition::~Partition() = default;

StatusOr<PullReport> Partition::Pull(LookupMode mode, const StepId& step,
                                     uint64_t acknowledged_steps,
                                     std::span<const PullGroup> groups) {
  PullWork work(*this, mode, step, acknowledged_steps, groups);
  SIMURGH_RETURN_IF_ERROR(work.Advance(kAllIds).status());
  return work.report();
}

StatusOr<PushReport> Partition::Push(const StepId& step, std::span<const PushGroup> groups) {
  PushWork work(*this, step, groups);
  SIMURGH_RETURN_IF_ERROR(work.Advance(kAllIds).status());
  return work.report();
}

void Partition::ContinueAt(uint64_t stamp) {
  state_->clock.ContinueAt(stamp);
  for (const auto& table : state_->tables) {
    table->Pull({}, MatrixView<float>(nullptr, 0, table->config().dim), stamp);
  }
}

void Partition::BeginAt(uint64_t run, uint32_t ranks, uint64_t step) {
  for (uint32_t rank = 0; rank < ranks; ++rank) state_->window.BeginAt(run, rank, step);
}

void Partition::BeginAnywhere(uint64_t run, uint32_t ranks) {
  for (uint32_t rank = 0; rank < ranks; ++rank) state_->window.BeginAnywhere(run, rank);
}

void Partition::BeginCopy(CopyMemory& memory, CopyBase base) {
  state_->copy_memory = &memory;
  for (const auto& table : state_->tables) table->BeginCopy(memory, base);
}

void Partition::EndCopy() {
  for (const auto& table : state_->tables) table->EndCopy();
  state_->copy_memory = nullptr;
}

Status Partition::Clear(uint64_t run) {
  std::vector<TableConfig> configs;
  for (const auto& table : state_->tables) configs.push_back(table->config());
  SIMURGH_ASSIGN_OR_RETURN(const auto empty,
                           Create(configs, state_->seed, state_->budget, state_->memory));
  // Requests in progress refer to the state.
  std::swap(*state_, *empty->state_);
  state_->newest_run = run;
  return absl::OkStatus();
}

std::string Partition::HugePageProblem() const { return state_->arena->HugePageProblem(); }

size_t Partition::table_count() const { return state_->tables.size(); }
const Table& Partition::table(size_t index) const { return *state_->tables[index]; }
Table& Partition::table(size_t index) { return *state_->tables[index]; }

}  // namespace simurgh
