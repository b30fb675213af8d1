#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "config/feature_config.h"
#include "data/processing/feature_consumer.h"
#include "simurgh/plugin.h"

namespace simurgh {

struct PluginPurpose {
  std::string name;                  // Name of the feature or derived column.
  std::vector<std::string> columns;  // Columns whose cells the plug-in receives.
  size_t dense_width = 0;            // Dense values per row; 0: the plug-in makes ids.
};

// An instance of a plug-in. Keeps its shared object loaded.
//
// Threads: one owner; instances of one shared object are independent.
class Plugin {
 public:
  // Loads the shared object and creates an instance.
  // Errors: INVALID_ARGUMENT naming the file: it cannot be loaded, is not a plug-in, has another
  // ABI, or refuses its columns or parameters.
  static StatusOr<Plugin> Create(const PluginConfig& config, const PluginPurpose& purpose);

  // Overwrites ids and weights with those of the row. columns: places of the purpose's columns.
  // Errors: INVALID_ARGUMENT naming the values, for a row that the plug-in refuses, more than
  // max_ids ids or weights that are not finite; FAILED_PRECONDITION if the plug-in cannot continue.
  Status MakeIds(const RowCells& cells, std::span<const size_t> columns, std::vector<uint64_t>& ids,
                 std::vector<float>& weights);

  // Overwrites values, (dense_width), with those of the row. Errors: those of MakeIds.
  Status MakeDense(const RowCells& cells, std::span<const size_t> columns, std::span<float> values);

 private:
  Plugin() = default;

  Status Problem(std::string_view what, const RowCells& row, std::span<const size_t> columns) const;
  Status Process(const RowCells& row, std::span<const size_t> columns, simurgh_output& output);

  std::string prefix_;  // Start of error messages.
  size_t max_ids_ = 0;
  std::shared_ptr<void> object_;  // Outlives the instance.
  const simurgh_plugin* plugin_ = nullptr;
  std::shared_ptr<void> instance_;
  std::vector<simurgh_text> values_;  // Values of the current row, cell after cell.
  std::vector<simurgh_cell> cells_;
};

}  // namespace simurgh
