#include "table/partition.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/step_id.h"
#include "table/arena.h"
#include "table/cold_disk.h"
#include "table/eviction.h"
#include "table/pull_marks.h"
#include "table/push_window.h"

namespace simurgh {

struct Partition::State {
  explicit State(Arena partition_arena)
      : arena(std::make_unique<Arena>(std::move(partition_arena))) {}

  // Errors: FAILED_PRECONDITION for an older start of the training that Clear() was called for.
  Status CheckRun(uint64_t run) const;
  // Requires a group that fits the tables: the parser of requests checks it.
  void CheckGroup(uint32_t table, size_t ids, size_t rows, size_t columns) const;
  // Returns whether the pushes that a pull of this step awaits are complete.
  bool HasAwaited(const StepId& step, const NeededPushes& needed) const;
  // The smallest stamp of the pulls of the step before, whose pushes a pull of this step awaits.
  // Unset if one of these pulls is not known.
  std::optional<uint64_t> OpenFrom(const StepId& step, const NeededPushes& needed) const;
  // Drops what was read ahead and will not be used any more.
  void DropAhead();
  // The error of a table that is full and has when_full: stop.
  Status TableFull(uint32_t table) const;

  uint64_t seed = 0;
  MemoryBudget* budget = nullptr;
  PartitionMemory memory;
  std::unique_ptr<Arena> arena;
  std::unique_ptr<ColdDisk> cold_disk;  // Null without a folder.
  std::function<void()> wake;
  // What ReadAhead() has begun.
  struct ReadAhead {
    uint64_t number;  // Requests are numbered from 0.
    std::vector<std::unique_ptr<Table::Ahead>> reads;
  };
  std::vector<ReadAhead> ahead;
  uint64_t ahead_requests = 0;
  std::vector<std::unique_ptr<Table>> tables;
  PushWindow window;
  PullMarks marks;
  RecencyClock clock;
  CopyMemory* copy_memory = nullptr;  // Null unless a copy is in progress.
  // Run, rank and step of each push in progress.
  std::vector<std::tuple<uint64_t, uint32_t, uint64_t>> open_pushes;
  uint64_t newest_run = 0;  // The run of the last Clear().
  // Ids and rows of a piece of PullWork::ReadRest(); kept to reuse their memory.
  std::vector<uint64_t> rest_ids;
  std::vector<std::byte> rest_rows;
};

void Partition::State::CheckGroup(uint32_t table, size_t ids, size_t rows, size_t columns) const {
  SIMURGH_CHECK_LT(table, tables.size());
  SIMURGH_CHECK_EQ(rows, ids);
  // A group without ids may have no matrix.
  if (ids > 0) SIMURGH_CHECK_EQ(columns, tables[table]->config().dim);
}

void Partition::State::DropAhead() {
  // A batch that expired, or whose worker has died, is not pulled.
  constexpr uint64_t kMostRequests = 1024;
  std::erase_if(ahead, [this](const ReadAhead& request) {
    return request.number + kMostRequests < ahead_requests ||
           std::ranges::all_of(request.reads, [](const auto& read) { return read->is_used_up(); });
  });
}

Status Partition::State::TableFull(uint32_t table) const {
  const TableConfig& config = tables[table]->config();
  const uint64_t rows = tables[table]->stats().rows;
  const std::string limit =
      rows < config.capacity_rows
          ? std::string(
                "memory_rows, embedding_ps.memory_budget, or the file system of "
                "arena_directory or cold_directory is used up")
          : absl::StrCat("a partition's share of its capacity is ", config.capacity_rows);
  return absl::FailedPreconditionError(
      absl::StrCat("pull: table '", config.name, "' is full with ", rows, " rows: ", limit,
                   "; raise the limit, add servers, or set when_full to evict or refuse"));
}

Status Partition::State::CheckRun(uint64_t run) const {
  if (!IsSuperseded(run, newest_run)) return absl::OkStatus();
  return SupersededError(newest_run);
}

namespace {

auto IdentityOf(const StepId& step) { return std::tuple(step.run, step.rank, step.step); }

// Calls use(rank) for the ranks whose pushes a pull awaits, until one returns false.
template <typename Use>
bool ForAwaitedRanks(const StepId& step, const Use& use) {
  if (!step.waits_for_ranks()) return use(step.rank);
  for (uint32_t rank = 0; rank < step.ranks; ++rank) {
    if (!use(rank)) return false;
  }
  return true;
}

}  // namespace

bool Partition::State::HasAwaited(const StepId& step, const NeededPushes& needed) const {
  const uint64_t steps = needed.awaited_steps;
  if (steps == 0) return true;
  const auto is_in_progress = [&](uint32_t rank) {
    return std::ranges::any_of(open_pushes, [&](const auto& open) {
      return std::get<0>(open) == step.run && std::get<1>(open) == rank &&
             std::get<2>(open) < steps;
    });
  };
  return ForAwaitedRanks(step, [&](uint32_t rank) {
    if (is_in_progress(rank)) return false;
    if (window.HasFirst(step.run, rank, steps)) return true;
    // Other servers may have got the pushes that this one misses.
    return window.misses_steps(step.run, rank) &&
           (rank != step.rank || steps <= needed.acknowledged_steps);
  });
}

std::optional<uint64_t> Partition::State::OpenFrom(const StepId& step,
                                                   const NeededPushes& needed) const {
  if (needed.awaited_steps != step.step) return std::nullopt;
  std::optional<uint64_t> open_from;
  const bool known = ForAwaitedRanks(step, [&](uint32_t rank) {
    const std::optional<uint64_t> stamp = marks.StampOf(step.run, rank, step.step - 1);
    if (stamp) open_from = std::min(*stamp, open_from.value_or(*stamp));
    return stamp.has_value();
  });
  return known ? open_from : std::nullopt;
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
  if (!memory.cold_directory.empty()) {
    SIMURGH_ASSIGN_OR_RETURN(state.cold_disk, memory.make_cold_disk(memory.cold_directory));
  }
  for (const TableConfig& config : tables) {
    state.tables.push_back(
        std::make_unique<Table>(config, seed, *state.arena, budget, state.cold_disk.get()));
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
  empty->SetWake(state_->wake);
  // Requests in progress refer to the state.
  std::swap(*state_, *empty->state_);
  state_->newest_run = run;
  return absl::OkStatus();
}

void Partition::ReadAhead(std::span<const IdGroup> groups) {
  if (state_->cold_disk == nullptr) return;
  const uint64_t number = state_->ahead_requests++;
  state_->DropAhead();
  // Pulls may read as much themselves.
  if (state_->cold_disk->ahead_bytes() > ColdDisk::kMostAhead / 2) return;
  std::vector<std::unique_ptr<Table::Ahead>> reads;
  for (const IdGroup& group : groups) {
    SIMURGH_CHECK_LT(group.table, state_->tables.size());
    auto read = state_->tables[group.table]->ReadAhead(group.ids, ColdDisk::Urgency::kNormal);
    if (read != nullptr) reads.push_back(std::move(read));
  }
  if (!reads.empty()) state_->ahead.push_back({number, std::move(reads)});
}

std::string Partition::HugePageProblem() const { return state_->arena->HugePageProblem(); }

void Partition::SetWake(std::function<void()> wake) {
  state_->wake = std::move(wake);
  if (state_->cold_disk != nullptr) state_->cold_disk->SetWake(state_->wake);
}

void Partition::StopReads() {
  if (state_->cold_disk != nullptr) state_->cold_disk->StopThread();
}

std::string Partition::ColdMethod() const {
  return state_->cold_disk == nullptr ? "" : state_->cold_disk->Method();
}

size_t Partition::table_count() const { return state_->tables.size(); }
const Table& Partition::table(size_t index) const { return *state_->tables[index]; }
Table& Partition::table(size_t index) { return *state_->tables[index]; }

PullWork::PullWork(Partition& partition, LookupMode mode, const StepId& step,
                   const NeededPushes& needed, std::span<const PullGroup> groups)
    : partition_(*partition.state_), mode_(mode), step_(step), needed_(needed), groups_(groups) {}

Status PullWork::Begin() {
  begun_ = true;
  for (const PullGroup& group : groups_) {
    partition_.CheckGroup(group.table, group.ids.size(), group.rows.rows(), group.rows.columns());
  }
  SIMURGH_RETURN_IF_ERROR(
      partition_.window.CheckAcknowledged(step_.run, step_.rank, needed_.acknowledged_steps));
  if (mode_ != LookupMode::kTrain) return absl::OkStatus();
  if (partition_.HasAwaited(step_, needed_)) {
    stamp_ = partition_.clock.Advance(step_.run, step_.step);
    return absl::OkStatus();
  }
  needs_rest_ = true;
  open_from_ = partition_.OpenFrom(step_, needed_);
  // Otherwise, a pull of the step before may come yet, and its stamp comes first.
  if (open_from_) first_stamp_ = stamp_ = partition_.clock.Advance(step_.run, step_.step);
  rest_.resize(groups_.size());
  for (size_t group = 0; group < groups_.size(); ++group) {
    const PullGroup& wanted = groups_[group];
    rest_[group].all =
        !open_from_ || !partition_.tables[wanted.table]->CanCreateAll(wanted.ids.size());
  }
  return absl::OkStatus();
}

size_t PullWork::SizeOf(size_t group) const {
  const size_t all = groups_[group].ids.size();
  if (!needs_rest_) return all;
  if (rest_[group].all) return reads_rest_ ? all : 0;
  return reads_rest_ ? rest_[group].positions.size() : all;
}

bool PullWork::awaits_push() const {
  return reads_rest_ && group_ == 0 && at_ == 0 && partition_.CheckRun(step_.run).ok() &&
         !partition_.HasAwaited(step_, needed_);
}

bool PullWork::Ready(size_t max_ids) {
  if (!ahead_) {
    ahead_.emplace();
    for (const PullGroup& group : groups_) {
      if (group.table >= partition_.tables.size()) continue;  // Begin() refuses it.
      auto read = partition_.tables[group.table]->ReadAhead(group.ids, ColdDisk::Urgency::kUrgent);
      if (read != nullptr) ahead_->push_back(std::move(read));
    }
  }
  if (awaits_push()) return false;
  const auto is_read = [](const auto& ahead) { return ahead->done(); };
  if (!std::ranges::all_of(*ahead_, is_read)) {
    if (!cold_wait_begin_) cold_wait_begin_ = Clock::now();
    return false;
  }
  if (cold_wait_begin_) {
    cold_wait_ = Clock::now() - *std::exchange(cold_wait_begin_, std::nullopt);
  }
  if (partition_.copy_memory == nullptr || mode_ == LookupMode::kEvaluate) return true;
  uint64_t bytes = 0;
  size_t at = at_;
  for (size_t group = group_; group < groups_.size() && max_ids > 0; ++group, at = 0) {
    const size_t count = std::min(SizeOf(group) - at, max_ids);
    max_ids -= count;
    bytes += partition_.tables[groups_[group].table]->EarlyBytes(count);
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
  if (reads_rest_ && group_ == 0 && at_ == 0) {
    stamp_ = partition_.clock.Advance(step_.run, step_.step);
  }
  for (; group_ < groups_.size(); ++group_, at_ = 0) {
    const PullGroup& group = groups_[group_];
    const size_t count = std::min(SizeOf(group_) - at_, max_ids);
    if (count > 0) {
      SIMURGH_RETURN_IF_ERROR(!needs_rest_  ? Read(group, count)
                              : reads_rest_ ? ReadRest(group, count)
                                            : ReadClosed(group, count));
    }
    at_ += count;
    max_ids -= count;
    if (at_ < SizeOf(group_)) return false;
  }
  const auto is_empty = [](const Rest& rest) { return !rest.all && rest.positions.empty(); };
  if (needs_rest_ && !reads_rest_ && !std::ranges::all_of(rest_, is_empty)) {
    reads_rest_ = true;
    group_ = 0;
    return false;
  }
  partition_.DropAhead();
  if (mode_ == LookupMode::kTrain) {
    partition_.marks.Note(step_.run, step_.rank, step_.step, first_stamp_.value_or(stamp_));
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
    return table.failure();
  }
  return Count(group, table.Pull(ids, rows, stamp_));
}

Status PullWork::ReadClosed(const PullGroup& group, size_t count) {
  std::vector<uint32_t>& positions = rest_[group_].positions;
  const size_t before = positions.size();
  const PullReport pulled = partition_.tables[group.table]->PullClosed(
      group.ids.subspan(at_, count), group.rows.Rows(at_, count), stamp_, *open_from_, positions);
  for (size_t i = before; i < positions.size(); ++i) positions[i] += static_cast<uint32_t>(at_);
  return Count(group, pulled);
}

Status PullWork::ReadRest(const PullGroup& group, size_t count) {
  const Rest& rest = rest_[group_];
  if (rest.all) return Read(group, count);
  const std::span<const uint32_t> positions = std::span(rest.positions).subspan(at_, count);
  std::vector<uint64_t>& ids = partition_.rest_ids;
  ids.clear();
  for (const uint32_t position : positions) ids.push_back(group.ids[position]);
  const EncodedRows to = group.rows;
  std::vector<std::byte>& memory = partition_.rest_rows;
  memory.resize(std::max(memory.size(), count * to.row_bytes()));
  const EncodedRows read(memory.data(), to.precision(), count, to.columns());
  const PullReport pulled = partition_.tables[group.table]->Pull(ids, read, stamp_);
  for (size_t i = 0; i < count; ++i) {
    std::memcpy(to.row(positions[i]), read.row(i), to.row_bytes());
  }
  return Count(group, pulled);
}

Status PullWork::Count(const PullGroup& group, const PullReport& pulled) {
  report_ += pulled;
  SIMURGH_RETURN_IF_ERROR(partition_.tables[group.table]->failure());
  stopped_by_full_table_ = pulled.rejected_full > 0 &&
                           partition_.tables[group.table]->config().when_full == WhenFull::kStop;
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
  for (const PushGroup& group : groups_) {
    SIMURGH_RETURN_IF_ERROR(partition_.tables[group.table]->failure());
  }
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
