#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "bench/micro/table/subject.h"
#include "simurgh/config/table_config.h"
#include "simurgh/table/table.h"
#include "table/arena.h"
#include "table/push_journal.h"

namespace simurgh::bench {

// One partition's table: on memory of its own that is touched before, or in a file for as long as
// it lives, with the journal that pushes keep there.
class TableSubject : public Subject {
 public:
  explicit TableSubject(const TableConfig& config, const std::string& shared_file = {});
  ~TableSubject() override;

  void Pull(const Batch& batch, float* out) override;
  void Push(const Batch& batch, const float* gradients) override;

  TableStats stats() const { return table_.stats(); }

 private:
  TableConfig config_;
  std::string shared_file_;
  Arena arena_;
  std::optional<PushJournal> journal_;
  Table table_;
  uint64_t stamp_ = 0;
};

// What rows of such a table are.
RowKind KindOf(const TableConfig& config);

}  // namespace simurgh::bench
