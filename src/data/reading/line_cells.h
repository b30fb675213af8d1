#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "base/status.h"
#include "config/data_config.h"
#include "data/reading/batch_reader.h"
#include "data/reading/row_batcher.h"

namespace simurgh {

// Splits lines of rows into the cells that RowBatcher::AddCells() takes.
//
// Threads: one owner.
class LineCells {
 public:
  // config: format of the lines, see LinesOf().
  explicit LineCells(const DataConfig& config);
  ~LineCells();
  LineCells(LineCells&&) noexcept;

  // Returns one cell per column of ColumnsOf(config) without IsTarget. columns: those of the file;
  // null: those of the configuration, in order, or all but targets.
  // Errors: INVALID_ARGUMENT for a line that cannot be split. Lifetime: until the next call, and
  // the line's.
  StatusOr<std::span<const Cell>> Split(std::string_view line, const FileColumns* columns);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace simurgh
