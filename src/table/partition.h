#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/step_id.h"
#include "config/table_config.h"
#include "table/cold_disk.h"
#include "table/table.h"

namespace simurgh {

// The rows of one table that a request wants from one partition.
struct PullGroup {
  uint32_t table = 0;
  std::span<const uint64_t> ids;  // (U)
  EncodedRows rows;               // (U, D) overwritten.
};

// Ids of rows of one table.
struct IdGroup {
  uint32_t table = 0;
  std::span<const uint64_t> ids;
};

// Gradients for rows of one table, at most one per id.
struct PushGroup {
  uint32_t table = 0;
  float learning_rate = 0;
  std::span<const uint64_t> ids;  // (U)
  EncodedGradients gradients;     // (U, D)
};

// The source of a partition's memory.
struct PartitionMemory {
  std::string arena_directory;        // A tmpfs or hugetlbfs; empty: private memory.
  std::optional<uint32_t> numa_node;  // Unset: any node.
  std::string cold_directory;         // For rows without room in memory; empty: none.
  // Makes the disk in cold_directory.
  using MakeColdDisk =
      std::function<StatusOr<std::unique_ptr<ColdDisk>>(const std::string& directory)>;
  MakeColdDisk make_cold_disk = [](const std::string& directory) {
    return ColdDisk::Create(directory);
  };
};

// The rows of all tables that one thread owns, and the record of which pushes were applied.
//
// Threads: one owner.
class Partition {
 public:
  // tables: capacity_rows is the partition's share. budget: shared by the server's partitions, may
  // be null. Lifetime: `budget` must outlive the partition.
  // Errors: RESOURCE_EXHAUSTED without address space; INVALID_ARGUMENT for a bad configuration or
  // NUMA node; NOT_FOUND and others when arena_directory is not usable.
  static StatusOr<std::unique_ptr<Partition>> Create(const std::vector<TableConfig>& tables,
                                                     uint64_t seed, MemoryBudget* budget = nullptr,
                                                     const PartitionMemory& memory = {});
  ~Partition();

  // Continues at the newest stamp of the saved rows, of all partitions. The next training pull gets
  // a later one, and expired rows stay expired. Call after Table::PutRows().
  void ContinueAt(uint64_t stamp);

  // The run's ranks begin at this step: earlier pushes count as applied. Requires that the run has
  // made no request.
  void BeginAt(uint64_t run, uint32_t ranks, uint64_t step);
  // The run's ranks have begun, and pushes are missing that other servers have applied.
  void BeginAnywhere(uint64_t run, uint32_t ranks);

  // Table::BeginCopy() and EndCopy() for all tables. In between, a training pull waits for room in
  // the memory: PullWork::Ready().
  void BeginCopy(CopyMemory& memory, CopyBase base = CopyBase::kUnnoted);
  void EndCopy();

  // Drops all rows, sketches and records of pushes, and returns their memory. From now on requests
  // of older starts of the run's training fail with FAILED_PRECONDITION, also those in progress.
  // Errors: of Create(); the rows are then still there.
  Status Clear(uint64_t run);

  // Begins to read cold rows, for a pull that will come. Does nothing while what was read and not
  // used takes much memory: the pull reads them then.
  void ReadAhead(std::span<const IdGroup> groups);

  // See Arena::HugePageProblem().
  std::string HugePageProblem() const;

  // wake: called on another thread when a pull that waits for cold rows may be ready. Call before
  // the first request. StopReads() ends these calls.
  void SetWake(std::function<void()> wake);
  void StopReads();

  // How cold rows are read, for the log; empty without a folder.
  std::string ColdMethod() const;

  size_t table_count() const;
  const Table& table(size_t index) const;
  Table& table(size_t index);

 private:
  friend class PullWork;
  friend class PushWork;

  Partition();
  struct State;
  std::unique_ptr<State> state_;
};

// Requests that a partition processes in pieces, interleaved with pieces of other requests.
//
// Threads: the partition's. Lifetime: the partition, `groups` and the memory that they refer to
// must outlive the work.

// The pushes that a training pull needs.
struct NeededPushes {
  // Number of the rank's first steps whose pushes were acknowledged.
  uint64_t acknowledged_steps = 0;
  // The rows must have the pushes of the first `awaited_steps` steps: those of the rank, or of all
  // ranks if pushes wait for them. 0: the rows may lack any.
  uint64_t awaited_steps = 0;
};

// A pull, which reads rows. Each piece acts like a separate pull of its ids: it reads their present
// rows, and may evict an id of a later piece.
//
// A pull that awaits pushes of the step before its own reads at once what these pushes do not
// change, and the other rows when they are complete. The result is the same to the bit: a group
// that may evict or reject ids is read as a whole then.
class PullWork {
 public:
  using Clock = std::chrono::steady_clock;

