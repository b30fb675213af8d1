#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "serve/row_table.h"

#include "simurgh/base/status.h"
#include "simurgh/config/table_config.h"
#include "simurgh/model/model_directory.h"
#include "simurgh/serve/row_share.h"

namespace simurgh {

// From files of rows, of any number of servers, to the rows of a share. Layers are by index in
// `tables`.

// Called with the rows read and all rows, those of other shares included; an error ends the load.
using RowProgress = absl::FunctionRef<Status(uint64_t rows, uint64_t all_rows)>;

// The rows of a checkpoint and of those that it continues. Needs memory for the share's rows, and
// some 20 bytes for each id of deltas. A share of several reads all ids twice.
// Errors: of OpenRows(); INVALID_ARGUMENT for other tables; RESOURCE_EXHAUSTED without memory, or
// for more than max_bytes.
StatusOr<std::vector<RowLayers>> LoadRows(const Checkpoint& checkpoint,
                                          const std::vector<TableConfig>& tables,
                                          const RowShare& share, uint64_t max_bytes,
                                          RowProgress progress);

// Adds a delta to the rows of its parent. Errors: as LoadRows().
StatusOr<std::vector<RowLayers>> LoadDelta(const Checkpoint& delta,
                                           const std::vector<TableConfig>& tables,
                                           const RowShare& share,
                                           const std::vector<RowLayers>& before,
                                           uint64_t max_bytes);

// The ids that a delta names, by table: rows that changed, came or went. Reads ids only. None if
// the delta has a table as a whole.
using ChangedIds = std::vector<std::vector<uint64_t>>;
StatusOr<std::optional<ChangedIds>> ReadChangedIds(const Checkpoint& delta,
                                                   const std::vector<TableConfig>& tables);

}  // namespace simurgh
