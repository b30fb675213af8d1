#include "table/partition.h"

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/step_id.h"
#include "table/arena.h"
#include "table/eviction.h"
#include "table/push_window.h"

namespace simurgh {

struct Partition::State {
  explicit State(Arena partition_arena)
      : arena(std::make_unique<Arena>(std::move(partition_arena))) {}

  // Errors: FAILED_PRECONDITION for an older start of the training that Clear() was called for.
  Status CheckRun(uint64_t run) const;
  // Requires a group that fits the tables: the parser of requests checks it.
  void CheckGroup(uint32_t table, size_t ids, size_t rows, size_t columns) const;
  // The error of a table that is full and has when_full: stop.
  Status TableFull(uint32_t table) const;

  uint64_t seed = 0;
  MemoryBudget* budget = nullptr;
  PartitionMemory memory;
  std::unique_ptr<Arena> arena;
  std::vector<std::unique_ptr<Table>> tables;
  PushWindow window;
  RecencyClock clock;
  CopyMemory* copy_memory = nullptr;  // Null unless a copy is in progress.
  // Run, rank and step of each push in progress.
  std::vector<std::tuple<uint64_t, uint32_t, uint64_t>> open_pushes;
  uint64_t newest_run = 0;  // The run of the last Clear().
};

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

namespace {

auto IdentityOf(const StepId& step) { return std::tuple(step.run, step.rank, step.step); }

}  // namespace

PullWork::PullWork(Partition& partition, LookupMode mode, const StepId& step,
                   uint64_t acknowledged_steps, std::span<const PullGroup> groups)
    : partition_(*partition.state_),
      mode_(mode),
      step_(step),
      acknowledged_steps_(acknowledged_steps),
      groups_(groups) {}

Status PullWork::Begin() {
  begun_ = true;
  for (const PullGroup& group : groups_) {
    partition_.CheckGroup(group.table, group.ids.size(), group.rows.rows(), group.rows.columns());
  }
  SIMURGH_RETURN_IF_ERROR(
      partition_.window.CheckAcknowledged(step_.run, step_.rank, acknowledged_steps_));
  if (mode_ == LookupMode::kTrain) stamp_ = partition_.clock.Advance(step_.run, step_.step);
  return absl::OkStatus();
}

bool PullWork::Ready(size_t max_ids) {
  if (partition_.copy_memory == nullptr || mode_ == LookupMode::kEvaluate) return true;
  uint64_t bytes = 0;
  size_t at = at_;
  for (size_t group = group_; group < groups_.size() && max_ids > 0; ++group, at = 0) {
    const PullGroup& wanted = groups_[group];
    const size_t count = std::min(wanted.ids.size() - at, max_ids);
    max_ids -= count;
    bytes += partition_.tables[wanted.table]->EarlyBytes(count);
  }
  if (bytes > 0 && !partition_.copy_memory->Reserve(bytes)) {
    waits_ += waiting_ ? 0 : 1;
    waiting_ = true;
    return false;
  }
  waiting_ = false;
  reserved_from_ = partition_.copy_memory;
  reserved_bytes_ = bytes;
  return true;
}

StatusOr<bool> PullWork::Advance(size_t max_ids) {
  StatusOr<bool> over = ReadPiece(max_ids);
  // The memory of the rows that the piece has copied is counted separately.
  if (reserved_from_ != nullptr) reserved_from_->Release(std::exchange(reserved_bytes_, 0));
  return over;
}

StatusOr<bool> PullWork::ReadPiece(size_t max_ids) {
  SIMURGH_CHECK(max_ids > 0);
  SIMURGH_RETURN_IF_ERROR(partition_.CheckRun(step_.run));
  if (!begun_) SIMURGH_RETURN_IF_ERROR(Begin());
  for (; group_ < groups_.size(); ++group_, at_ = 0) {
    const PullGroup& group = groups_[group_];
    const size_t count = std::min(group.ids.size() - at_, max_ids);
    if (count > 0) SIMURGH_RETURN_IF_ERROR(Read(group, count));
    at_ += count;
    max_ids -= count;
    if (at_ < group.ids.size()) return false;
  }
  return true;
}

Status PullWork::Read(const PullGroup& group, size_t count) {
  const auto ids = group.ids.subspan(at_, count);
  const EncodedRows rows = group.rows.Rows(at_, count);
  Table& table = *partition_.tables[group.table];
  if (mode_ == LookupMode::kEvaluate) {
    const uint64_t found = table.Evaluate(ids, rows);
    report_.found += found;
    report_.unseen += count - found;
    return absl::OkStatus();
  }
  const PullReport pulled = table.Pull(ids, rows, stamp_);
  report_ += pulled;
  stopped_by_full_table_ = pulled.rejected_full > 0 && table.config().when_full == WhenFull::kStop;
  return stopped_by_full_table_ ? partition_.TableFull(group.table) : absl::OkStatus();
}

PushWork::PushWork(Partition& partition, const StepId& step, std::span<const PushGroup> groups)
    : partition_(*partition.state_), step_(step), groups_(groups) {}

bool PushWork::Ready() const {
  const auto& open = partition_.open_pushes;
  return begun_ || std::ranges::find(open, IdentityOf(step_)) == open.end();
}

Status PushWork::Begin() {
  begun_ = true;
  for (const PushGroup& group : groups_) {
    partition_.CheckGroup(group.table, group.ids.size(), group.gradients.rows(),
                          group.gradients.columns());
  }
  SIMURGH_ASSIGN_OR_RETURN(report_.repeated,
                           partition_.window.Applied(step_.run, step_.rank, step_.step));
  if (report_.repeated) {
    group_ = groups_.size();
    return absl::OkStatus();
  }
  // Recorded before the first piece: in between pieces the window may drop this trainer.
  partition_.window.Record(step_.run, step_.rank, step_.step);
  partition_.open_pushes.push_back(IdentityOf(step_));
  return absl::OkStatus();
}

StatusOr<bool> PushWork::Advance(size_t max_ids) {
  SIMURGH_CHECK(Ready());
  SIMURGH_CHECK(max_ids > 0);
  SIMURGH_RETURN_IF_ERROR(partition_.CheckRun(step_.run));
  if (!begun_) SIMURGH_RETURN_IF_ERROR(Begin());
  for (; group_ < groups_.size(); ++group_, at_ = 0) {
    const PushGroup& group = groups_[group_];
    const size_t count = std::min(group.ids.size() - at_, max_ids);
    if (count > 0) Apply(group, count);
    at_ += count;
    max_ids -= count;
    if (at_ < group.ids.size()) return false;
  }
  if (!report_.repeated) std::erase(partition_.open_pushes, IdentityOf(step_));
  return true;
}

void PushWork::Apply(const PushGroup& group, size_t count) {
  PushReport report = partition_.tables[group.table]->Push(group.ids.subspan(at_, count),
                                                           group.gradients.Rows(at_, count),
                                                           group.learning_rate, step_.step);
  report.not_finite_table = group.table;
  report_ += report;
}

}  // namespace simurgh