  // Requires groups of known tables, with their dim and a row for each id.
  PullWork(Partition& partition, LookupMode mode, const StepId& step, const NeededPushes& needed,
           std::span<const PullGroup> groups);

  // Reserves the memory for rows that the next piece of `max_ids` may copy early. False while that
  // is used up, while the pull awaits a push, or while its cold rows are read: ask again when the
  // writer has released some, after a push, or when Partition::SetWake() says so. Advance() must
  // follow at once.
  bool Ready(size_t max_ids);

  // Returns whether a push must come before the next piece.
  bool awaits_push() const;

  // Reads up to `max_ids` more rows, at least 1. Returns whether all have been read.
  // Errors: DATA_LOSS when an acknowledged push is not recorded; FAILED_PRECONDITION when a table
  // with when_full: stop is full. An error ends the pull.
  StatusOr<bool> Advance(size_t max_ids);

  const PullReport& report() const { return report_; }
  // Returns whether the pull failed because a table with when_full: stop is full.
  bool stopped_by_full_table() const { return stopped_by_full_table_; }
  // Number of pieces that have waited for memory.
  uint64_t waits() const { return waits_; }
  // How long the pull has waited for cold rows; unset if it has not.
  std::optional<Clock::duration> cold_wait() const { return cold_wait_; }

 private:
  StatusOr<bool> ReadPiece(size_t max_ids);
  Status Begin();
  Status Read(const PullGroup& group, size_t count);
  // Reads a part of what the pushes do not change, and notes the rest.
  Status ReadClosed(const PullGroup& group, size_t count);
  // Reads a part of the noted rest.
  Status ReadRest(const PullGroup& group, size_t count);
  Status Count(const PullGroup& group, const PullReport& pulled);
  // Number of ids of the group that the current pass reads.
  size_t SizeOf(size_t group) const;

  // What is left of a group for the second pass.
  struct Rest {
    bool all = false;
    std::vector<uint32_t> positions;
  };

  Partition::State& partition_;
  const LookupMode mode_;
  const StepId step_;
  const NeededPushes needed_;
  const std::span<const PullGroup> groups_;
  bool begun_ = false;
  bool needs_rest_ = false;              // A second pass follows.
  std::optional<uint64_t> open_from_;    // Rows of this recency may be changed by the pushes.
  std::optional<uint64_t> first_stamp_;  // Stamp of the first of two passes; rows keep it.
  std::vector<Rest> rest_;               // Indexed by group; empty without a second pass.
  bool reads_rest_ = false;              // This is the second pass.
  bool stopped_by_full_table_ = false;
  uint64_t stamp_ = 0;
  size_t group_ = 0;
  size_t at_ = 0;  // Position in the group.
  CopyMemory* reserved_from_ = nullptr;
  uint64_t reserved_bytes_ = 0;
  // Cold rows that are being read for the groups, from the first Ready() on.
  std::optional<std::vector<std::unique_ptr<Table::Ahead>>> ahead_;
  std::optional<Clock::time_point> cold_wait_begin_;  // Unset once it is over.
  std::optional<Clock::duration> cold_wait_;
  bool waiting_ = false;
  uint64_t waits_ = 0;
  PullReport report_;
};

// A push, which applies the optimizer, unless the push (run, rank, step) has been applied before.
// Its first piece records it, so a push that has begun must be completed, unless Partition::Clear()
// has dropped its rows.
class PushWork {
 public:
  // Requires groups as a pull.
  PushWork(Partition& partition, const StepId& step, std::span<const PushGroup> groups);

  // False while a push with the same step is in progress. A push that has begun is always ready.
  bool Ready() const;

  // Applies up to `max_ids` more gradients, at least 1. Returns whether all have been applied.
  // Requires Ready(). Errors: DATA_LOSS when too many earlier pushes are missing: it ends the push
  // before it changes rows. Table::failure().
  StatusOr<bool> Advance(size_t max_ids);

  const PushReport& report() const { return report_; }

 private:
  Status Begin();
  void Apply(const PushGroup& group, size_t count);

  Partition::State& partition_;
  const StepId step_;
  const std::span<const PushGroup> groups_;
  bool begun_ = false;
  size_t group_ = 0;
  size_t at_ = 0;  // Position in the group.
  PushReport report_;
};

}  // namespace simurgh
