#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "config/data_config.h"
#include "config/feature_config.h"
#include "data/batch/batch.h"
#include "data/reading/batch_reader.h"

namespace simurgh {

// One value of a column, where rows do not come from a file.
struct Cell {
  enum class Kind : uint8_t {
    kMissing,
    kText,    // The text of a cell of a file, without quotes.
    kNumber,  // A number of a dense column.
    kList,    // The separate ids of an id column that may have several.
  };

  Kind kind = Kind::kMissing;
  union {  // Only the member of `kind` may be read; for kMissing, none.
    std::string_view text = {};
    double number;
    std::span<const std::string_view> list;
  };
  std::span<const float> weights = {};  // kList: weights of its ids; empty: each is 1.
};

// Processes single rows in the same way as OpenBatchReader() does those of files, and collects them
// in batches.
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

  // Adds the row of a line. columns: those of its file; null: those of the configuration, in order.
  // A bad row adds nothing.
  // Errors: INVALID_ARGUMENT naming column or feature, value and remedy; FAILED_PRECONDITION from a
  // plug-in that cannot continue.
  Status AddLine(std::string_view line, const FileColumns* columns = nullptr);

  // Adds a row without labels. cells: one per column of ColumnsOf(config) without IsTarget.
  // repeated: whether each cell equals that of the last row that AddCells() added to this batch,
  // whose work is then reused; empty: none does. Requires ignore_labels. Errors: those of AddLine.
  // Lifetime: texts and lists of a row are used until the next one.
  Status AddCells(std::span<const Cell* const> cells, std::span<const bool> repeated);

  size_t size() const;  // Returns the number of rows added since the last Build().

  // Returns the rows and starts the next batch. Errors: those of BatchBuilder::Build().
  StatusOr<Batch> Build();

 private:
  struct State;
  explicit RowBatcher(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace simurgh
