#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "simurgh/base/status.h"
#include "simurgh/config/data_config.h"
#include "simurgh/config/feature_config.h"
#include "simurgh/data/batch.h"
#include "simurgh/data/cell.h"
#include "simurgh/data/file_columns.h"

namespace simurgh {

// Processes single rows as OpenBatchReader() processes those of files, and collects them in
// batches.
//
// Threads: one owner.
class RowBatcher {
 public:
  // ignore_labels: see ReadOptions. Errors: INVALID_ARGUMENT for a plug-in that cannot be loaded.
  static StatusOr<RowBatcher> Create(const DataConfig& config,
                                     const std::vector<FeatureConfig>& features,
                                     bool ignore_labels);
  ~RowBatcher();
  RowBatcher(RowBatcher&&) noexcept;

  // Adds the row of a line. columns: of its file; null: those of the configuration, in order. A bad
  // row adds nothing.
  // Errors: INVALID_ARGUMENT naming column or feature, value and remedy; FAILED_PRECONDITION from a
  // plug-in that cannot continue.
  Status AddLine(std::string_view line, const FileColumns* columns = nullptr);

  // Adds a row without labels. cells: one per column of ColumnsOf(config) without IsTarget.
  // repeated: by cell, whether it equals that of the last row that AddCells() added to this batch,
  // whose work is then reused; empty: none does. Requires ignore_labels. Errors: as AddLine.
  // Lifetime: texts and lists of a row are used until the next one.
  Status AddCells(std::span<const Cell* const> cells, std::span<const bool> repeated);

  size_t size() const;  // Rows added since the last Build().

  // Returns the rows and starts the next batch. Errors: of BatchBuilder::Build().
  StatusOr<Batch> Build();

 private:
  struct State;
  explicit RowBatcher(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace simurgh
