#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "config/cluster_config.h"

namespace simurgh {

// The texts of a column of items, each distinct one once.
struct ItemColumn {
  std::string name;
  std::vector<std::string> values;
  std::vector<uint32_t> codes;  // Indexed by item: index in `values`.

  ItemColumn(std::string column, const std::vector<std::string>& texts);

  const std::string& text(size_t item) const { return values[codes[item]]; }
};

// Items whose cell of a column has one of the values.
struct CellFilter {
  std::string column;
  std::vector<std::string> values;
};

// Returns a bit for each item, set if it passes all filters; empty if there is none.
// columns: of the items. Errors: INVALID_ARGUMENT for an unknown column.
StatusOr<std::vector<uint64_t>> PositionsThatPass(const std::vector<CellFilter>& filters,
                                                  const std::vector<ItemColumn>& columns,
                                                  size_t items);

// Returns the names of the columns in a file of items: those of the model's data by their names
// there, and others. Of JSON those of the first row. Of Parquet and Arrow those of the item's tower
// only.
// Errors: those of RowLines::Open(); INVALID_ARGUMENT for a header that is no CSV, or a row that is
// no JSON; for a model without two towers.
StatusOr<std::vector<std::string>> ItemColumnsIn(const ClusterConfig& config,
                                                 const std::string& file);

// Returns the column whose text names an item: `given`, else that of data.items, else the only id
// column of the item's tower. Errors: INVALID_ARGUMENT if the tower has several or none.
StatusOr<std::string> ItemIdColumn(const ClusterConfig& config, const std::string& given);

}  // namespace simurgh
