#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/process/row_cells.h"
#include "simurgh/base/status.h"
#include "simurgh/config/plugin_config.h"

namespace simurgh {

// What an instance of a plug-in works for.
struct PluginPurpose {
  std::string name;                  // Of a feature or a derived column.
  std::vector<std::string> columns;  // Whose cells it gets.
  size_t dense_width = 0;            // Values to make of a row; 0: ids.
};

// An instance of a plug-in, the only place where the program meets shared objects. It keeps its
// shared object loaded.
//
// Threads: one owner; instances of one shared object are independent.
class Plugin {
 public:
  // Loads the shared object and makes an instance.
  // Errors: INVALID_ARGUMENT naming the file and what is wrong: it cannot be loaded, is no plug-in,
  // is of another ABI, or refuses its parameters.
  static StatusOr<Plugin> Create(const PluginConfig& config, const PluginPurpose& purpose);

  ~Plugin();
  Plugin(Plugin&&) noexcept;
  Plugin& operator=(Plugin&&) noexcept;

  // The row's ids and their weights, overwritten. columns: places of the purpose's columns.
  // Errors: INVALID_ARGUMENT for a row that the plug-in refuses, or more ids than max_ids, or
  // weights that are not finite, naming the values; FAILED_PRECONDITION when it says that it cannot
  // go on.
  Status MakeIds(const RowCells& cells, std::span<const size_t> columns, std::vector<uint64_t>& ids,
                 std::vector<float>& weights);

  // The row's dense values, (dense_width), overwritten. Errors: as MakeIds.
  Status MakeDense(const RowCells& cells, std::span<const size_t> columns, std::span<float> values);

 private:
  struct State;
  explicit Plugin(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace simurgh
