#pragma once

#include <memory>
#include <tuple>
#include <vector>

#include "simurgh/table/partition.h"
#include "table/arena.h"
#include "table/push_window.h"
#include "table/recency_queue.h"

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
  CopyMemory* copy_memory = nullptr;                                  // Of a copy in progress.
  std::vector<std::tuple<uint64_t, uint32_t, uint64_t>> open_pushes;  // By run, rank and step.
  uint64_t newest_run = 0;                                            // Of the last Clear().
};

}  // namespace simurgh
