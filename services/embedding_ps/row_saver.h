#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"

#include "services/api/row_server.h"
#include "services/embedding_ps/row_task.h"
#include "simurgh/config/table_config.h"
#include "simurgh/table/partition.h"

namespace simurgh {

// Writes all rows of a server into a checkpoint, on its own thread. It takes the rows from the
// partitions' threads in small pieces, between requests. The rows must not change meanwhile. The
// destructor ends a save at the next piece and removes its files.
//
// Threads: any.
class RowSaver {
 public:
  // Calls `use` on the thread of a partition, and waits.
  using OnPartition =
      std::function<void(uint32_t partition, absl::FunctionRef<void(const Partition&)> use)>;

  // directory: checkpoint.directory; empty if nothing is saved.
  RowSaver(std::string directory, std::vector<TableConfig> tables, uint32_t partitions,
           OnPartition on_partition);

  // The first call for a folder starts; the others report. A probe only looks for the folder.
  // Errors: INVALID_ARGUMENT for a name that is not one of a folder in `directory`;
  // FAILED_PRECONDITION without a directory, or while another folder is being written; of
  // TensorFileWriter, when the save has failed.
  StatusOr<SaveProgress> Save(const SaveRowsCall& call);

 private:
  StatusOr<std::vector<ModelFile>> SaveTables(const SaveRowsCall& call,
                                              RowTask::Progress& progress);
  StatusOr<ModelFile> SaveTable(uint32_t table, const std::string& path,
                                RowTask::Progress& progress);
  // Holds all sketches of the server's table in memory: at most 64 MiB at width 256.
  StatusOr<ModelFile> SaveAdmission(uint32_t table, const SaveRowsCall& call);
  uint64_t RowsOf(uint32_t table);

  const std::string directory_;
  const std::vector<TableConfig> tables_;
  const uint32_t partitions_;
  const OnPartition on_partition_;
  RowTask task_;
};

}  // namespace simurgh
