#pragma once

#include <cstdint>
#include <string>

#include "bench/micro/table/subject.h"
#include "config/table_config.h"
#include "table/arena.h"
#include "table/table.h"

namespace simurgh::bench {

// One partition's table: in private memory that is touched before, or in a file of a directory.
class TableSubject : public Subject {
 public:
  explicit TableSubject(const TableConfig& config, const std::string& directory = {});

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
