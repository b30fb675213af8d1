#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"

#include "services/embedding_ps/partition_threads.h"
#include "simurgh/base/status.h"
#include "simurgh/config/table_config.h"
#include "simurgh/feature/bucket_map.h"
#include "simurgh/model/model_directory.h"

namespace simurgh {

// Called after each piece with the rows read so far and all rows of the checkpoint, of all servers.
// An error ends the load.
using LoadProgress = absl::FunctionRef<Status(uint64_t rows, uint64_t all_rows)>;

// A server, by its partitions.
struct RowTarget {
  const std::vector<TableConfig>& tables;
  const BucketMap map;
  const uint32_t server;  // Index in the map.
  const PartitionThreads& partitions;
};

// Puts the rows of a checkpoint into a server: those whose ids it owns, of the files of all
// servers. For a delta, rows of the checkpoints that it continues are among them. The numbers of
// servers and partitions may differ from those of the saving cluster. Partitions continue at the
// checkpoint's newest stamp.
//
// Checks all files against the manifest and the tables before the first row is put, and the
// checksums of a piece of rows before its rows are put. Requires tables without rows. After an
// error some rows are there: the server must not be used.
// Errors: INVALID_ARGUMENT for tables that differ from the configuration, naming table, tensor and
// both values; DATA_LOSS and NOT_FOUND for damage, naming file, tensor and rows; of OpenRows,
// Table::PutRows and `progress`.
// Cost: reads ids and stamps of all rows, and the rest of a piece where a row is the server's.
// Needs memory for 65,536 rows of a table, twice.
Status LoadRows(const Checkpoint& checkpoint, const RowTarget& target, LoadProgress progress);

}  // namespace simurgh
