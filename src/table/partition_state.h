#pragma once

#include <memory>
#include <vector>

#include "absl/strings/string_view.h"

#include "simurgh/table/partition.h"
#include "table/arena.h"
#include "table/push_window.h"
#include "table/recency_clock.h"

namespace simurgh {

// A push that has begun and not ended.
struct OpenPush {
  uint64_t run = 0;
  uint32_t rank = 0;
  uint64_t step = 0;

  bool operator==(const OpenPush&) const = default;
};

struct Partition::State {
  State(Arena partition_arena, const std::vector<TableConfig>& configs, uint64_t seed);

  Status CheckGroup(absl::string_view request, uint32_t table, size_t ids, size_t rows,
                    size_t columns) const;
  // The error of a table that is full and has when_full: stop.
  Status TableFull(uint32_t table) const;

  Arena arena;
  std::vector<std::unique_ptr<Table>> tables;
  PushWindow window;
  RecencyClock clock;
  std::vector<OpenPush> open_pushes;
};

}  // namespace simurgh
