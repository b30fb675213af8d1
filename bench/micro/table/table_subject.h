#pragma once

#include <cstdint>
#include <memory>

#include "bench/micro/table/subject.h"

#include "simurgh/config/table_config.h"
#include "simurgh/table/table.h"
#include "table/arena.h"

namespace simurgh::bench {

// One partition's table, on memory that is touched before.
class TableSubject : public Subject {
 public:
  explicit TableSubject(const TableConfig& config);

  void Pull(const Batch& batch, float* out) override;
  void Push(const Batch& batch, const float* gradients) override;

  TableStats stats() const { return table_.stats(); }

 private:
  TableConfig config_;
  Arena arena_;
  Table table_;
  uint64_t stamp_ = 0;
};

// What rows of such a table are.
RowKind KindOf(const TableConfig& config);

}  // namespace simurgh::bench
