#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <vector>

#include "absl/functional/function_ref.h"

#include "base/status.h"
#include "config/table_config.h"
#include "embedding/bucket_map.h"
#include "model/model_directory.h"
#include "table/partition.h"

namespace simurgh {

// The partitions of a server, for work outside of requests.
struct PartitionThreads {
  uint32_t count;
  // Calls `use` on the thread of a partition. The caller waits for the future. Afterwards requests
  // that wait for memory try again.
  std::function<std::future<void>(uint32_t partition, std::function<void(Partition&)> use)> on_one;
  // The same for all partitions, each on its thread. Waits.
  std::function<void(absl::FunctionRef<void(uint32_t partition, Partition&)> use)> on_all;
};

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

// Puts the rows of the files tables.N.initial_rows into a server that begins a new training: those
// whose ids it owns. Their optimizer state is that of new rows, see Table::PutInitialRows().
//
// Requires tables without rows. After an error some rows are there: the server must not be used.
// Errors: INVALID_ARGUMENT for a file that does not fit the table, naming table, file, tensor and
// both shapes; of TensorFileReader and Table::PutInitialRows, naming the file.
Status LoadInitialRows(const RowTarget& target, LoadProgress progress);

// The same for the tables of another model, the checkpoint, that have the name and dim of one of
// this server. Other tables, and those with initial_rows, begin without rows. Logs both.
Status LoadStartRows(const Checkpoint& checkpoint, const RowTarget& target, LoadProgress progress);

}  // namespace simurgh
