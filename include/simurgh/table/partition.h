#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "simurgh/base/status.h"
#include "simurgh/config/table_config.h"
#include "simurgh/table/table.h"

namespace simurgh {

enum class LookupMode : uint8_t {
  kTrain,     // Creates rows that are missing; touches recency and use counts.
  kEvaluate,  // Creates and touches nothing; a missing row reads as zeros.
};

// How the pushes of a step's ranks come together.
enum class PushOrder : uint8_t {
  kUnordered,  // Each as it comes.
  kByRank,     // When all have come, one after the other in the order of the ranks.
  kSum,        // When all have come, as one: added up in the order of the ranks.
};

// Where a trainer stands: its run (minted at its start), its rank and its step, from 0.
struct StepId {
  uint64_t run = 0;
  uint32_t rank = 0;
  uint64_t step = 0;
  uint32_t ranks = 1;  // Of the run.
  PushOrder order = PushOrder::kUnordered;

  // Whether a push waits for those of other ranks.
  bool waits_for_ranks() const { return order != PushOrder::kUnordered && ranks > 1; }
};

// The rows of one table that a request wants from one partition.
struct PullGroup {
  uint32_t table = 0;
  std::span<const uint64_t> ids;  // (U)
  EncodedRows rows;               // (U, D) overwritten.
};

struct PullReport {
  uint64_t found = 0;
  uint64_t created = 0;
  uint64_t unseen = 0;   // Evaluation only: read as zeros.
  uint64_t refused = 0;  // Training only: no row made, read as zeros.
  uint64_t evicted = 0;
  uint64_t evicted_for_space = 0;  // Of them, those that went for want of room.
  uint64_t rejected_full = 0;      // Training only: no room, read as zeros.
};

// Gradients for rows of one table, at most one per id.
struct PushGroup {
  uint32_t table = 0;
  float learning_rate = 0;
  std::span<const uint64_t> ids;  // (U)
  CodedGradients gradients;       // (U, D)
};

struct PushReport {
  bool repeated = false;  // This push had been applied before; nothing was done.
  uint64_t updated = 0;
  uint64_t missing = 0;  // Rows evicted since their pull: their gradients are dropped.
};

// Where a partition's rows lie.
struct PartitionMemory {
  // A file of tmpfs or hugetlbfs that outlives the process, made or emptied; empty: private memory.
  std::string file;
  std::optional<uint32_t> numa_node;  // All memory from this node; unset: as the system likes.
};

// The rows of all tables that one thread owns, with what makes pushes apply exactly once.
//
// Threads: one owner, which calls everything.
class Partition {
 public:
  // capacity_rows of each table is this partition's share. `budget`: of the server, shared by its
  // partitions; null: none. Lifetime: it outlives the partition.
  // Errors: RESOURCE_EXHAUSTED when address space cannot be reserved; FAILED_PRECONDITION when
  // another process uses the file; INVALID_ARGUMENT for a NUMA node that is not there.
  static StatusOr<std::unique_ptr<Partition>> Create(const std::vector<TableConfig>& tables,
                                                     uint64_t seed, MemoryBudget* budget = nullptr,
                                                     const PartitionMemory& memory = {});
  ~Partition();

  // Reads rows. `acknowledged_steps` is how many of the rank's first steps have been acknowledged:
  // a partition that does not remember them all has lost rows. Errors: INVALID_ARGUMENT for an
  // unknown table or a wrong dim; DATA_LOSS as above; FAILED_PRECONDITION for a training pull when
  // a table with when_full: stop has no room for a row, which is then and for ever the server's
  // end.
  StatusOr<PullReport> Pull(LookupMode purpose, const StepId& position, uint64_t acknowledged_steps,
                            std::span<const PullGroup> groups);

  // Applies the optimizer, unless the push (run, rank, step, part) has been applied before.
  // Errors: INVALID_ARGUMENT for an unknown table, a wrong dim or part >= parts; DATA_LOSS when the
  // step is so far ahead of the remembered ones that pushes in between must have been lost.
  StatusOr<PushReport> Push(const StepId& position, uint32_t part, uint32_t parts,
                            std::span<const PushGroup> groups);

  // Why the rows will lie in pages of 4 KiB, and what to change; empty when the system gives huge
  // ones.
  std::string HugePageProblem() const;

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

}  // namespace simurgh
